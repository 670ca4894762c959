"""Parking: a run that waits leaves memory after its residency, costs nothing then, and is woken by whatever it waits for."""

import asyncio
import gc

import pytest

from perdure import promise, receive, step, workflow
from perdure.core.execution import Execution

from .several import live, row_of, sharing
from .tools import until


@workflow
async def listens() -> str:
    return (await receive("go")).value


async def resident(app):
    await app.settle()
    return len(app.worker.drivers)


async def test_5_6_a_waiting_run_is_evicted_after_its_residency(make_app):
    async with make_app(residency="5s") as app:
        run = await app.start(listens())
        await app.settle()
        await app.advance("0.2s")
        assert (await resident(app), await run.status()) == (1, "waiting")
        assert (await row_of(app, run)).owner == app.worker.number, "shown as waiting, still in memory"
        await app.advance("4.7s")
        assert await resident(app) == 1
        await app.advance("0.2s")
        assert (await resident(app), await run.status()) == (0, "waiting")
        assert (await row_of(app, run)).owner == 0
        await run.send("go", "there")
        assert await run.result() == "there"


async def test_5_6_activity_begins_the_residency_anew(make_app):
    @workflow
    async def twice() -> list:
        return [(await receive("go")).value, (await receive("go")).value]

    async with make_app(residency="5s") as app:
        run = await app.start(twice())
        await app.settle()
        await app.advance("4s")
        await run.send("go", 1)
        await app.settle()
        await app.advance("4s")
        assert await resident(app) == 1
        await app.advance("1.2s")
        assert await resident(app) == 0
        await run.send("go", 2)
        assert await run.result() == [1, 2]


async def test_5_6_a_crowd_is_evicted_at_once(make_app):
    async with make_app(residency="1h") as app:
        app._options.residents = 40
        runs = [await app.start(listens()) for _ in range(100)]
        await app.settle()
        await app.advance("1s")
        assert await resident(app) <= 30
        assert await app.count() == {"waiting": 100}
        for run in runs:
            await run.send("go", run.id)
        assert [await run.result() for run in runs] == [run.id for run in runs]


async def test_5_6_a_run_with_a_step_under_way_is_not_evicted(make_app, held, bodies):
    async with make_app(residency="5s") as app:
        run = await app.start(held())
        await until(lambda: bodies.gates)
        for _ in range(40):
            app.clock.jump(app.clock.now() + 1_000_000)
            app.clock.advance_to(app.clock.now() + 1_000_000)
            await asyncio.sleep(0)
        assert len(app.worker.drivers) == 1
        bodies.release()
        assert await run.result() == 0
        assert len(bodies.gates) == 1


async def test_5_6_parked_runs_hold_no_task_no_alarm_and_next_to_no_memory(perdure_app):
    app = perdure_app
    before = len(asyncio.all_tasks())
    gc.collect()
    kept = {id(each) for each in gc.get_objects() if isinstance(each, Execution)}  # of code that resisted, in other tests
    runs = [await app.start(listens()) for _ in range(200)]
    await app.settle()
    gc.collect()
    assert len(asyncio.all_tasks()) == before
    assert app.clock.next_alarm() is None, "a run that waits for a message only has no alarm"
    assert not app.worker.drivers
    assert not [each for each in gc.get_objects() if isinstance(each, Execution) and id(each) not in kept]
    for run in runs:
        await run.send("go", "x")
    assert {await run.result() for run in runs} == {"x"}


@pytest.mark.parametrize("by", ["message", "timer", "child", "promise", "cancel"])
async def test_5_6_whatever_it_waits_for_wakes_a_parked_run(make_app, tmp_path, by):
    """Parked by one app, woken at another one: nothing of it is in the first one's memory."""
    bodies = []

    @step
    async def after() -> str:
        bodies.append(1)
        return by

    @workflow
    async def child() -> str:
        return (await receive("go")).value

    @workflow
    async def waits() -> str:
        match by:
            case "message":
                await receive("go")
            case "timer":
                await asyncio.sleep(3600)
            case "child":
                await child()
            case "promise":
                await promise("outside", schema=int)
            case "cancel":
                try:
                    await receive("never")
                finally:
                    await after()
        return await after()

    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(waits())
        await a.settle()
        assert not a.worker.drivers
        assert (await row_of(a, run)).status == "waiting"
        await a.close()
        run = b.handle(run.id)
        await b.settle()
        assert not bodies
        match by:
            case "message":
                await run.send("go")
            case "timer":
                assert (await run.info()).wakes_at is not None
            case "child":
                [row] = [each for each in (await b.runs()).items if each.id != run.id]
                await b.handle(row.id).send("go", "x")
            case "promise":
                [row] = await b.gate.read(lambda: b.gate.store.promises(kind="promise"))
                await b.resolve(row.id, 1)
            case "cancel":
                await run.cancel()
        await b.settle()
        if by == "timer":
            await live(3599, b)
            assert not bodies, "not before its time"
            await live(2, b)
        assert bodies == [1]
        assert await run.status() == ("cancelled" if by == "cancel" else "succeeded")
