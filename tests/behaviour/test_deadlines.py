"""A run's own clocks: `timeout` counts the time in which it is not parked, `deadline` is wall time and comes in any state."""

import asyncio

import pytest

from perdure import RunFailed, ask, now, receive, step, workflow

from .tools import cancelled, kinds, until

SECOND = 1_000_000


async def timed_out(run, what):
    """Wait until a run has failed by one of its clocks."""
    with pytest.raises(RunFailed) as caught:
        await run.result()
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert str(caught.value.__cause__) == f"the run's {what} was reached"
    assert await run.status() == "failed"


async def test_p24_the_timeout_of_a_run_stops_while_it_waits_for_a_person(perdure_app):
    app, going, release = perdure_app, asyncio.Queue(), asyncio.Event()

    @step
    async def work() -> None:
        going.put_nowait(1)
        await release.wait()

    @workflow(timeout="2s")
    async def asks() -> bool:
        answer = await ask("well?")
        await work()
        return answer

    run = await app.start(asks())
    await app.advance("10s")
    assert await run.status() == "waiting"
    question = await app.next_ask()
    await app.answer(question.id, True)
    await going.get()
    began = app.clock.now()
    app.clock.jump()
    await timed_out(run, "timeout")
    assert app.clock.now() - began == 2 * SECOND
    assert await kinds(run) == ["started", "opened", "resolved", "expired"]

    again = await app.start(asks())
    await app.advance("1h")
    await app.answer((await app.next_ask()).id, False)
    await going.get()
    release.set()
    assert await again.result() is False


async def test_p24_a_deadline_comes_while_the_run_is_parked(perdure_app):
    app = perdure_app

    @workflow(deadline="5s")
    async def asks() -> bool:
        return await ask("nobody answers?")

    began = app.clock.now()
    run = await app.start(asks())
    await app.settle()
    assert await run.status() == "waiting"
    assert not app.worker.drivers
    await timed_out(run, "deadline")
    assert app.clock.now() - began == 5 * SECOND
    assert (await app.inbox()).items == []
    assert await kinds(run) == ["started", "opened", "expired"]
    assert (await run.history())[-1].name == "deadline"


async def test_x15_a_deadline_is_set_once_and_no_recovery_moves_it(perdure_app):
    app = perdure_app

    @workflow(deadline="10m")
    async def waits() -> None:
        await receive("never")

    began = app.clock.now()
    run = await app.start(waits(), id="w")
    for _ in range(3):
        await app.advance("3m")
        await app.crash()
    await timed_out(app.handle("w"), "deadline")
    assert app.clock.now() - began == 600 * SECOND
    assert run.id == "w"


async def test_x15_the_deadline_of_a_queued_run_is_not_set_anew_when_it_is_claimed(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def work() -> None:
        bodies.append(1)

    @workflow(deadline="10m")
    async def works() -> None:
        await work()

    app.worker.draining = True  # nobody takes it
    run = await app.start(works(), id="w")
    app.clock.advance_to(app.clock.now() + 900 * SECOND)
    await app.crash()
    await timed_out(app.handle("w"), "deadline")
    assert bodies == []
    assert run.id == "w"


async def test_x15_the_time_out_of_a_wait_is_not_set_anew_by_a_recovery(perdure_app):
    app = perdure_app

    @workflow
    async def waits() -> list[str]:
        seen = []
        for wait in (
            lambda: ask("a?", timeout="10m"),
            lambda: receive("never", timeout="20m"),
            lambda: asyncio.wait_for(receive("no"), 600),
        ):
            try:
                await wait()
            except TimeoutError:
                seen.append(now().strftime("%H:%M"))
        return seen

    run = await app.start(waits(), id="w")
    for _ in range(5):
        await app.advance("7m")
        await app.crash()
    assert await app.handle("w").result() == ["00:10", "00:30", "00:40"]
    assert run.id == "w"


async def test_a_delayed_run_has_its_whole_deadline(perdure_app):
    app = perdure_app

    @workflow(deadline="10m")
    async def waits() -> None:
        await receive("never")

    began = app.clock.now()
    run = await app.start(waits(), delay="1h")
    await timed_out(run, "deadline")
    assert app.clock.now() - began == 4200 * SECOND


async def test_what_arrived_before_the_deadline_wins_though_the_worker_comes_after_it(perdure_app):
    app = perdure_app

    @workflow(deadline="10m")
    async def waits() -> str:
        return (await receive("go")).value

    run = await app.start(waits(), id="w")
    await app.settle()
    app.worker.draining = True
    await run.send("go", "in time")
    app.clock.advance_to(app.clock.now() + 900 * SECOND)
    await app.crash()
    assert await app.handle("w").result() == "in time"


async def test_a_run_that_reached_its_deadline_unwinds_within_the_grace(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def tidy(n: int) -> None:
        bodies.append(n)

    @workflow(deadline="10m")
    async def waits() -> None:
        try:
            await receive("never")
        finally:
            await tidy(1)
            await asyncio.sleep(20)
            await tidy(2)
            await asyncio.sleep(20)
            await tidy(3)

    began = app.clock.now()
    run = await app.start(waits())
    await timed_out(run, "deadline")
    assert app.clock.now() - began == 630 * SECOND
    assert bodies == [1, 2]
    assert await kinds(run) == ["started", "expired", "step", "timer", "step", "expired"]
    assert [each.name for each in await run.history() if each.kind == "expired"] == ["deadline", "grace"]


@pytest.mark.parametrize("outage", ["1h", "15m"])
async def test_the_grace_of_a_deadline_counts_from_its_delivery(perdure_app, outage):
    """The deadline passed while nobody was there: what unwinds has its whole grace all the same."""
    app, bodies = perdure_app, []

    @step
    async def tidy() -> None:
        bodies.append(1)

    @workflow(deadline="10m")
    async def waits() -> None:
        try:
            await receive("never")
        finally:
            await asyncio.sleep(20)
            await tidy()

    await app.start(waits(), id="w")
    await app.settle()
    app.clock.advance_to(app.clock.now() + {"1h": 3600, "15m": 900}[outage] * SECOND)
    await app.crash()
    await timed_out(app.handle("w"), "deadline")
    assert bodies == [1]


async def test_a_body_may_raise_its_own_error_at_its_deadline(perdure_app):
    @workflow(deadline="10m")
    async def waits() -> str:
        try:
            await receive("never")
        except asyncio.CancelledError:
            raise LookupError("nothing came") from None
        return "no deadline"

    with pytest.raises(RunFailed) as caught:
        await perdure_app.run(waits())
    assert isinstance(caught.value.__cause__, LookupError)


async def test_a_body_that_swallows_its_deadline_has_failed_all_the_same(perdure_app):
    @workflow(deadline="10m")
    async def waits() -> str:
        try:
            await receive("never")
        except asyncio.CancelledError:
            return "partial"
        return "no deadline"

    run = await perdure_app.start(waits())
    await timed_out(run, "deadline")


async def test_a_deadline_stops_the_step_under_way(perdure_app):
    app, going, stopped = perdure_app, asyncio.Event(), []

    @step
    async def slow() -> None:
        going.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(1)
            raise

    @workflow(deadline="10m")
    async def works() -> None:
        await slow()

    run = await app.start(works())
    await going.wait()
    app.clock.jump()
    await timed_out(run, "deadline")
    await until(lambda: stopped == [1], "the step to be stopped")
    assert await kinds(run) == ["started", "expired"]


async def test_a_cancellation_that_came_first_wins_over_the_deadline(perdure_app):
    app = perdure_app

    @workflow(deadline="10m")
    async def waits() -> None:
        try:
            await receive("never")
        finally:
            await asyncio.sleep(20)

    run = await app.start(waits())
    await app.advance("595s")
    await run.cancel()
    await cancelled(run)
    assert await kinds(run) == ["started", "cancel", "timer"]


async def test_the_deadline_of_a_child_is_its_own(perdure_app):
    app = perdure_app

    @workflow(deadline="10m")
    async def child() -> None:
        await receive("never")

    @workflow
    async def parent() -> str:
        await asyncio.sleep(3600)
        try:
            await child()
        except TimeoutError as error:
            return str(error)
        return "no deadline"

    began = app.clock.now()
    assert await app.run(parent()) == "the run's deadline was reached"
    assert app.clock.now() - began == 4200 * SECOND


async def test_the_timeout_counts_over_all_stretches_of_work(perdure_app):
    app, going, releases = perdure_app, asyncio.Queue(), [asyncio.Event() for _ in range(3)]

    @step
    async def work(n: int) -> None:
        going.put_nowait(n)
        await releases[n].wait()

    @workflow(timeout="100s")
    async def works() -> None:
        for n in range(3):
            await work(n)
            await asyncio.sleep(3600)

    run = await app.start(works())
    for n in range(2):
        assert await going.get() == n
        app.clock.advance_to(app.clock.now() + 40 * SECOND)
        releases[n].set()
        await app.settle()
        app.clock.jump()
    assert await going.get() == 2
    began = app.clock.now()
    app.clock.jump()
    await timed_out(run, "timeout")
    assert app.clock.now() - began == 20 * SECOND
