"""Starting runs: one run per id, later, first, with tags and messages."""

import asyncio
from datetime import timedelta

import pytest

from perdure import (
    App,
    ConfigurationError,
    RunCancelled,
    RunFailed,
    UnknownRun,
    UnknownWorkflow,
    WrongContext,
    current_run,
    receive,
    step,
    workflow,
)

from .tools import observing, until

# ── one run per id ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_p04_ten_starts_of_one_id_are_one_run(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def counted() -> int:
        bodies.append(1)
        await asyncio.sleep(0)
        return len(bodies)

    @workflow
    async def once(name: str) -> int:
        await asyncio.sleep(1)
        return await counted()

    results = await asyncio.gather(*(app.run(once("x"), id="x") for _ in range(10)))
    assert results == [1] * 10
    assert bodies == [1]
    assert await app.count() == {"succeeded": 1}


async def test_p04_the_same_id_in_two_processes_is_one_run(make_app, tmp_path):
    url, bodies = f"sqlite:///{tmp_path}/runs.db", []

    @step
    async def counted() -> int:
        bodies.append(1)
        return len(bodies)

    @workflow
    async def once() -> int:
        await asyncio.sleep(1)
        return await counted()

    first = make_app(url)
    second = make_app(url, clock=first.clock)
    async with first, second:
        apps = (first, second)
        runs = await asyncio.gather(*(app.start(once(), id="x") for app in apps for _ in range(5)))
        results = asyncio.gather(*(run.result() for run in runs))
        await until(lambda: observing(*apps) and results.done(), "the results")
        assert results.result() == [1] * 10
        assert bodies == [1]
        assert await second.count() == {"succeeded": 1}
        assert {(await run.info()).number for run in runs} == {(await runs[0].info()).number}


async def test_the_id_of_an_ended_run_gives_its_result_again(perdure_app):
    app, bodies = perdure_app, []

    @workflow
    async def adds(a: int, b: int = 1) -> int:
        bodies.append(a)
        return a + b

    assert await app.run(adds(1), id="sum") == 2
    before = len(bodies)
    assert await app.run(adds(1), id="sum") == 2
    assert await app.run(adds(a=1), id="sum") == 2
    assert len(bodies) == before
    assert await app.count() == {"succeeded": 1}


async def test_without_an_id_every_start_is_a_run_of_its_own(perdure_app):
    @workflow
    async def nothing() -> str:
        return current_run().id

    runs = [await perdure_app.start(nothing()) for _ in range(3)]
    assert len({run.id for run in runs}) == 3
    assert [await run.result() for run in runs] == [run.id for run in runs]


@pytest.mark.parametrize("id", ["", "x" * 501, "nul\x00", 7], ids=["empty", "long", "nul", "number"])
async def test_an_id_that_is_none_is_refused(perdure_app, id):
    @workflow
    async def nothing() -> None: ...

    call = nothing()
    with pytest.raises(ConfigurationError, match=r"PRD-703.* run's id"):
        await perdure_app.start(call, id=id)
    assert await perdure_app.count() == {}
    call.close()


# ── with a message ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_first_message_comes_with_the_start_and_reaches_a_run_that_is_there(perdure_app):
    app = perdure_app

    @workflow
    async def gathers() -> list[int]:
        return [(await receive("number")).value for _ in range(3)]

    run = await app.start(gathers(), id="x", send=("number", 1))
    await app.start(gathers(), id="x", send=("number", 2))
    await app.settle()
    await app.start(gathers(), id="x", send=("number", 3))
    assert await run.result() == [1, 2, 3]


# ── tags, delay, priority ───────────────────────────────────────────────────────────────────────────────────────────


async def test_tags_are_kept_once_each_and_seen_inside(perdure_app):
    @workflow
    async def tagged() -> list[str]:
        return list(current_run().tags)

    run = await perdure_app.start(tagged(), tags=["red", "blue", "red"])
    assert await run.result() == ["blue", "red"]
    assert (await run.info()).tags == ["blue", "red"]


async def test_a_delayed_run_starts_at_its_time_and_not_before(perdure_app):
    app, began = perdure_app, []

    @step
    async def notes() -> None:
        began.append(app.clock.now())

    @workflow
    async def later() -> None:
        await notes()

    asked = app.clock.now()
    run = await app.start(later(), delay="2h")
    info = await run.info()
    assert info.status == "delayed"
    assert info.wakes_at - info.created_at == timedelta(hours=2)
    assert info.started_at is None
    await app.advance("119m")
    assert (await run.status(), began) == ("delayed", [])
    await app.crash()
    await app.advance("1m")
    run = app.handle(run.id)
    assert await run.status() == "succeeded"
    assert [at - asked for at in began] == [7_200_000_000]


async def test_the_deadline_of_a_delayed_run_counts_from_its_time(perdure_app):
    app = perdure_app

    @workflow(deadline="1h")
    async def limited() -> None:
        await receive("never")

    run = await app.start(limited(), delay="1d")
    with pytest.raises(RunFailed) as caught:
        await run.result()
    assert isinstance(caught.value.__cause__, TimeoutError)
    info = await run.info()
    assert info.ended_at - info.created_at == timedelta(days=1, hours=1)


async def test_a_delayed_run_is_cancelled_before_it_begins(perdure_app):
    bodies = []

    @workflow
    async def later() -> None:
        bodies.append(1)

    run = await perdure_app.start(later(), delay="1d")
    assert await run.cancel() == "delayed"
    with pytest.raises(RunCancelled):
        await run.result()
    await perdure_app.advance("2d")
    assert bodies == []


async def test_priority_orders_what_is_due_at_the_same_time(perdure_app):
    app, order = perdure_app, []

    @step
    async def notes(name: str) -> None:
        order.append(name)

    @workflow
    async def one(name: str) -> None:
        await notes(name)

    for name, priority in (("none", 0), ("low", -1), ("high", 5), ("mid", 2)):
        await app.start(one(name), delay="1h", priority=priority)
    await app.advance("1h")
    assert order == ["high", "mid", "none", "low"]


@pytest.mark.parametrize("priority", ["high", 1.5, True, 1 << 40], ids=repr)
async def test_a_priority_that_is_no_number_is_refused(perdure_app, priority):
    @workflow
    async def one() -> None: ...

    call = one()
    with pytest.raises(ConfigurationError, match=r"PRD-703.*priority"):
        await perdure_app.start(call, priority=priority)
    call.close()
    assert await perdure_app.count() == {}


# ── calls and handles ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_run_takes_the_options_of_start(perdure_app):
    @workflow
    async def greets(name: str) -> str:
        return f"hello {name}"

    assert await perdure_app.run(greets("Ada"), id="x", tags=["t"], delay="1d") == "hello Ada"
    assert [run.id for run in (await perdure_app.runs(tag="t")).items] == ["x"]


async def test_awaiting_a_workflows_call_outside_of_a_run_teaches(perdure_app):
    bodies = []

    @workflow
    async def research(topic: str) -> None:
        bodies.append(topic)

    with pytest.raises(WrongContext, match=r"PRD-701.*research was awaited outside of a run") as caught:
        await research("llamas")
    assert "await app.start(research(...))" in caught.value.hint
    assert bodies == []
    assert await perdure_app.count() == {}


async def test_a_call_is_started_once(perdure_app):
    @workflow
    async def one() -> int:
        return 1

    call = one()
    assert await perdure_app.run(call) == 1
    with pytest.raises(RuntimeError, match="started already"):
        await perdure_app.start(call)
    assert await perdure_app.count() == {"succeeded": 1}


async def test_what_is_no_workflows_call_cannot_be_started(perdure_app):
    @step
    async def search(query: str) -> str:
        return query

    @workflow
    async def one() -> None: ...

    async def plain() -> None: ...

    call = search("x")
    with pytest.raises(WrongContext, match=r"only workflows are started") as caught:
        await perdure_app.start(call)
    assert caught.value.hint == "call the step inside a workflow"
    call.close()
    for wrong in (plain(), one, None):
        with pytest.raises(UnknownWorkflow, match="not a workflow's call"):
            await perdure_app.start(wrong)
    assert await perdure_app.count() == {}


async def test_a_handle_of_an_unknown_id_says_so_when_it_is_used(perdure_app):
    run = perdure_app.handle("nobody")
    for verb in (run.status, run.result, run.info, run.history, run.cancel, run.pause, run.resume):
        with pytest.raises(UnknownRun, match=r"PRD-105.*'nobody'"):
            await verb()
    with pytest.raises(UnknownRun):
        await run.send("go")


async def test_an_app_that_is_not_open_says_so(tmp_path):
    app = App(f"sqlite:///{tmp_path}/runs.db")

    @workflow
    async def one() -> None: ...

    call = one()
    with pytest.raises(WrongContext, match=r"not open(.|\n)*async with App"):
        await app.start(call)
    call.close()
    assert list(tmp_path.iterdir()) == []
