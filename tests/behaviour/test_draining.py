"""Draining: a worker that is told to stop claims nothing more, lets attempts end within a bound, and hands its runs back."""

import asyncio

from perdure import current_step, receive, step, workflow

from .tools import kinds, lines, until

SECOND = 1_000_000


async def test_x17_a_step_under_way_ends_and_is_recorded_before_the_run_is_handed_back(perdure_app):
    app, bodies, going, release = perdure_app, [], asyncio.Event(), asyncio.Event()

    @step
    async def work(n: int) -> int:
        bodies.append((n, current_step().attempt))
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
    later = await app.start(works())
    release.set()
    await draining
    info = await run.info()
    assert (info.status, info.worker, info.recoveries) == ("queued", 0, 0)
    assert bodies == [(1, 1)]
    assert await later.status() == "queued"
    await app.crash()
    assert await app.handle(run.id).result() == 3
    assert await app.handle(later.id).result() == 3
    assert sorted(bodies) == [(1, 1), (1, 1), (2, 1), (2, 1)]
    assert lines(await app.handle(run.id).history()) == ["started ", "step work#0", "step work#1"]


async def test_x17_a_step_that_outlasts_the_bound_runs_again_under_a_higher_attempt(perdure_app):
    app, attempts, stopped, going = perdure_app, [], [], asyncio.Event()

    @step
    async def slow() -> int:
        attempts.append(current_step().attempt)
        if len(attempts) == 1:
            going.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append(1)
                raise
        return 5

    @workflow
    async def works() -> int:
        return await slow()

    run = await app.start(works())
    await going.wait()
    began = app.clock.now()
    draining = asyncio.create_task(app.worker.drain(30 * SECOND))
    await asyncio.sleep(0)
    assert not draining.done()
    app.clock.jump()
    await draining
    assert app.clock.now() - began == 30 * SECOND
    await until(lambda: stopped == [1], "the attempt to be stopped")
    await app.crash()
    assert await app.handle(run.id).result() == 5
    assert attempts == [1, 2]


async def test_parked_and_resting_runs_never_delay_it(make_app):
    async with make_app(residency="1h") as app:

        @workflow
        async def waits() -> str:
            return (await receive("go")).value

        runs = [await app.start(waits()) for _ in range(5)]
        await app.settle()
        assert len(app.worker.drivers) == 5
        began = app.clock.now()
        await app.worker.drain(30 * SECOND)
        assert app.clock.now() == began
        assert {str(await run.status()) for run in runs} == {"waiting"}
        assert not app.worker.drivers
        await app.crash()
        run = app.handle(runs[0].id)
        await run.send("go", "on")
        assert await run.result() == "on"
        assert await kinds(run) == ["started", "signal"]
