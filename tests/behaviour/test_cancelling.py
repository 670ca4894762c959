"""Cancelling: a durable request, recorded once, delivered once; what unwinds has a grace, then the run ends regardless."""

import asyncio
import threading

import pytest

from perdure import AlreadyResolved, Retry, RunFailed, ask, receive, step, workflow
from perdure.stores.base import Advance, Cancel

from .tools import FaultyStore, blocked, cancelled, kinds, lines, until


async def test_a_waiting_run_unwinds_and_ends_cancelled(perdure_app):
    app, seen = perdure_app, []

    @step
    async def tidy() -> None:
        seen.append("tidied")

    @workflow
    async def waits() -> str:
        try:
            return (await receive("go")).value
        except asyncio.CancelledError:
            await tidy()
            raise

    run = await app.start(waits())
    await app.settle()
    assert await run.cancel("too dear", by="ann") == "waiting"
    assert await run.cancel("again", by="bob") in ("waiting", "running")
    await cancelled(run)
    assert seen == ["tidied"]
    assert lines(await run.history()) == ["started ", "cancel ", "step tidy#0"]
    request = (await run.history())[1]
    assert (request.name, request.by) == ("too dear", "ann")
    assert (await run.info()).cancel_requested_at == request.at


async def test_the_request_outlives_a_crash(perdure_app):
    app = perdure_app

    @workflow
    async def waits() -> None:
        await receive("go")

    run = await app.start(waits())
    await app.settle()
    app.worker.draining = True  # nobody claims: the request lies in the store alone
    await run.cancel()
    assert await run.status() == "waiting"
    await app.crash()
    run = app.handle(run.id)
    await cancelled(run)
    assert await kinds(run) == ["started", "cancel"]


async def test_a_run_that_never_began_ends_without_its_code(make_app):
    bodies = []

    @workflow
    async def runs() -> None:
        bodies.append(1)

    async with make_app(worker=False) as app:
        run = await app.start(runs())
        assert await run.cancel() == "queued"
        assert await run.status() == "cancelled"
        assert await run.history() == []
    async with make_app() as app:
        run = await app.start(runs(), delay="1h")
        assert await run.status() == "delayed"
        assert await run.cancel() == "delayed"
        await app.advance("2h")
        await cancelled(run)
    assert bodies == []


async def test_a_blocked_run_ends_without_its_code(perdure_app):
    app, unwound = perdure_app, []

    @workflow
    async def refused() -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, print)
        finally:
            unwound.append(1)

    run = await app.start(refused())
    await blocked(run, "PRD-402")
    before = list(unwound)
    assert await run.cancel() == "blocked"
    await cancelled(run)
    assert unwound == before
    assert await kinds(run) == ["started"]


async def test_a_cancelled_run_that_can_no_longer_be_replayed_ends_all_the_same(perdure_app):
    """The request came first, then the claim found that the code had changed: nothing is left to decide."""
    app = perdure_app

    @step
    async def first() -> int:
        return 1

    @step
    async def other() -> int:
        return 2

    def deploy(what):
        @workflow(name="cancelling.changed")
        async def changed() -> None:
            await what()
            await receive("go")

        return changed

    run = await app.start(deploy(first)())
    await app.settle()
    deploy(other)
    await run.cancel()
    await cancelled(run)
    assert lines(await run.history()) == ["started ", "step first#0", "cancel "]


async def test_p08_an_ended_run_stays_as_it_is(perdure_app):
    app = perdure_app

    @workflow
    async def answers() -> int:
        return 42

    @workflow
    async def fails() -> None:
        raise ValueError("no")

    run, failed = await app.start(answers()), await app.start(fails())
    assert await run.result() == 42
    with pytest.raises(RunFailed):
        await failed.result()
    assert await run.cancel() == "succeeded"
    assert await failed.cancel() == "failed"
    await app.settle()
    assert await run.result() == 42
    assert await run.status() == "succeeded"
    assert (await run.info()).cancel_requested_at is None
    assert await kinds(run) == ["started"]


@pytest.mark.parametrize("order", ["cancel first", "end first"])
async def test_p08_a_cancellation_in_the_instant_of_the_end(perdure_app, order):
    """Both in one transaction: whichever order, there is one outcome, and the canceller is told what it was too late for."""
    app = perdure_app
    store, told = FaultyStore.between(app), []

    @step
    async def work() -> int:
        return 1

    @workflow
    async def answers() -> int:
        return await work()

    def commit(batch, write):
        at = next((n for n, each in enumerate(batch.changes) if isinstance(each, Advance) and each.end is not None), None)
        if at is None or told:
            return write(batch)
        at += order == "end first"
        batch.changes.insert(at, Cancel(run_id="instant", by="ann", at=batch.at))
        outcomes = write(batch)
        del batch.changes[at]
        told.append(outcomes.pop(at))
        return outcomes

    store.on_commit = commit
    run = await app.start(answers(), id="instant")
    assert await run.result() == 1
    await app.settle()
    assert told == ["running" if order == "cancel first" else "succeeded"]
    assert await run.cancel() == "succeeded"
    assert await kinds(run) == ["started", "step"]
    assert await app.gate.read(app.gate.store.check) == []


async def test_x24_a_step_under_way_is_stopped_at_once(perdure_app):
    app, seen, going = perdure_app, [], asyncio.Event()

    @step(retry=5)
    async def slow() -> None:
        going.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(app.clock.now())
            raise

    @workflow
    async def works() -> None:
        await slow()

    run = await app.start(works())
    await going.wait()
    asked = app.clock.now()
    assert await run.cancel() == "running"
    await cancelled(run)
    await until(lambda: seen == [asked], "the step to be stopped")
    assert await kinds(run) == ["started", "cancel"]


async def test_p59_a_step_that_cannot_be_stopped_is_left_behind(perdure_app):
    app, going, release, over = perdure_app, threading.Event(), threading.Event(), []

    @step
    def in_c_code() -> int:
        going.set()
        release.wait(30)
        over.append(1)
        return 1

    @step
    async def swallows() -> int:
        while not release.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue
        over.append(1)
        return 2

    @workflow
    async def works() -> list[int]:
        return list(await asyncio.gather(in_c_code(), swallows()))

    run = await app.start(works())
    await until(going.is_set, "the thread")
    asked = app.clock.now()
    await run.cancel()
    await cancelled(run)
    assert app.clock.now() == asked
    assert over == []
    release.set()
    await until(lambda: over == [1, 1], "the bodies to end")
    await app.settle()
    assert await kinds(run) == ["started", "cancel"]


async def test_a_step_cut_off_by_a_crash_is_not_started_again_to_be_cancelled(perdure_app):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step
    async def paid() -> None:
        bodies.append(1)
        going.set()
        await asyncio.Event().wait()

    @workflow
    async def works() -> None:
        await paid()

    run = await app.start(works())
    await going.wait()
    app.worker.poll = lambda: None  # the request is not seen before the crash
    await run.cancel()
    await app.crash()
    run = app.handle(run.id)
    await cancelled(run)
    await app.settle()
    assert bodies == [1]
    assert await kinds(run) == ["started", "cancel"]


async def test_a_run_in_a_long_back_off_is_cancelled_at_once(perdure_app):
    app, bodies = perdure_app, []

    @step(retry=Retry(attempts=2, initial="1d", jitter=0))
    async def fails() -> None:
        bodies.append(1)
        raise ConnectionError("down")

    @workflow
    async def works() -> None:
        await fails()

    run = await app.start(works())
    await app.settle()
    asked = app.clock.now()
    await run.cancel()
    await cancelled(run)
    assert app.clock.now() == asked
    await app.advance("2d")
    assert bodies == [1]


async def test_p35_open_asks_leave_the_inbox_with_their_run(perdure_app):
    app, ids = perdure_app, []

    @workflow
    async def asks() -> list[bool]:
        questions = [ask("first?"), ask("second?", timeout="1d", default=False)]
        ids.extend(each.id for each in questions)
        return [await each for each in questions]

    run = await app.start(asks())
    await app.settle()
    assert [each.question for each in (await app.inbox()).items] == ["first?", "second?"]
    app.worker.draining = True  # before any code of the run is asked
    await run.cancel()
    assert (await app.inbox()).items == []
    with pytest.raises(AlreadyResolved):
        await app.answer(ids[0], True)
    app.worker.draining = False
    app.worker.take()
    await cancelled(run)
    again = await app.start(asks(), id=run.id, if_exists="replace")
    await app.settle()
    assert len((await app.inbox()).items) == 2
    assert await again.status() == "waiting"


async def test_p61_awaiting_a_result_only_observes(perdure_app):
    app = perdure_app

    @workflow
    async def waits() -> str:
        return (await receive("go")).value

    run = await app.start(waits())
    request = asyncio.create_task(run.result())
    await app.settle()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.01)
    await app.settle()
    assert await run.status() == "waiting"
    assert (await run.info()).cancel_requested_at is None
    await run.send("go", "on")
    assert await run.result() == "on"


@pytest.mark.parametrize("error", [RuntimeError("cancelled"), asyncio.CancelledError("cancelled")], ids=["text", "type"])
async def test_p18_an_error_that_looks_like_a_cancellation_is_none(perdure_app, error):
    @step
    async def fails() -> None:
        raise error

    @workflow
    async def works() -> None:
        await fails()

    run = await perdure_app.start(works())
    with pytest.raises(RunFailed):
        await run.result()
    assert await run.status() == "failed"
    assert (await run.info()).cancel_requested_at is None


async def test_a_resident_run_is_cancelled_and_so_is_one_of_another_process(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/runs.db"

    @workflow
    async def waits() -> None:
        await receive("go")

    async with make_app(url, residency="1h") as app:
        resident, asked = await app.start(waits(), id="resident"), await app.start(waits(), id="asked")
        await app.settle()
        assert len(app.worker.drivers) == 2
        await resident.cancel()
        await cancelled(resident)
        async with make_app(url, worker=False, clock=app.clock) as outside:
            await outside.handle(asked.id).cancel(by="somebody else")
        app.worker.look()
        await cancelled(asked)
        assert (await asked.history())[-1].by == "somebody else"


async def test_a_run_that_is_cancelled_while_it_is_being_blocked_ends(perdure_app):
    """An attempt is still under way when the run blocks; the cancellation comes before it has ended."""
    app, going, release = perdure_app, asyncio.Event(), asyncio.Event()

    @step
    async def work() -> None:
        going.set()
        await release.wait()

    @step
    async def quick() -> None:
        return None

    @workflow
    async def refused() -> None:
        task = asyncio.create_task(work())
        await quick()
        await asyncio.get_running_loop().run_in_executor(None, print)
        await task

    run = await app.start(refused())
    await going.wait()
    await until(lambda: next(iter(app.worker.drivers.values())).halting, "the run to block")
    assert await run.cancel() == "running"
    release.set()
    await cancelled(run)
    assert sorted(await kinds(run)) == ["cancel", "started", "step", "step"]
