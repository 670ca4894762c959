"""A cancellation, a pause or a crash at every single commit of a run that does a bit of everything: it always converges."""

import asyncio

import pytest

from perdure import Retry, RunCancelled, ask, publish, receive, start, step, workflow
from perdure.stores.base import Advance, Cancel, Pause

from .tools import FaultyStore, all_runs

GRACE = 30_000_000
POINTS = range(1, 17)


class Injected:
    """Puts a change right before, or right after, the n-th commit that advances a run; then perhaps wants a crash."""

    def __init__(self, app, n, make, *, after):
        self.left, self.make, self.after, self.done = n, make, after, asyncio.Event()
        self.at = 0
        self.app = app
        FaultyStore.between(app).on_commit = self.commit

    def commit(self, batch, write):
        at = next((n for n, each in enumerate(batch.changes) if isinstance(each, Advance)), None)
        if at is None or self.done.is_set():
            return write(batch)
        self.left -= 1
        if self.left:
            return write(batch)
        at += self.after
        self.at = batch.at
        batch.changes.insert(at, self.make(batch.at))
        outcomes = write(batch)
        del batch.changes[at]
        del outcomes[at]
        self.done.set()
        asyncio.get_running_loop().call_soon(self.app.worker.look)
        return outcomes


def program(effects, *, doubt):
    """A workflow with steps, retries, an ask with a time-out, a child, a message, and cleaning up.

    `doubt`: a crash may leave a `once` step in doubt, which fails the run.
    """

    @step(retry=Retry(attempts=2, initial="5s", jitter=0))
    async def work(what: str) -> str:
        effects.append(what)
        if what == "flaky" and effects.count("flaky") == 1:
            raise ConnectionError("once")
        return what

    @step(once=doubt)
    async def once() -> str:
        effects.append("once")
        return "once"

    @workflow
    async def child() -> str:
        try:
            await asyncio.sleep(2)
            return await work("child")
        finally:
            await work("child tidied")

    async def asks() -> bool:
        return await ask("well?", timeout="10s", default=True)

    @workflow
    async def all_of_it() -> list[object]:
        results: list[object] = []
        try:
            results.append(await work("first"))
            await start(child(), id="attached")
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each) for each in (work("flaky"), once(), asks(), child())]
            results += [task.result() for task in tasks]
            await publish("so far", len(results))
            results.append((await receive("go", timeout="1m")).value)
        except TimeoutError:
            results.append("no message")
        finally:
            await work("tidied")
            await asyncio.sleep(5)
            await work("tidied again")
        return results

    return all_of_it


async def converges(app, run, injected):
    """The run ends in bounded time, and leaves nothing open."""
    try:
        await run.result()
    except RunCancelled:
        assert app.clock.now() - injected.at <= GRACE
    await app.settle()
    assert set((await all_runs(app)).values()) <= {"succeeded", "cancelled"}
    assert (await app.inbox()).items == []
    assert await app.gate.read(app.gate.store.check) == []


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("after", [False, True])
async def test_cancelled_at_any_commit(make_app, after, crash):
    ends = set()
    for n in POINTS:
        async with make_app() as app:
            effects = []
            injected = Injected(app, n, lambda at: Cancel(run_id="r", by="ann", at=at), after=after)
            run = await app.start(program(effects, doubt=not crash)(), id="r")
            watching = asyncio.ensure_future(run.result())
            await asyncio.wait([watching, asyncio.ensure_future(injected.done.wait())], return_when="FIRST_COMPLETED")
            watching.cancel()
            if crash:
                await app.crash()
            await converges(app, app.handle("r"), injected)
            assert effects.count("once") <= 1 + crash
            assert await app.handle("r").status() == "cancelled" or "tidied again" in effects
            ends.add(str(await app.handle("r").status()))
    assert "cancelled" in ends


@pytest.mark.parametrize("crash", [False, True])
async def test_paused_at_any_commit_and_resumed(make_app, crash):
    for n in POINTS:
        async with make_app() as app:
            effects = []
            injected = Injected(app, n, lambda at: Pause(run_id="r", by="ann", at=at), after=False)
            run = await app.start(program(effects, doubt=not crash)(), id="r")
            watching = asyncio.ensure_future(run.result())
            await asyncio.wait([watching, asyncio.ensure_future(injected.done.wait())], return_when="FIRST_COMPLETED")
            watching.cancel()
            if crash:
                await app.crash()
            run = app.handle("r")
            await app.settle()
            if not (await run.status()).ended:
                assert await run.status() == "paused"
                before = effects.count("tidied")
                await app.advance("3s")
                assert effects.count("tidied") == before
                await run.resume()
            assert await run.result() == ["first", "flaky", "once", True, "child", "no message"]
            assert effects.count("once") == 1 or crash
            assert await app.gate.read(app.gate.store.check) == []
