"""Starting by name: workflows that this process defines, that others serve, that nobody knows."""

import asyncio

import pytest

from perdure import DuplicateRun, UnknownWorkflow, current_run, workflow
from perdure.registry import definitions

from .tools import observing, until


async def test_start_by_default_and_by_explicit_name(perdure_app):
    app = perdure_app

    @workflow
    async def plain(a: int, b: int = 2) -> int:
        return a + b

    @workflow(name="billing.monthly")
    async def named(a: int) -> int:
        return a * 10

    assert plain.name == f"{__name__}.test_start_by_default_and_by_explicit_name.plain"
    assert await app.run(plain.name, args=[1]) == 3
    assert await app.run(plain.name, args={"a": 1, "b": 5}) == 6
    assert await app.run("billing.monthly", args={"a": 4}) == 40
    assert (await app.runs(workflow="billing.monthly")).items[0].workflow == "billing.monthly"


async def test_start_by_name_and_by_call_are_the_same_run(perdure_app):
    @workflow
    async def adds(a: int, b: int) -> int:
        return a + b

    assert await perdure_app.run(adds(1, 2), id="x") == 3
    assert await perdure_app.run(adds.name, args={"b": 2, "a": 1}, id="x") == 3
    assert await perdure_app.run(adds.name, args=(1, 2), id="x") == 3
    with pytest.raises(DuplicateRun):
        await perdure_app.start(adds.name, args=(1, 3), id="x")


async def test_a_former_name_starts_the_workflow(perdure_app):
    @workflow(name="new-name", aliases=["old-name"])
    async def renamed() -> str:
        return current_run().workflow

    assert await perdure_app.run("old-name") == "new-name"


async def test_an_unknown_name_is_refused_with_the_nearest_ones(perdure_app):
    @workflow(name="agents.research")
    async def research() -> None: ...

    with pytest.raises(UnknownWorkflow, match=r"PRD-107.*'agents.reserch'(.|\n)*agents\.research"):
        await perdure_app.start("agents.reserch")
    assert await perdure_app.count() == {}


@pytest.fixture
def elsewhere():
    """Makes the workflow of a name unknown in this process, as it is in one that does not import it."""
    hidden = {}

    def hide(workflow):
        hidden[workflow.name] = definitions._workflows.pop(workflow.name)

    yield hide
    for name in hidden:
        definitions._workflows.pop(name, None)


async def test_a_client_starts_by_name_what_a_worker_serves(make_app, tmp_path, elsewhere):
    url = f"sqlite:///{tmp_path}/runs.db"

    @workflow(name="served")
    async def served(topic: str, *, depth: int = 1) -> str:
        return topic * depth

    @workflow(name="the client's own")
    async def own() -> None: ...

    worker = make_app(url, workflows=[served])
    elsewhere(served)
    client = make_app(url, clock=worker.clock, worker=False)
    async with worker, client:
        run = await client.start("served", args={"topic": "ab", "depth": 2}, id="x")
        observing(worker)
        result = asyncio.ensure_future(run.result())
        await until(lambda: observing(client, worker) and result.done(), "the result")
        assert result.result() == "abab"
        with pytest.raises(UnknownWorkflow, match=r"'servd'(.|\n)*served"):
            await client.start("servd")
        assert await client.count() == {"succeeded": 1}


async def test_a_client_may_come_before_the_first_worker(make_app, tmp_path, elsewhere):
    """What it happens to import says nothing about what workers will serve."""
    url = f"sqlite:///{tmp_path}/runs.db"

    @workflow(name="another of the client's")
    async def own() -> None: ...

    @workflow(name="later")
    async def later(n: int) -> int:
        return n

    worker = make_app(url, workflows=[later])
    elsewhere(later)
    async with make_app(url, worker=False) as client:
        run = await client.start("later", args=[7], id="x")
        assert await run.status() == "queued"
    async with worker:
        assert await worker.handle("x").result() == 7


async def test_a_worker_that_is_away_is_remembered(make_app, tmp_path, elsewhere):
    url = f"sqlite:///{tmp_path}/runs.db"

    @workflow(name="away")
    async def away() -> int:
        return 1

    @workflow(name="here")
    async def here() -> int:
        return 2

    worker = make_app(url, workflows=[away])
    elsewhere(away)
    async with worker:
        pass
    async with make_app(url, workflows=[here]) as other:
        run = await other.start("away", id="x")
        await other.settle()
        assert await run.status() == "queued"
        with pytest.raises(UnknownWorkflow):
            await other.start("nowhere")
    async with make_app(url, workflows=[away]) as worker:
        assert await worker.handle("x").result() == 1


async def test_a_workflow_that_this_app_does_not_run_waits_for_one_that_does(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/runs.db"

    @workflow
    async def mine() -> int:
        return 1

    @workflow
    async def theirs(n: int) -> int:
        return n

    async with make_app(url, workflows=[mine]) as app:
        run = await app.start(theirs(2), id="x")
        await app.start(theirs.name, args=[2], id="x")
        assert await app.run(mine()) == 1
        assert await run.status() == "queued"
    async with make_app(url, workflows=[theirs]) as app:
        assert await app.handle("x").result() == 2
