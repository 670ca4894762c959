"""What is kept of an app that has closed says so: it never hangs."""

import asyncio

import pytest

from perdure import App, receive, step, workflow
from perdure.core.errors import WrongContext

from .tools import until

VERBS = {
    "status": lambda run: run.status(),
    "result": lambda run: run.result(),
    "info": lambda run: run.info(),
    "history": lambda run: run.history(),
    "send": lambda run: run.send("word", 1),
    "request": lambda run: run.request("word", 1),
    "cancel": lambda run: run.cancel(),
    "pause": lambda run: run.pause(),
    "published": lambda run: run.published(),
    "watch": lambda run: anext(aiter(run.watch())),
}


@workflow(name="closed.hears")
async def hears() -> str:
    return (await receive("word")).value


@pytest.fixture
def on_file(tmp_path):
    return App(f"sqlite:///{tmp_path}/runs.db")


async def test_every_verb_of_a_handle_says_that_its_app_was_closed(make_app, on_file):
    for app in (make_app(), on_file):
        async with app:
            run = await app.start(hears())
        said = {}
        for name, verb in VERBS.items():
            try:
                async with asyncio.timeout(10):
                    said[name] = await verb(run)
            except (WrongContext, TimeoutError) as error:
                said[name] = str(error).splitlines()[0]
        assert said == dict.fromkeys(VERBS, "[PRD-701] this App was closed")


async def test_who_waits_while_the_app_closes_is_told(make_app, on_file):
    for app in (make_app(), on_file):
        async with app:
            run = await app.start(hears())
            waiting = [asyncio.ensure_future(run.result()), asyncio.ensure_future(run.request("other", 1))]
            observers = app.gate.process.observers
            await until(lambda seen=observers: seen.runs and seen.uids, "both to wait")
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        assert [type(each) for each in outcomes] == [WrongContext, WrongContext]


async def test_a_run_whose_step_ended_during_the_drain_is_finished_by_the_next_app(on_file):
    going, release, bodies = asyncio.Event(), asyncio.Event(), []

    @step
    async def short() -> int:
        bodies.append(1)
        going.set()
        await release.wait()
        return 5

    @workflow(name="closed.short")
    async def works() -> int:
        return await short()

    await on_file.open()
    run = await on_file.start(works())
    result = asyncio.ensure_future(run.result())
    await going.wait()
    worker = on_file.worker
    closing = asyncio.ensure_future(on_file.close())
    await until(lambda: worker.draining, "the drain")
    release.set()
    await closing
    with pytest.raises(WrongContext):
        await result
    async with App(on_file.url) as app:
        assert await app.handle(run.id).result() == 5
    assert bodies == [1]
