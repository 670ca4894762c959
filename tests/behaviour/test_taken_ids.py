"""Starting a run whose id is taken: return it, reject, replace it, or try again what failed; what came before stays apart."""

import asyncio

import pytest

from perdure import (
    ConfigurationError,
    DuplicateRun,
    RunCancelled,
    RunFailed,
    current_step,
    receive,
    step,
    workflow,
)

from .tools import kinds


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
