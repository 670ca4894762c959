"""What is kept of an app that has closed says so: it never hangs."""

import asyncio

import pytest

from perdure import App, receive, step, workflow
from perdure.core.errors import WrongContext

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
        for name, verb in VERBS.items():
            with pytest.raises(WrongContext, match="this App was closed"):
                async with asyncio.timeout(10):
                    await verb(run)
            assert name


async def test_who_waits_while_the_app_closes_is_told(make_app, on_file):
    for app in (make_app(), on_file):
        async with app:
            run = await app.start(hears())
            waiting = [asyncio.ensure_future(run.result()), asyncio.ensure_future(run.request("other", 1))]
            await asyncio.sleep(0.01)
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        assert [type(each) for each in outcomes] == [WrongContext, WrongContext]


async def test_a_run_whose_step_ended_during_the_drain_is_finished_by_the_next_app(on_file):
    going, bodies = asyncio.Event(), []

    @step
    async def short() -> int:
        bodies.append(1)
        going.set()
        await asyncio.sleep(0.05)
        return 5

    @workflow(name="closed.short")
    async def works() -> int:
        return await short()

    async with on_file as app:
        run = await app.start(works())
        result = asyncio.ensure_future(run.result())
        await going.wait()
    with pytest.raises(WrongContext):
        await result
    async with App(on_file.url) as app:
        assert await app.handle(run.id).result() == 5
    assert bodies == [1]
