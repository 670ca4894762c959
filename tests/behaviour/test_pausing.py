"""Pausing: attempts end and are recorded, nothing is fed and nothing starts, deadlines run on; resuming goes on from there."""

import asyncio

import pytest

from perdure import Retry, RunEnded, RunFailed, ask, now, receive, step, workflow

from .tools import cancelled, kinds, lines, until

SECOND = 1_000_000


async def paused(run):
    """Wait until a run is set aside."""

    async def is_paused():
        return await run.status() == "paused"

    await until(is_paused, "the run to be set aside")


async def test_the_attempt_under_way_ends_and_is_recorded_and_nothing_more_starts(perdure_app):
    app, bodies, going, release = perdure_app, [], asyncio.Event(), asyncio.Event()

    @step
    async def work(n: int) -> int:
        bodies.append(n)
        going.set()
        await release.wait()
        return n

    @workflow
    async def works() -> int:
        return await work(1) + await work(2)

    run = await app.start(works())
    await going.wait()
    assert await run.pause(by="ann") == "running"
    assert await run.status() == "running"
    release.set()
    await paused(run)
    await app.advance("1d")
    assert bodies == [1]
    assert lines(await run.history()) == ["started ", "step work#0"]
    assert not app.worker.drivers
    await app.crash()
    await app.settle()
    run = app.handle(run.id)
    assert await run.status() == "paused"
    assert await run.resume() == "paused"
    assert await run.result() == 3
    assert bodies == [1, 2]


async def test_a_pause_met_by_a_crash_is_not_forgotten(perdure_app):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step
    async def work() -> int:
        bodies.append(1)
        if len(bodies) == 1:
            going.set()
            await asyncio.Event().wait()
        return 5

    @workflow
    async def works() -> int:
        return await work()

    run = await app.start(works())
    await going.wait()
    await run.pause()
    await until(lambda: next(iter(app.worker.drivers.values())).halting, "the pause to be heard")
    await app.crash()
    run = app.handle(run.id)
    await paused(run)
    assert bodies == [1], "the step is not begun again while the run is paused"
    await run.resume()
    assert await run.result() == 5
    assert bodies == [1, 1]
    assert await kinds(run) == ["started", "step"]


async def test_a_pause_met_by_a_drain_is_not_forgotten(perdure_app):
    app, bodies, going, release = perdure_app, [], asyncio.Event(), asyncio.Event()

    @step
    async def work(n: int) -> int:
        bodies.append(n)
        going.set()
        await release.wait()
        return n

    @workflow
    async def works() -> int:
        return await work(1) + await work(2)

    run = await app.start(works())
    await going.wait()
    draining = asyncio.create_task(app.worker.drain(30 * SECOND))
    await asyncio.sleep(0)
    await run.pause()
    release.set()
    await draining
    await app.crash()
    run = app.handle(run.id)
    await app.settle()
    assert await run.status() == "paused"
    assert bodies == [1]
    await run.resume()
    assert await run.result() == 3
    assert bodies == [1, 2]


async def test_resumed_before_it_was_set_aside_it_just_goes_on(perdure_app):
    app, bodies, going, release = perdure_app, [], asyncio.Event(), asyncio.Event()

    @step
    async def work(n: int) -> int:
        bodies.append(n)
        going.set()
        await release.wait()
        return n

    @workflow
    async def works() -> int:
        a, b = asyncio.create_task(work(1)), asyncio.create_task(quick())
        return await a + await b + await work(3)

    @step
    async def quick() -> int:
        return 2

    run = await app.start(works())
    await going.wait()
    await run.pause()
    await until(lambda: next(iter(app.worker.drivers.values())).halting, "the pause to be heard")
    await run.resume()
    release.set()
    assert await run.result() == 6
    assert bodies == [1, 3]
    info = await run.info()
    assert await app.gate.read(lambda: app.gate.store.messages_for(info.number)) == []


@pytest.mark.parametrize("again", [False, True])
async def test_resuming_undoes_a_pause_that_a_crash_left_in_the_inbox(perdure_app, again):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step
    async def work() -> int:
        bodies.append(1)
        if len(bodies) == 1:
            going.set()
            await asyncio.Event().wait()
        return 5

    @workflow
    async def works() -> int:
        return await work()

    run = await app.start(works())
    await going.wait()
    await run.pause()
    worker, take = type(app.worker), type(app.worker).take
    worker.take = lambda self: None  # whoever comes back claims nothing yet
    try:
        await app.crash()
        run = app.handle(run.id)
        if again:
            assert await run.pause() == "queued"
        assert await run.resume() == ("paused" if again else "queued")
    finally:
        worker.take = take
    app.worker.take()
    assert await run.result() == 5
    assert bodies == [1, 1]


@pytest.mark.parametrize("state", ["waiting", "resident"])
async def test_a_waiting_run_is_paused_and_its_messages_wait(make_app, state):
    async with make_app(residency="1h" if state == "resident" else 0) as app:
        seen = []

        @step
        async def note(what: str) -> None:
            seen.append(what)

        @workflow
        async def listens() -> list[str]:
            for _ in range(2):
                await note((await receive("say")).value)
            return seen

        run = await app.start(listens())
        await app.settle()
        assert bool(app.worker.drivers) is (state == "resident")
        await run.pause()
        await app.settle()
        assert await run.status() == "paused"
        await run.send("say", "one")
        await run.send("say", "two")
        await app.settle()
        assert seen == []
        assert await run.status() == "paused"
        await run.resume()
        assert await run.result() == ["one", "two"]


async def test_timers_run_on_while_it_is_paused(perdure_app):
    app = perdure_app

    @workflow
    async def sleeps() -> list[str]:
        await asyncio.sleep(600)
        first = now().strftime("%H:%M")
        await asyncio.sleep(600)
        return [first, now().strftime("%H:%M")]

    run = await app.start(sleeps())
    await app.settle()
    await run.pause()
    await app.advance("15m")
    assert await run.status() == "paused"
    assert await kinds(run) == ["started"]
    await run.resume()
    assert await run.result() == ["00:10", "00:20"]


async def test_a_deadline_that_passed_during_the_pause_ends_the_run(perdure_app):
    app = perdure_app

    @workflow(deadline="10m")
    async def waits() -> str:
        return (await receive("go")).value

    run = await app.start(waits())
    await app.settle()
    await run.pause()
    await app.advance("1h")
    assert await run.status() == "paused"
    await run.resume()
    with pytest.raises(RunFailed) as caught:
        await run.result()
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert await kinds(run) == ["started", "expired"]


async def test_an_ask_of_a_paused_run_is_answered_in_time_or_not_at_all(perdure_app):
    app = perdure_app

    @workflow
    async def asks() -> list[bool]:
        questions = [ask("in time?", timeout="10m", default=False), ask("too late?", timeout="10m", default=False)]
        return [await each for each in questions]

    run = await app.start(asks())
    await app.settle()
    await run.pause()
    question = await app.next_ask()
    assert question.question == "in time?"
    await app.answer(question.id, True)
    await app.advance("1h")
    await run.resume()
    assert await run.result() == [True, False]


async def test_a_paused_run_in_back_off_tries_again_only_when_it_is_resumed(perdure_app):
    app, bodies = perdure_app, []

    @step(retry=Retry(attempts=2, initial="10m", jitter=0))
    async def flaky() -> int:
        bodies.append(app.clock.now())
        if len(bodies) == 1:
            raise ConnectionError("down")
        return 5

    @workflow
    async def works() -> int:
        return await flaky()

    run = await app.start(works())
    await app.settle()
    await run.pause()
    await app.advance("1h")
    assert len(bodies) == 1
    await run.resume()
    assert await run.result() == 5
    assert bodies[1] - bodies[0] == 3600 * SECOND


async def test_a_queued_run_that_is_paused_does_not_begin(make_app):
    bodies = []

    @step
    async def work() -> int:
        bodies.append(1)
        return 5

    @workflow
    async def works() -> int:
        return await work()

    async with make_app() as app:
        app.worker.draining = True
        run = await app.start(works())
        assert await run.pause() == "queued"
        app.worker.draining = False
        app.worker.take()
        await app.advance("1h")
        assert bodies == []
        assert await run.pause() == "paused"
        assert await run.resume() == "paused"
        assert await run.result() == 5


@pytest.mark.parametrize("resumed_after", ["10m", "3h"])
async def test_a_delayed_run_keeps_its_start_time_through_a_pause(perdure_app, resumed_after):
    app, began = perdure_app, []

    @step
    async def work() -> None:
        began.append(app.clock.now())

    @workflow
    async def works() -> None:
        await work()

    start = app.clock.now()
    run = await app.start(works(), delay="2h")
    await app.settle()
    assert await run.pause() == "delayed"
    assert await run.pause() == "paused"
    await app.advance(resumed_after)
    assert began == []
    await run.resume()
    assert await run.status() in (("delayed",) if resumed_after == "10m" else ("queued", "running"))
    await run.result()
    assert began == [start + (2 if resumed_after == "10m" else 3) * 3600 * SECOND]


async def test_a_paused_run_that_is_cancelled_unwinds(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def tidy() -> None:
        bodies.append(1)

    @workflow
    async def waits() -> None:
        try:
            await receive("never")
        finally:
            await tidy()

    run = await app.start(waits())
    await app.settle()
    await run.pause()
    await app.settle()
    assert await run.cancel() == "paused"
    await cancelled(run)
    assert bodies == [1]
    assert await kinds(run) == ["started", "cancel", "step"]


async def test_a_run_that_is_cancelled_while_it_is_being_paused_unwinds(perdure_app):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step
    async def work() -> None:
        going.set()
        await asyncio.Event().wait()

    @step
    async def tidy() -> None:
        bodies.append(1)

    @workflow
    async def works() -> None:
        try:
            await work()
        finally:
            await tidy()

    run = await app.start(works())
    await going.wait()
    await run.pause()
    assert await run.cancel() == "running"
    await cancelled(run)
    assert bodies == [1]


async def test_a_run_that_unwinds_is_not_paused_any_more(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def tidy() -> None:
        bodies.append(1)

    @workflow
    async def waits() -> None:
        try:
            await receive("never")
        finally:
            await asyncio.sleep(10)
            await tidy()

    run = await app.start(waits())
    await app.settle()
    await run.cancel()
    await app.settle()
    await run.pause()
    await cancelled(run)
    assert bodies == [1]


async def test_an_ended_run_is_neither_paused_nor_resumed(perdure_app):
    @workflow
    async def ends() -> int:
        return 1

    run = await perdure_app.start(ends())
    assert await run.result() == 1
    with pytest.raises(RunEnded):
        await run.pause()
    with pytest.raises(RunEnded):
        await run.resume()
    assert await run.status() == "succeeded"


async def test_resuming_a_run_that_is_not_paused_changes_nothing(perdure_app):
    app = perdure_app

    @workflow
    async def waits() -> str:
        return (await receive("go")).value

    run = await app.start(waits())
    await app.settle()
    assert await run.resume() == "waiting"
    await app.settle()
    assert await run.status() == "waiting"
    await run.send("go", "on")
    assert await run.result() == "on"
    assert await kinds(run) == ["started", "signal"]
