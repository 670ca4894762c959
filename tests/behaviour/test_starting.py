"""Starting runs: one run per id, what happens when the id is taken, later, first, with tags and messages."""

import asyncio
from datetime import timedelta

import pytest

from perdure import (
    App,
    ConfigurationError,
    DuplicateRun,
    RunCancelled,
    RunFailed,
    UnknownRun,
    UnknownWorkflow,
    WrongContext,
    current_run,
    current_step,
    receive,
    step,
    workflow,
)

from .tools import kinds, observing, until

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


# ── the id is taken ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_x08_return_gives_the_run_that_is_there(perdure_app):
    app = perdure_app

    @workflow
    async def waits(n: int) -> int:
        await receive("go")
        return n

    first = await app.start(waits(1), id="x")
    await app.settle()
    second = await app.start(waits(1), id="x", tags=["late"], delay="1h")
    assert (await first.info()).number == (await second.info()).number
    assert (await second.info()).tags == []
    assert await second.status() == "waiting"
    await second.send("go")
    assert await first.result() == 1


async def test_x08_other_arguments_or_another_workflow_are_a_duplicate(perdure_app):
    app = perdure_app

    @workflow
    async def waits(n: int) -> int:
        return (await receive("go")).value

    @workflow
    async def other(n: int) -> int:
        return n

    run = await app.start(waits(1), id="x")
    await app.settle()
    with pytest.raises(DuplicateRun, match=r"PRD-104.*'x'.*other arguments \(waiting\).*run x") as caught:
        await app.start(waits(2), id="x")
    assert caught.value.run == "x"
    assert "if_exists='replace'" in caught.value.hint
    with pytest.raises(DuplicateRun, match=r"another workflow, .*waits"):
        await app.start(other(1), id="x")
    await run.send("go", 5)
    assert await run.result() == 5
    assert await app.count() == {"succeeded": 1}


async def test_x08_reject_refuses_and_leaves_the_run_alone(perdure_app):
    app = perdure_app

    @workflow
    async def waits() -> int:
        return (await receive("go")).value

    run = await app.start(waits(), id="x", if_exists="reject")
    await app.settle()
    with pytest.raises(DuplicateRun, match="'x' exists already"):
        await app.start(waits(), id="x", if_exists="reject")
    await app.handle("x").send("go", 3)  # whoever was refused reaches the run by its id
    assert await run.result() == 3
    with pytest.raises(DuplicateRun, match="succeeded"):
        await app.start(waits(), id="x", if_exists="reject")
    assert await app.count() == {"succeeded": 1}


async def test_s19_a_replacing_run_has_a_new_number_and_new_idempotency_keys(perdure_app):
    app, keys, going = perdure_app, [], asyncio.Event()

    @step
    async def pays() -> int:
        keys.append(current_step().idempotency_key)
        if len(keys) == 1:
            going.set()
            await asyncio.Event().wait()
        return len(keys)

    @workflow
    async def buys() -> int:
        return await pays()

    first = await app.start(buys(), id="order")
    await going.wait()
    second = await app.start(buys(), id="order", if_exists="replace")
    assert await second.result() == 2
    with pytest.raises(RunCancelled):
        await first.result()
    assert len(keys) == len(set(keys)) == 2
    numbers = [(await run.info()).number for run in (first, second)]
    assert numbers[0] < numbers[1]
    assert (await first.info()).id == f"order~{numbers[0]}"
    assert await kinds(second) == ["started", "step"]
    assert await app.count() == {"cancelled": 1, "succeeded": 1}


async def test_s19_the_owner_of_a_run_that_another_process_replaced_stops_its_body(make_app, tmp_path):
    url, going, stopped = f"sqlite:///{tmp_path}/runs.db", asyncio.Event(), asyncio.Event()

    @step
    async def endless() -> None:
        going.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @workflow
    async def works() -> None:
        await endless()

    owner = make_app(url)
    async with owner, make_app(url, clock=owner.clock, worker=False) as client:
        run = await owner.start(works(), id="x")
        await going.wait()
        await client.start(works(), id="x", if_exists="replace", delay="1d")
        owner._process.beat()  # as every few seconds
        await stopped.wait()
        with pytest.raises(RunCancelled):
            await run.result()
        assert not owner.worker.drivers


async def test_s19_a_webhook_that_comes_again_starts_nothing(perdure_app):
    """The id was replaced meanwhile: the old call is not the run's any more, and says so."""
    app, bodies = perdure_app, []

    @step
    async def handles(event: str) -> None:
        bodies.append(event)

    @workflow
    async def webhook(event: str) -> None:
        await handles(event)

    await app.run(webhook("old"), id="hook")
    await app.run(webhook("new"), id="hook", if_exists="replace")
    await app.run(webhook("new"), id="hook")
    with pytest.raises(DuplicateRun, match="other arguments"):
        await app.run(webhook("old"), id="hook")
    assert bodies == ["old", "new"]


async def test_s19_a_run_that_ended_is_replaced_and_both_results_stay(perdure_app):
    app = perdure_app

    @workflow
    async def says(what: str) -> str:
        return what

    first = await app.start(says("one"), id="x")
    assert await first.result() == "one"
    second = await app.start(says("two"), id="x", if_exists="replace")
    assert await second.result() == "two"
    assert await first.result() == "one"
    assert await app.handle("x").result() == "two"


async def test_s19_a_message_for_the_replaced_run_reaches_the_new_one_only(perdure_app):
    app, got = perdure_app, []

    @step
    async def notes(value: int) -> None:
        got.append((current_step().run, value))

    @workflow
    async def waits() -> None:
        await notes((await receive("go")).value)

    await app.start(waits(), id="x")
    await app.settle()
    second = await app.start(waits(), id="x", if_exists="replace")
    await app.handle("x").send("go", 1)
    await second.result()
    assert got == [("x", 1)]


async def test_retry_failed_starts_anew_what_failed_or_was_cancelled(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def fails_first() -> int:
        bodies.append(current_step().idempotency_key)
        if len(bodies) == 1:
            raise ConnectionError("down")
        return len(bodies)

    @workflow
    async def tries() -> int:
        return await fails_first()

    first = await app.start(tries(), id="x", if_exists="retry_failed")
    with pytest.raises(RunFailed):
        await first.result()
    assert await app.run(tries(), id="x", if_exists="retry_failed") == 2
    assert await app.run(tries(), id="x", if_exists="retry_failed") == 2
    assert len(set(bodies)) == len(bodies) == 2
    assert await app.count() == {"failed": 1, "succeeded": 1}


async def test_retry_failed_after_a_cancellation(perdure_app):
    app = perdure_app

    @workflow
    async def waits() -> int:
        return (await receive("go")).value

    run = await app.start(waits(), id="x")
    await app.settle()
    assert (await (await app.start(waits(), id="x", if_exists="retry_failed")).info()).number == (await run.info()).number
    await run.cancel()
    with pytest.raises(RunCancelled):
        await run.result()
    again = await app.start(waits(), id="x", if_exists="retry_failed")
    await again.send("go", 4)
    assert await again.result() == 4


async def test_an_unknown_policy_is_refused(perdure_app):
    @workflow
    async def nothing() -> None: ...

    call = nothing()
    with pytest.raises(ConfigurationError, match=r"PRD-703.*return, reject, replace, retry_failed.*'retrun'"):
        await perdure_app.start(call, if_exists="retrun")
    call.close()
    assert await perdure_app.count() == {}


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
