"""Messages to runs: kept until they are received, received once, in one order, before or after a time-out."""

import asyncio
from dataclasses import dataclass

import pytest

from perdure import RunEnded, UnknownRun, receive, step, workflow
from perdure.core.codec import natural_encode
from perdure.core.errors import NotRestorable, NotStorable
from perdure.core.payload import pack
from perdure.stores.base import Advance, Batch, Send
from perdure.stores.rows import InboxKind, Message, WorkerRow

from .tools import FaultyStore, blocked, kinds


async def test_p01_a_message_wakes_only_the_code_that_waits_for_it(perdure_app):
    app, bodies, going, release, received = perdure_app, [], asyncio.Event(), asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> str:
        bodies.append("slow")
        going.set()
        await release.wait()
        return "slow"

    @step
    async def note(value: str) -> str:
        bodies.append(value)
        received.set()
        return value

    @workflow
    async def waits() -> list[str]:
        async def listens() -> str:
            return await note((await receive("wake")).value)

        return await asyncio.gather(slow(), listens())

    run = await app.start(waits())
    await going.wait()
    await run.send("wake", "message")
    await received.wait()  # the code behind the message went on while the step was still under way
    release.set()
    assert await run.result() == ["slow", "message"]
    assert bodies == ["slow", "message"]
    assert await kinds(run) == ["started", "signal", "step", "step"]


async def test_p16_a_message_sent_at_once_is_kept_until_it_is_received(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def prepare() -> None:
        bodies.append(1)

    @workflow
    async def late() -> list[int]:
        await prepare()
        await asyncio.sleep(60)
        return [(await receive("go")).value, (await receive("go")).value]

    run = await app.start(late())
    await run.send("go", 1)
    await run.send("go", 2)
    assert await run.result() == [1, 2]
    assert bodies == [1]


async def test_p16_a_start_can_bring_its_first_message(perdure_app):
    app, seen = perdure_app, []

    @workflow
    async def collects(count: int) -> list[str]:
        for _ in range(count):
            seen.append((await receive("message")).value)
        return seen[-count:]

    run = await app.start(collects(2), id="thread", send=("message", "first"))
    await app.settle()
    again = await app.start(collects(2), id="thread", send=("message", "second"))  # the same run gets it
    assert again.id == run.id
    assert await again.result() == ["first", "second"]
    assert [each.name for each in await run.history() if each.kind == "signal"] == ["message", "message"]


async def test_messages_are_received_in_the_order_in_which_they_were_sent(perdure_app):
    app = perdure_app

    @workflow
    async def hundred() -> list[int]:
        return [(await receive("n")).value for _ in range(100)]

    run = await app.start(hundred())
    for n in range(50):
        await run.send("n", n)
    await app.crash()
    run = app.handle(run.id)
    await asyncio.gather(*(run.send("n", n) for n in range(50, 100)))
    assert await run.result() == list(range(100))


async def test_several_names_at_once_and_the_rest_stays_in_the_mailbox(perdure_app):
    app = perdure_app

    @workflow
    async def chooses() -> list[str]:
        seen = []
        first = await receive("stop", "message")
        seen.append(f"{first.name} {first.value}")
        second = await receive("message")
        seen.append(f"{second.name} {second.value}")
        await asyncio.sleep(10)
        for _ in range(2):
            rest = await receive("other", "stop", timeout=0)
            seen.append(f"{rest.name} {rest.value}")
        return seen

    run = await app.start(chooses())
    for name, value in (("other", 1), ("message", 2), ("stop", 3), ("message", 4)):
        await run.send(name, value)
    assert await run.result() == ["message 2", "message 4", "other 1", "stop 3"]


async def test_two_receivers_of_one_name_get_one_message_each_in_their_order(perdure_app):
    app = perdure_app

    @workflow
    async def pair() -> list[str]:
        async def one(mark: str) -> str:
            return mark + (await receive("m")).value

        return await asyncio.gather(one("a"), one("b"))

    run = await app.start(pair())
    await app.settle()
    await run.send("m", "1")
    await app.crash()
    run = app.handle(run.id)
    await run.send("m", "2")
    assert await run.result() == ["a1", "b2"]


async def test_a_receiver_that_was_cancelled_takes_nothing(perdure_app):
    app = perdure_app

    @workflow
    async def gives_up() -> str:
        waiting = asyncio.create_task(receive("m"))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.sleep(1)
        return (await receive("m")).value

    run = await app.start(gives_up())
    await app.advance("2s")
    await run.send("m", "for the second")
    assert await run.result() == "for the second"


@dataclass
class Order:
    article: str
    count: int = 1


async def test_a_schema_gives_the_value_its_type(perdure_app):
    app = perdure_app

    @workflow
    async def takes() -> str:
        order = (await receive("order", schema=Order)).value
        assert type(order) is Order
        return f"{order.count} {order.article}"

    run = await app.start(takes())
    await run.send("order", Order("tea", 3))
    assert await run.result() == "3 tea"
    other = await app.start(takes())
    await other.send("order", {"article": "milk"})
    assert await other.result() == "1 milk"


async def test_a_message_that_does_not_fit_raises_where_it_is_received(perdure_app):
    app = perdure_app

    @workflow
    async def takes() -> str:
        try:
            await receive("order", schema=Order)
        except NotRestorable as error:
            return f"{error.code} then {(await receive('order', schema=Order)).value.article}"
        return "?"

    run = await app.start(takes())
    await run.send("order", {"count": "many"})
    await run.send("order", {"article": "tea"})
    assert await run.result() == "PRD-303 then tea"


async def test_a_value_that_cannot_be_stored_is_refused_and_nothing_is_sent(perdure_app):
    app = perdure_app

    @workflow
    async def takes() -> object:
        return (await receive("m")).value

    run = await app.start(takes())
    with pytest.raises(NotStorable):
        await run.send("m", object())
    with pytest.raises(NotStorable):
        await run.send("m", float("nan"))
    await run.send("m", "good")
    assert await run.result() == "good"
    assert await kinds(run) == ["started", "signal"]


async def test_p19_time_outs_are_entries_and_a_null_is_a_message(perdure_app):
    app, seen = perdure_app, []

    @step
    async def note(what: str) -> None:
        seen.append(what)

    @workflow
    async def polls() -> list[str]:
        outcomes = []
        for _ in range(5):
            try:
                message = await receive("E", timeout="100ms")
            except TimeoutError:
                outcomes.append("timeout")
            else:
                outcomes.append(f"got {message.value}")
            await note(outcomes[-1])
        return outcomes

    run = await app.start(polls())
    for round in range(5):
        await app.settle()
        assert len(seen) == round
        await app.crash()
        if round == 2:
            await app.handle(run.id).send("E", None)
            await app.settle()
        else:
            await app.advance("100ms")
    run = app.handle(run.id)
    assert await run.result() == ["timeout", "timeout", "got None", "timeout", "timeout"]
    assert seen == ["timeout", "timeout", "got None", "timeout", "timeout"]
    timers = [each.key for each in await run.history() if each.kind == "timer"]
    assert len(set(timers)) == len(timers) == 4


@pytest.mark.parametrize("late", [0, 1])
async def test_a_message_sent_before_the_time_out_wins_though_nobody_works_then(make_app, tmp_path, late):
    """S13 for messages: what counts is when it was sent, not when a worker came to it."""
    url = f"sqlite:///{tmp_path}/r.db"

    @workflow(name="signals.waits_a_minute")
    async def waits() -> str:
        try:
            return (await receive("m", timeout="60s")).value
        except TimeoutError:
            return "timeout"

    async with make_app(url) as app:
        run = await app.start(waits(), id="r")
        await app.settle()
        clock = app.clock
    async with make_app(url, clock=clock, worker=False) as client:
        clock.advance_to(clock.now() + 59_999_999 + late)
        await client.handle(run.id).send("m", "in time")
        clock.advance_to(clock.now() + 3_600_000_000)
    async with make_app(url, clock=clock) as app:
        assert await app.handle(run.id).result() == ("timeout" if late else "in time")


def packed(value):
    return pack(natural_encode(value), cap=1000, where="")[0]


def send_change(app, run_id, value):
    message = Message(number=0, run=0, kind=InboxKind.SIGNAL, name="m", value=value, at=app.clock.now())
    return Send(run_id=run_id, message=message)


async def test_s12_a_message_sent_in_the_instant_of_parking_wakes_the_run(perdure_app):
    app = perdure_app

    @workflow
    async def waits() -> list[str]:
        return [(await receive("m")).value, (await receive("m")).value]

    faulty, sent = FaultyStore.between(app), []
    stranger = faulty.enter(WorkerRow(number=0, role="client", lease_until=1 << 60))

    def commit(batch, write):
        parking = [change for change in batch.changes if isinstance(change, Advance) and change.park is not None]
        if parking and len(sent) < 2:
            # Nobody tells the worker: it has not seen this message, and it parks in this very transaction.
            sent.append(f"message {len(sent)}")
            change = send_change(app, "parks", packed(sent[-1]))
            faulty.inner.commit(Batch(worker=stranger, number=len(sent), lease_until=1 << 60, at=batch.at, changes=[change]))
        return write(batch)

    faulty.on_commit = commit
    run = await app.start(waits(), id="parks")
    assert await run.result() == ["message 0", "message 1"]
    assert await kinds(run) == ["started", "signal", "signal"]


async def test_a_message_that_cannot_be_read_stops_its_run_and_no_other(perdure_app):
    app, going, release = perdure_app, asyncio.Queue(), asyncio.Event()

    @step
    async def stays() -> None:
        going.put_nowait(1)
        await release.wait()

    @workflow
    async def busy() -> str:
        working = asyncio.create_task(stays())
        value = (await receive("m")).value
        await working
        return value

    bad, good = await app.start(busy()), await app.start(busy())
    await going.get()
    await going.get()
    await app.gate.write(send_change(app, bad.id, b"\xff no payload"))
    await good.send("m", "read")
    release.set()
    assert await good.result() == "read"
    assert "no payload" in (await blocked(bad, "PRD-303")).reason


async def test_a_redelivered_message_is_received_once(perdure_app):
    app = perdure_app

    @workflow
    async def counts() -> list[int]:
        seen = []
        while True:
            message = await receive("hook", "end")
            if message.name == "end":
                return seen
            seen.append(message.value)

    run = await app.start(counts())
    await run.send("hook", 1, id="delivery-1")
    await run.send("hook", 1, id="delivery-1")  # both unread
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    await run.send("hook", 1, id="delivery-1")  # read long ago
    await run.send("hook", 2, id="delivery-2")
    await run.send("end")
    assert await run.result() == [1, 2]
    await run.send("hook", 2, id="delivery-2")  # and after the end: it was delivered, so there is nothing to complain of
    with pytest.raises(RunEnded):
        await run.send("hook", 3, id="delivery-3")


async def test_sending_to_what_is_not_there_says_so(perdure_app):
    app = perdure_app

    @workflow
    async def ends() -> None:
        return None

    with pytest.raises(UnknownRun) as unknown:
        await app.handle("nobody").send("m")
    assert unknown.value.code == "PRD-105"
    run = await app.start(ends())
    await run.result()
    with pytest.raises(RunEnded) as ended:
        await run.send("m")
    assert ended.value.code == "PRD-106"


async def test_a_message_of_the_wrong_type_can_be_passed_over(perdure_app):
    app = perdure_app

    @workflow
    async def picky() -> list[str]:
        hints = []
        while True:
            try:
                return [*hints, str((await receive("amount", schema=int)).value)]
            except NotRestorable as error:
                hints.append(error.hint)

    run = await app.start(picky(), send=("amount", "many"))
    await run.send("amount", 3)
    hint, value = await run.result()
    assert "catch NotRestorable" in hint
    assert value == "3"
