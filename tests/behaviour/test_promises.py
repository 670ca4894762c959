"""Waits that last: promises completed from outside, deadlines kept over crashes, addresses, pages of the inbox."""

import asyncio
import contextlib

import pytest

from perdure import AlreadyResolved, InvalidAnswer, RunEnded, RunFailed, ask, promise, receive, step, workflow

from .tools import cancelled, has, kinds


async def test_a_promise_is_resolved_or_rejected_from_outside(perdure_app):
    app, ids = perdure_app, []

    @workflow
    async def orders() -> list[str]:
        paid, shipped, weighed = promise("paid", schema=int), promise("shipped"), promise("weighed", schema=float)
        ids[:] = [each.id for each in (paid, shipped, weighed)]
        seen = [str(await paid)]
        for each in (shipped, weighed):
            try:
                await each
            except Exception as error:
                seen.append(f"{type(error).__name__} {error} {each.answered_by}")
        return seen

    run = await app.start(orders())
    await app.settle()
    assert (await app.inbox()).items == []  # promises are no questions to people
    assert all(id.startswith("promise-") for id in ids)
    with pytest.raises(InvalidAnswer):
        await app.resolve(ids[0], "five")
    await app.reject(ids[1], LookupError("lost"), by="carrier")
    await app.crash()
    await app.reject(ids[2], "no scales")
    await app.resolve(ids[0], 5, by="bank")
    assert await app.handle(run.id).result() == ["5", "LookupError lost carrier", "RuntimeError no scales None"]
    with pytest.raises(AlreadyResolved):
        await app.resolve(ids[0], 6)


async def test_a_promise_may_be_completed_before_it_is_awaited_and_awaited_by_many(perdure_app):
    app, ids = perdure_app, []

    @workflow
    async def waits() -> list[int]:
        value = promise("value", schema=int)
        ids[:] = [value.id]

        async def reader() -> int:
            return await value

        early = asyncio.create_task(reader())
        given_up = asyncio.create_task(reader())
        await asyncio.sleep(60)
        given_up.cancel()
        await asyncio.sleep(60)
        assert value.done
        return [await early, await value, *await asyncio.gather(reader(), reader())]

    run = await app.start(waits())
    await app.advance("90s")
    await app.resolve(ids[0], 7)
    assert await run.result() == [7, 7, 7, 7]


async def test_s27_whoever_clicks_at_once_finds_the_ask(make_app):
    async with make_app(public_url="https://agents.example/", secret="s3cret") as app:
        mailed = []

        @step
        async def mail(url: str, id: str) -> None:
            mailed.append(url)
            await app.answer(id, True, by="fast reader")

        @workflow
        async def approves() -> str:
            question = ask("Go?")
            await mail(question.url, question.id)
            return f"{question.done} {await question} {question.answered_by}"

        assert (await app.run(approves())).endswith("True fast reader")
        address, _, signature = mailed[0].partition("?signature=")
        assert address.startswith("https://agents.example/v1/promises/ask-")
        assert len(signature) == 32
        await app.run(approves())
        assert len(set(mailed)) == 2


@pytest.mark.parametrize(
    ("options", "start"), [({}, "perdure:ask-"), ({"public_url": "http://h"}, "http://h/v1/promises/ask-")]
)
async def test_the_address_of_an_ask(make_app, options, start):
    async with make_app(**options) as app:

        @workflow
        async def asks() -> str:
            return ask("q?", timeout="1s", default=True).url

        url = await app.run(asks())
        assert url.startswith(start)
        assert "signature" not in url


async def test_p24_execution_time_and_waiting_time_are_counted_apart(perdure_app):
    app, attempts = perdure_app, []

    @step(timeout="2s")
    async def quick() -> None:
        attempts.append(1)

    @workflow(timeout="5s")
    async def works_little() -> bool:
        await quick()
        return await ask("Take your time?")

    @workflow(deadline="5s")
    async def hurries() -> bool:
        return await ask("Never answered?")

    patient, hurried = await app.start(works_little()), await app.start(hurries())
    await app.advance("4s")
    assert len((await app.inbox()).items) == 2
    await app.advance("1s")
    with pytest.raises(RunFailed, match="deadline") as failed:
        await hurried.result()
    assert isinstance(failed.value.__cause__, TimeoutError)
    await app.advance("10h")
    (shown,) = (await app.inbox()).items
    await app.answer(shown.id, True)
    assert await patient.result() is True
    assert attempts == [1]


async def test_x15_deadlines_are_stored_once_and_no_recovery_sets_them_anew(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/r.db"

    @workflow(name="promises.hurries", deadline="1h")
    async def hurries() -> bool:
        return await ask("Never answered?")

    @workflow(name="promises.waits")
    async def waits() -> list[str]:
        try:
            await ask("q?", timeout="1h")
        except TimeoutError as error:
            try:
                await receive("m", timeout="10m")
            except TimeoutError as second:
                return [str(error), str(second)]
        return []

    async with make_app(url, worker=False) as client:
        clock = client.clock
        begun = clock.now()
        await client.start(hurries(), id="queued")
        clock.advance_to(begun + 1_800_000_000)
    ends = []
    async with make_app(url, clock=clock) as app:
        await app.start(waits(), id="waiting")
        for _ in range(6):
            await app.advance("4m")
            await app.crash()
        for id in ("queued", "waiting"):
            with contextlib.suppress(RunFailed):
                await app.handle(id).result()
            info = await app.handle(id).info()
            ends.append((info.status, (info.ended_at - info.created_at).total_seconds()))
        assert await app.handle("waiting").result() == ["nobody answered 'q?' in time", "no message m came in time"]
    assert ends == [("failed", 3600), ("succeeded", 4200)]


async def test_p62_an_open_ask_is_found_and_answered_from_storage_alone(make_app, tmp_path):
    url, bodies = f"sqlite:///{tmp_path}/r.db", []

    @step(name="promises.paid")
    async def paid() -> str:
        bodies.append(1)
        return "paid"

    @workflow(name="promises.approves")
    async def approves() -> str:
        first = await paid()
        return f"{first} {await ask('Go on?', schema=str, to='ann')}"

    async with make_app(url) as app:
        await app.start(approves(), id="r")
        await app.settle()
        app._worker.stop_at_once()  # nothing is handed back: the process is gone
    async with make_app(url, worker=False) as client:  # and this one has never heard of the workflow's promises
        (shown,) = (await client.inbox(to="ann")).items
        assert (shown.run, shown.question, shown.schema) == ("r", "Go on?", {"type": "string"})
        await client.answer(shown.id, "yes", by="ann")
    async with make_app(url) as app:
        assert await app.handle("r").result() == "paid yes"
        assert await kinds(app.handle("r")) == ["started", "step", "opened", "resolved"]
    assert bodies == [1]


async def test_p35_a_cancelled_run_leaves_nothing_open_and_the_next_one_is_free(perdure_app):
    app = perdure_app

    @workflow
    async def turn(text: str) -> str:
        return f"{text} {await ask('Allowed?', schema=str)}"

    run = await app.start(turn("first"), id="thread")
    old = await app.next_ask()
    await run.cancel(by="user")
    await cancelled(run)
    assert (await app.inbox()).items == []
    with pytest.raises(AlreadyResolved, match="cancelled"):
        await app.answer(old.id, "late")
    with pytest.raises(RunEnded):
        await run.send("message", "more")
    again = await app.start(turn("second"), id="thread", if_exists="retry_failed", send=("message", "kept"))
    shown = await app.next_ask()
    assert shown.id != old.id
    await app.answer(shown.id, "yes")
    assert await again.result() == "second yes"


async def test_the_inbox_is_in_pages_oldest_first(perdure_app):
    app = perdure_app

    @workflow
    async def asks(n: int) -> bool:
        promise("no question")
        return await ask(f"{n}?", to="ann" if n % 2 else "bob")

    for n in range(7):
        await app.start(asks(n))
        await app.settle()
    seen, after = [], None
    while True:
        page = await app.inbox(limit=3, after=after)
        seen.append([each.question for each in page.items])
        if page.items and page.items[-1].question == "2?":
            await app.answer(page.items[-1].id, True)  # one that is gone is still a place to go on from
        after = page.next
        if after is None:
            break
    assert seen == [["0?", "1?", "2?"], ["3?", "4?", "5?"], ["6?"]]
    assert [each.question for each in (await app.inbox(to="ann")).items] == ["1?", "3?", "5?"]


async def test_what_came_while_nobody_worked_is_fed_in_its_order(make_app, tmp_path):
    """A worker comes late: timers due before an answer come before it, and a message sent before it too."""
    url = f"sqlite:///{tmp_path}/r.db"

    @workflow(name="promises.races")
    async def races() -> list[str]:
        seen = []

        async def note(mark: str, wait) -> None:
            await wait
            seen.append(mark)

        await asyncio.gather(
            note("answer at 30", ask("q?", timeout="60s", default=False)),
            note("message at 10", receive("m")),
            note("timer at 20", asyncio.sleep(20)),
            note("timer at 40", asyncio.sleep(40)),
            note("message at 50", receive("n")),
        )
        return seen

    async with make_app(url) as app:
        await app.start(races(), id="r")
        await app.settle()
        shown, clock = (await app.inbox()).items[0], app.clock
    async with make_app(url, clock=clock, worker=False) as client:
        begun = clock.now()
        clock.advance_to(begun + 10_000_000)
        await client.handle("r").send("m")
        clock.advance_to(begun + 30_000_000)
        await client.answer(shown.id, True)
        clock.advance_to(begun + 50_000_000)
        await client.handle("r").send("n")
        clock.advance_to(begun + 500_000_000)
    async with make_app(url, clock=clock) as app:
        run = app.handle("r")
        assert await run.result() == ["message at 10", "timer at 20", "answer at 30", "timer at 40", "message at 50"]
        started, *rest = [each.at for each in await run.history() if each.kind != "opened"]
        assert [(at - started).seconds for at in rest] == [10, 20, 30, 40, 50]
        assert await has(run, "resolved")
