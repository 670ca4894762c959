"""Effects: the idempotency key, `once` steps, what a takeover and a failed write may do to them, where they may be called."""

import asyncio
import contextlib

import pytest

from perdure import InDoubt, Retry, RunFailed, WrongContext, current_step, step, workflow
from perdure.stores.base import Advance

from .tools import FaultyStore, blocked, kinds, lines, until


def records(kind):
    """For `FaultyStore.fail`: the changes that write an entry of this kind."""
    return lambda change: isinstance(change, Advance) and any(entry.kind == kind for entry in change.entries)


@contextlib.asynccontextmanager
async def taken_over(make_app, tmp_path):
    """Two apps on one file: what the first had begun is taken over by the second, once it is opened, by an expired lease."""
    url = f"sqlite:///{tmp_path}/two.db"
    async with make_app(url, lease=10) as first:

        def second():
            first.clock.advance_to(first.clock.now() + 11_000_000)
            return make_app(url, clock=first.clock, lease=10)

        yield first, second


async def test_the_idempotency_key_is_one_for_all_attempts_and_recoveries(perdure_app):
    app, seen, going = perdure_app, [], asyncio.Event()

    @step(retry=Retry(attempts=3, initial="1m", jitter=0))
    async def charge(n: int) -> int:
        seen.append((n, current_step().attempt, current_step().idempotency_key))
        if len(seen) == 1:
            raise ConnectionError("reset")
        if len(seen) == 2:
            going.set()
            await asyncio.Event().wait()
        return n

    @workflow
    async def charges() -> list[int]:
        return [await charge(1), await charge(2)]

    run = await app.start(charges())
    await app.settle()
    await app.crash()
    await app.settle()
    app.clock.jump()
    await going.wait()
    await app.crash()
    assert await app.handle(run.id).result() == [1, 2]
    assert [(n, attempt) for n, attempt, _ in seen] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert len({key for n, _, key in seen if n == 1}) == 1
    assert len({key for _, _, key in seen}) == 2


async def test_a_run_that_replaces_another_has_other_idempotency_keys(perdure_app):
    app, keys = perdure_app, []

    @step
    async def charge() -> None:
        keys.append(current_step().idempotency_key)

    @workflow
    async def charges() -> None:
        await charge()

    await (await app.start(charges(), id="order-1")).result()
    await (await app.start(charges(), id="order-1", if_exists="replace")).result()
    await app.run(charges())
    assert len(keys) == len(set(keys)) == 3


async def test_a_once_step_is_journaled_as_begun_before_its_body_runs(perdure_app):
    app, before = perdure_app, []

    @step(once=True)
    async def pay(amount: int) -> str:
        before.extend(await kinds(app.handle("pays")))
        return f"paid {amount}"

    @workflow
    async def pays() -> str:
        return await pay(5)

    run = await app.start(pays(), id="pays")
    assert await run.result() == "paid 5"
    assert before == ["started", "begun"]
    assert lines(await run.history()) == ["started ", "begun pay#0", "step pay#0"]


async def test_a_once_step_found_begun_and_not_ended_is_in_doubt_and_never_runs_again(perdure_app):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step(once=True)
    async def pay() -> str:
        bodies.append(1)
        going.set()
        await asyncio.Event().wait()

    @step
    async def tell(what: str) -> str:
        return what

    @workflow
    async def pays() -> str:
        try:
            return await pay()
        except InDoubt as doubt:
            assert doubt.code == "PRD-501"
            return await tell(f"{doubt.run}: {doubt.step.rsplit('.', 1)[-1]}")

    run = await app.start(pays(), id="doubtful")
    await going.wait()
    await app.crash()
    run = app.handle("doubtful")
    assert await run.result() == "doubtful: pay#0"
    assert bodies == [1]
    journal = await run.history()
    assert lines(journal) == ["started ", "begun pay#0", "step pay#0", "step tell#0"]
    assert journal[2].failed
    await app.crash()
    assert await app.handle("doubtful").result() == "doubtful: pay#0"
    assert bodies == [1]


async def test_doubt_that_is_not_caught_fails_the_run_and_says_what_to_do(perdure_app):
    app, going = perdure_app, asyncio.Event()

    @step(once=True, retry=5)
    async def pay() -> None:
        going.set()
        await asyncio.Event().wait()

    @workflow
    async def pays() -> None:
        await pay()

    run = await app.start(pays())
    await going.wait()
    await app.crash()
    with pytest.raises(RunFailed) as caught:
        await app.handle(run.id).result()
    assert isinstance(caught.value.__cause__, InDoubt)
    assert "probe=" in str(caught.value.__cause__)
    assert "not run again" in str(caught.value.__cause__)


@pytest.mark.parametrize("once", [False, True], ids=["plain", "once"])
async def test_a_crash_between_the_effect_and_its_record(perdure_app, once):
    """The window that every system has: a plain step runs again with the same key, a once step does not."""
    app, effects = perdure_app, []
    store = FaultyStore.between(app)

    @step(once=once)
    async def pay() -> str:
        effects.append((current_step().attempt, current_step().idempotency_key))
        return f"receipt {len(effects)}"

    @workflow
    async def pays() -> str:
        try:
            return await pay()
        except InDoubt:
            return "in doubt"

    left = store.fail(1000, records("step"))
    run = await app.start(pays())
    await until(lambda: left[0] < 1000, "the record to fail")
    await app.crash()
    left[0] = 0
    result = await app.handle(run.id).result()
    if once:
        assert result == "in doubt"
        assert [attempt for attempt, _ in effects] == [1]
    else:
        assert result == "receipt 2"
        assert [attempt for attempt, _ in effects] == [1, 2]
        assert effects[0][1] == effects[1][1]


@pytest.mark.parametrize("once", [False, True], ids=["plain", "once"])
async def test_p06_a_failed_write_of_the_record_is_tried_again_and_the_body_is_not(perdure_app, once):
    app, bodies = perdure_app, []
    store = FaultyStore.between(app)

    @step(once=once, retry=5)
    async def pay() -> str:
        bodies.append(1)
        return "receipt"

    @workflow
    async def pays() -> str:
        return await pay()

    left = store.fail(3, records("step"))
    run = await app.start(pays())
    await until(lambda: left == [0] or (app.clock.jump() and False), "the writes to fail")
    app.clock.jump()
    assert await run.result() == "receipt"
    assert left == [0]
    assert bodies == [1]
    assert (await kinds(run)).count("step") == 1
    assert (await kinds(run)).count("attempt") == 0


@pytest.mark.parametrize(
    ("retry", "error", "expected"),
    [
        (3, ConnectionError, 1),
        (Retry(attempts=3, initial=0, on=ConnectionError), ConnectionError, 3),
        (Retry(attempts=3, initial=0, on=ConnectionError), ValueError, 1),
        (Retry(attempts=3, initial=0, on=OSError, unless=ConnectionError), ConnectionError, 1),
    ],
    ids=["not listed", "listed", "another listed", "listed but excepted"],
)
async def test_an_exception_of_a_once_step_is_retried_only_if_it_is_listed(perdure_app, retry, error, expected):
    bodies = []

    @step(once=True, retry=retry)
    async def pay() -> None:
        bodies.append(current_step().attempt)
        raise error(f"number {len(bodies)}")

    @workflow
    async def pays() -> str:
        try:
            await pay()
        except error as problem:
            return str(problem)
        return "no error"

    run = await perdure_app.start(pays())
    assert await run.result() == f"number {expected}"
    assert bodies == list(range(1, expected + 1))
    assert await kinds(run) == ["started", *["begun", "attempt"] * (expected - 1), "begun", "step"]


async def test_a_crash_while_a_once_step_waits_for_its_next_attempt_leaves_no_doubt(perdure_app):
    """Its last attempt has ended, with a recorded error: nothing is under way."""
    app, bodies = perdure_app, []

    @step(once=True, retry=Retry(attempts=3, initial="1h", jitter=0, on=ConnectionError))
    async def pay() -> str:
        bodies.append(current_step().attempt)
        if len(bodies) < 3:
            raise ConnectionError("refused")
        return "paid"

    @workflow
    async def pays() -> str:
        return await pay()

    run = await app.start(pays())
    for _ in range(2):
        await app.settle()
        await app.crash()
        await app.advance("1h")
    assert await app.handle(run.id).result() == "paid"
    assert len(bodies) == 3
    assert await kinds(app.handle(run.id)) == ["started", "begun", "attempt", "begun", "attempt", "begun", "step"]


async def test_a_once_step_whose_time_ran_out_is_in_doubt(perdure_app):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step(once=True, timeout="30s", retry=Retry(attempts=3, initial=0, on=TimeoutError))
    async def pay() -> None:
        bodies.append(1)
        going.set()
        await asyncio.Event().wait()

    @workflow
    async def pays() -> str:
        try:
            await pay()
        except InDoubt as doubt:
            return doubt.message
        return "no doubt"

    run = await app.start(pays())
    await going.wait()
    app.clock.jump()
    assert "its time ran out" in await run.result()
    assert bodies == [1]


async def test_a_once_step_that_the_code_gave_up_leaves_no_doubt_behind(perdure_app):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step(once=True)
    async def pay() -> None:
        bodies.append(1)
        going.set()
        await asyncio.Event().wait()

    @workflow
    async def pays() -> str:
        try:
            async with asyncio.timeout(30):
                await pay()
        except TimeoutError:
            await asyncio.sleep(60)
            return "gave up"
        return "paid"

    run = await app.start(pays())
    await going.wait()
    app.clock.jump()
    await app.settle()
    await app.crash()
    assert await app.handle(run.id).result() == "gave up"
    assert bodies == [1]
    assert await kinds(app.handle(run.id)) == ["started", "begun", "timer", "timer"]


@pytest.mark.parametrize("where", ["ended", "begun"])
async def test_a_once_step_with_other_arguments_is_divergence(make_app, where):
    async with make_app(strict=False) as app:
        bodies, going = [], asyncio.Event()

        @step(once=True)
        async def transfer(amount: int) -> str:
            bodies.append(amount)
            if where == "begun":
                going.set()
                await asyncio.Event().wait()
            return f"sent {amount}"

        def deploy(amount):
            @workflow(name="effects.pays")
            async def pays() -> str:
                try:
                    sent = await transfer(amount)
                except InDoubt:
                    sent = "in doubt"
                await asyncio.sleep(60)
                return sent

            return pays

        run = await app.start(deploy(5)())
        if where == "begun":
            await going.wait()
        else:
            await app.settle()
        deploy(6)
        await app.crash()
        run = app.handle(run.id)
        why = await blocked(run, "PRD-401")
        assert "other arguments" in why.reason
        assert why.recorded[0].startswith("2 begun")
        assert why.recorded[0].endswith("transfer#0 [5]")
        assert any("transfer#0 [6]" in each for each in why.asked)
        deploy(5)
        await run.resume()
        assert await run.result() == ("sent 5" if where == "ended" else "in doubt")
        assert bodies == [5]


@pytest.mark.parametrize("option", [{"once": True}, {"probe": lambda: None}], ids=["once", "probe"])
async def test_s23_a_step_with_effects_to_protect_is_refused_inside_another_step(perdure_app, option):
    bodies = []

    @step(**option)
    async def pay() -> None:
        bodies.append("inner")

    @step(retry=3)
    async def outer() -> None:
        bodies.append("outer")
        await pay()

    @workflow
    async def calls() -> str:
        try:
            await outer()
        except WrongContext as error:
            return str(error)
        return "allowed"

    run = await perdure_app.start(calls())
    text = await run.result()
    assert "pay" in text
    assert "inside another step" in text
    assert "call it from the workflow" in text
    assert bodies == ["outer"]


async def test_p05_of_two_executions_that_end_a_step_the_owner_s_is_recorded(make_app, tmp_path):
    """The first worker is taken over while its body runs: what it brings afterwards is refused, quietly and for good."""
    async with taken_over(make_app, tmp_path) as (first, open_second):
        bodies, going, release = [], asyncio.Event(), asyncio.Event()

        @step
        async def effect() -> str:
            mine = len(bodies)
            bodies.append((current_step().attempt, current_step().idempotency_key))
            if mine == 0:
                going.set()
                await release.wait()
            return f"by execution {mine}"

        @step
        async def after(seen: str) -> str:
            return seen

        @workflow
        async def works() -> str:
            return await after(await effect())

        run = await first.start(works(), id="both")
        await going.wait()
        async with open_second() as second:
            assert await second.handle(run.id).result() == "by execution 1"
            release.set()
            await until(lambda: not first._worker.drivers, "the first worker to let go")
            assert [attempt for attempt, _ in bodies] == [1, 2]
            assert bodies[0][1] == bodies[1][1]
            journal = await second.handle(run.id).history()
            assert [each.value for each in journal if each.kind == "step"] == ["by execution 1"] * 2
            assert await run.status() == "succeeded"


async def test_p05_who_recorded_first_wins_and_the_other_reads_it(make_app, tmp_path):
    """The first worker's record is durable, but it is taken over before it gets further: the second one replays it."""
    async with taken_over(make_app, tmp_path) as (first, open_second):
        bodies, going, release = [], asyncio.Event(), asyncio.Event()

        @step(once=True)
        async def effect() -> str:
            bodies.append("effect")
            return "once"

        @step
        async def after(seen: str) -> str:
            bodies.append("after")
            if bodies.count("after") == 1:
                going.set()
                await release.wait()
            return seen

        @workflow
        async def works() -> str:
            return await after(await effect())

        run = await first.start(works(), id="both")
        await going.wait()
        async with open_second() as second:
            assert await second.handle(run.id).result() == "once"
            release.set()
            await until(lambda: not first._worker.drivers, "the first worker to let go")
            assert bodies == ["effect", "after", "after"]
            assert lines(await second.handle(run.id).history())[:3] == ["started ", "begun effect#0", "step effect#0"]
