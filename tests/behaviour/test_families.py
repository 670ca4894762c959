"""Families: children are cancelled with their parent and when it ends, unless they are detached."""

import asyncio

import pytest

from perdure import RunCancelled, RunFailed, receive, start, step, workflow
from perdure.stores.base import Advance, Cancel

from .tools import FaultyStore, all_runs, cancelled, kinds, until


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancelled_child_is_a_run_cancelled_in_its_parent(perdure_app, begun):
    app = perdure_app

    @workflow
    async def child() -> None:
        await receive("never")

    @workflow
    async def parent() -> str:
        handle = await start(child(), id="the-child")
        await receive("go")
        try:
            await handle
        except RunCancelled as error:
            await receive("end")
            return f"{type(error).__name__} {error.run}"
        return "no error"

    run = await app.start(parent())
    if begun:
        await app.settle()
    else:
        app.worker.draining = True

        async def there():
            return "the-child" in await all_runs(app)

        await until(there, "the child's start")
    assert await app.handle("the-child").cancel() == ("waiting" if begun else "queued")
    app.worker.draining = False
    app.worker.take()
    await run.send("go")
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    await run.send("end")
    assert await run.result() == "RunCancelled the-child"


async def test_p60_the_whole_family_is_cancelled(perdure_app):
    app, unwound = perdure_app, []

    @step
    async def tidy(who: str) -> None:
        unwound.append(who)

    async def wait(who):
        try:
            await receive("never")
        finally:
            await tidy(who)

    @workflow
    async def grandchild() -> None:
        await wait("grandchild")

    @workflow
    async def child() -> None:
        try:
            await grandchild()
        finally:
            await tidy("child")

    @workflow
    async def parent() -> None:
        try:
            await child()
        finally:
            await tidy("parent")

    run = await app.start(parent())
    await app.settle()
    await run.cancel()
    await cancelled(run)
    await app.settle()
    assert sorted(unwound) == ["child", "grandchild", "parent"]
    assert set((await all_runs(app)).values()) == {"cancelled"}
    assert len(await all_runs(app)) == 3


async def test_s20_a_run_is_cancelled_while_its_unwinding_awaits_a_step_and_starts_a_child(perdure_app):
    app, bodies, born = perdure_app, [], []

    @step
    async def tidy() -> None:
        bodies.append("tidy")

    @step
    async def of_child() -> None:
        bodies.append("child")

    @workflow
    async def child() -> None:
        await of_child()

    @workflow
    async def parent() -> None:
        try:
            await receive("never")
        finally:
            await tidy()
            late = await start(child(), id="late")
            try:
                await late
            except RunCancelled:
                born.append("cancelled")
                raise

    run = await app.start(parent())
    await app.settle()
    asked = app.clock.now()
    await run.cancel()
    await cancelled(run)
    assert app.clock.now() == asked
    assert bodies == ["tidy"]
    assert "cancelled" in born
    assert await app.handle("late").status() == "cancelled"
    assert await app.handle("late").history() == []


async def test_detached_children_live_on(perdure_app):
    app, done = perdure_app, []

    @step
    async def work(what: str) -> None:
        done.append(what)

    @workflow
    async def child(name: str) -> str:
        await receive("go")
        await work(name)
        return name

    @workflow
    async def parent() -> None:
        await start(child("free"), id="free", detached=True, tags=["background"])
        await start(child("bound"), id="bound")
        await receive("never")

    run = await app.start(parent())
    await app.settle()
    await run.cancel()
    await cancelled(run)
    await cancelled(app.handle("bound"))
    free = app.handle("free")
    assert await free.status() == "waiting"
    assert (await free.info()).tags == ["background"]
    await free.send("go")
    assert await free.result() == "free"
    assert done == ["free"]


@pytest.mark.parametrize("how", ["returns", "raises"])
async def test_attached_children_are_cancelled_when_their_parent_ends(perdure_app, how):
    app = perdure_app

    @workflow
    async def child() -> None:
        await receive("never")

    @workflow
    async def parent() -> str:
        await start(child(), id="attached")
        await start(child(), id="detached", detached=True)
        await asyncio.sleep(60)
        if how == "raises":
            raise ValueError("no")
        return "done"

    run = await app.start(parent())
    if how == "raises":
        with pytest.raises(RunFailed):
            await run.result()
    else:
        assert await run.result() == "done"
    await cancelled(app.handle("attached"))
    await app.settle()
    assert await app.handle("detached").status() == "waiting"
    request = (await app.handle("attached").history())[-1]
    assert (request.kind, request.name) == ("cancel", "its parent has ended")


async def test_a_child_whose_awaiter_is_cancelled_is_cancelled(perdure_app):
    app = perdure_app

    @workflow
    async def child() -> None:
        await receive("never")

    @workflow
    async def parent() -> str:
        try:
            async with asyncio.timeout(60):
                await child()
        except TimeoutError:
            return (await receive("go")).value
        return "no time-out"

    run = await app.start(parent(), id="parent")
    await app.advance("61s")
    assert await run.status() == "waiting"
    statuses = await all_runs(app)
    assert sorted(statuses.values()) == ["cancelled", "waiting"]
    await app.crash()
    run = app.handle("parent")
    await run.send("go", "on")
    assert await run.result() == "on"
    assert await all_runs(app) == {each: "succeeded" if each == "parent" else "cancelled" for each in statuses}


async def test_a_child_given_up_in_the_instant_of_its_start_is_not_started(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def work() -> None:
        bodies.append(1)

    @workflow
    async def child() -> None:
        await work()

    @workflow
    async def parent() -> str:
        task = asyncio.ensure_future(child())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(60)
        return "done"

    run = await app.start(parent())
    await app.settle()
    await app.crash()
    assert await app.handle(run.id).result() == "done"
    assert await kinds(app.handle(run.id)) == ["started", "timer"]
    assert bodies == []
    assert len(await all_runs(app)) == 1


@pytest.mark.parametrize("order", ["cancel first", "start first"])
async def test_p60_a_child_that_starts_in_the_instant_of_the_cancellation(perdure_app, order):
    """Both in one transaction: born cancelled, or told to cancel; it never goes on by itself."""
    app, bodies, told = perdure_app, [], []

    @step
    async def work() -> None:
        bodies.append(1)

    @workflow
    async def child() -> None:
        await receive("never")
        await work()

    @workflow
    async def parent() -> None:
        await start(child(), id="racing")
        await receive("never")

    def commit(batch, write):
        at = next((n for n, each in enumerate(batch.changes) if isinstance(each, Advance) and each.children), None)
        if at is None or told:
            return write(batch)
        at += order == "start first"
        batch.changes.insert(at, Cancel(run_id="parent", by="ann", at=batch.at))
        outcomes = write(batch)
        del batch.changes[at]
        told.append(outcomes.pop(at))
        app.worker.loop.call_soon_threadsafe(app.worker.look)
        return outcomes

    FaultyStore.between(app).on_commit = commit
    run = await app.start(parent(), id="parent")
    await cancelled(run)
    await cancelled(app.handle("racing"))
    assert told == ["running"]
    assert bodies == []
    assert await app.handle("racing").history() == []
    assert await app.gate.read(app.gate.store.check) == []
