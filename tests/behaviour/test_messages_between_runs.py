"""Messages that are answered, and messages from run to run: each is there once, whatever crashes."""

import asyncio

import pytest

from perdure import RunEnded, RunFailed, UnknownRun, WrongContext, current_run, receive, send, start, step, workflow
from perdure.stores.base import Advance

from .tools import FaultyStore, kinds, until

# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_request_waits_for_the_reply(perdure_app):
    app = perdure_app

    @workflow
    async def counter() -> int:
        total = 0
        while True:
            message = await receive("add", "stop")
            if message.name == "stop":
                return total
            total += message.value
            await message.reply({"total": total})

    run = await app.start(counter())
    assert await run.request("add", 5) == {"total": 5}
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    replies = await asyncio.gather(*(run.request("add", 1) for _ in range(3)))
    assert sorted(each["total"] for each in replies) == [6, 7, 8]
    await run.send("stop")
    assert await run.result() == 8
    assert (await kinds(run)).count("replied") == 4


async def test_the_same_request_again_gets_the_same_reply(perdure_app):
    app, handled = perdure_app, []

    @step
    async def handle(value: int) -> int:
        handled.append(value)
        return value * 2

    @workflow
    async def doubles() -> None:
        while True:
            message = await receive("double")
            await message.reply(await handle(message.value))

    run = await app.start(doubles())
    assert await run.request("double", 4, id="request-1") == 8
    assert await run.request("double", 4, id="request-1") == 8
    await run.cancel()
    await app.settle()
    assert await run.request("double", 4, id="request-1") == 8
    assert handled == [4]


async def test_a_request_to_a_run_that_ends_without_a_reply_raises(perdure_app):
    app = perdure_app

    @workflow
    async def silent() -> None:
        await receive("question")

    @workflow
    async def last_words() -> None:
        await (await receive("question")).reply("bye")

    run = await app.start(silent())
    with pytest.raises(RunEnded, match="without replying"):
        await run.request("question")
    run = await app.start(last_words())
    assert await run.request("question") == "bye"


async def test_a_request_that_is_not_answered_in_time_raises_and_the_message_stands(perdure_app):
    app = perdure_app

    @workflow
    async def slow() -> str:
        message = await receive("question")
        await asyncio.sleep(3600)
        await message.reply("late")
        return message.value

    run = await app.start(slow())
    before = app.clock.now()
    with pytest.raises(TimeoutError):
        await run.request("question", "why", timeout="10m")
    assert app.clock.now() - before == 600_000_000
    assert await run.result() == "why"


async def test_a_message_that_was_just_sent_has_no_address_to_reply_to(perdure_app):
    app = perdure_app

    @workflow
    async def replies() -> None:
        await (await receive("m")).reply(1)

    run = await app.start(replies())
    await run.send("m")
    with pytest.raises(RunFailed) as failed:
        await run.result()
    assert isinstance(failed.value.__cause__, WrongContext)


# ── from run to run ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_sends_to_another_exactly_once_over_crashes(perdure_app):
    app, sender_went_on = perdure_app, []

    @step
    async def note() -> None:
        sender_went_on.append(1)

    @workflow
    async def sends(to: str) -> None:
        for n in range(4):
            await send(to, "n", n)
            await note()
            await asyncio.sleep(60)
        await send(to, "end")

    @workflow
    async def collects() -> list[str]:
        seen = []
        while (message := await receive("n", "end")).name != "end":
            seen.append(f"{message.value} by {message.sender}")
        return seen

    await app.start(collects(), id="collector")
    await app.start(sends("collector"), id="sender")
    for _ in range(5):
        await app.settle()
        await app.crash()
        await app.advance("30s")
        await app.crash()
        await app.advance("30s")
    assert await app.handle("collector").result() == [f"{n} by run sender" for n in range(4)]
    assert len(sender_went_on) == 4
    assert (await kinds(app.handle("sender"))).count("sent") == 5


async def test_a_batch_lost_before_it_was_written_sends_nothing_and_then_once(perdure_app):
    app = perdure_app

    @workflow
    async def sends(to: str) -> None:
        await send(to, "m", 1)

    @workflow
    async def collects() -> list[int]:
        first = (await receive("m")).value
        try:
            return [first, (await receive("m", timeout="1h")).value]
        except TimeoutError:
            return [first]

    faulty = FaultyStore.between(app)
    run = await app.start(collects(), id="collector")
    await app.settle()
    left = faulty.fail(1, lambda change: isinstance(change, Advance) and change.sends)
    await app.start(sends("collector"))
    await until(lambda: left == [0], "the failure")
    app.clock.jump()  # the pause before the next try
    assert await run.result() == [1]


async def test_sending_to_an_unknown_or_ended_run_is_recorded_and_raised(perdure_app):
    app = perdure_app

    @workflow
    async def ends() -> None:
        return None

    @workflow
    async def sends() -> list[str]:
        problems = []
        for id in ("extended", "over"):  # the first name must not be taken for what it sounds like
            try:
                await send(id, "m")
            except (UnknownRun, RunEnded) as error:
                problems.append(type(error).__name__)
        await asyncio.sleep(60)
        return problems

    await app.run(ends(), id="over")
    run = await app.start(sends())
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    assert await run.result() == ["UnknownRun", "RunEnded"]
    assert [each.failed for each in await run.history() if each.kind == "sent"] == [True, True]


async def test_a_run_may_send_to_itself_and_to_its_child(perdure_app):
    app = perdure_app

    @workflow
    async def child() -> str:
        return "child got " + (await receive("m")).value

    @workflow
    async def parent() -> list[str]:
        handle = await start(child())
        await send(handle.id, "m", "this")
        await send(current_run().id, "own", "that")
        return [await handle, (await receive("own")).value]

    assert await app.run(parent()) == ["child got this", "that"]
