"""Steps: recorded once, retried with delays that last, timed per attempt, in threads, nested, keyed, renamed."""

import asyncio
import contextvars
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from perdure import Retry, RunFailed, current_step, step, workflow

from .tools import blocked, has, kinds, lines, until


async def test_a_result_is_recorded_once_and_seen_after_a_crash(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def paid(n: int) -> int:
        bodies.append(n)
        return n * 10

    @workflow
    async def buys() -> list[int]:
        first = await paid(1)
        await asyncio.sleep(60)
        return [first, await paid(2)]

    run = await app.start(buys())
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    assert await run.result() == [10, 20]
    await app.crash()
    assert await app.handle(run.id).result() == [10, 20]
    assert bodies == [1, 2]
    assert lines(await app.handle(run.id).history()) == ["started ", "step paid#0", "timer /sleep#0", "step paid#1"]


async def test_a_step_under_way_at_a_crash_runs_again_under_a_higher_attempt(perdure_app):
    app, seen, going = perdure_app, [], asyncio.Event()

    @step
    async def slow() -> int:
        seen.append((current_step().attempt, current_step().idempotency_key))
        if len(seen) == 1:
            going.set()
            await asyncio.Event().wait()
        return 7

    @workflow
    async def one() -> int:
        return await slow()

    run = await app.start(one())
    await going.wait()
    await app.crash()
    assert await app.handle(run.id).result() == 7
    assert [attempt for attempt, _ in seen] == [1, 2]
    assert len({key for _, key in seen}) == 1


async def test_a_long_retry_delay_survives_crashes_with_its_attempt_count(perdure_app):
    app, attempts = perdure_app, []

    @step(retry=Retry(attempts=4, initial="1h", factor=2, max_delay="10h", jitter=0))
    async def flaky() -> str:
        attempts.append((current_step().attempt, app.clock.now()))
        if len(attempts) < 4:
            raise ConnectionError(f"try {len(attempts)}")
        return "at last"

    @workflow
    async def persistent() -> str:
        return await flaky()

    run = await app.start(persistent())
    for _ in range(3):
        await app.settle()
        await app.crash()
        before = len(attempts)
        await app.advance("59m")
        assert len(attempts) == before, "a crash must not shorten the wait"
        await app.advance({1: "1m", 2: "61m", 3: "181m"}[before])
    run = app.handle(run.id)
    assert await run.result() == "at last"
    assert [number for number, _ in attempts] == [1, 2, 3, 4]
    hours = [(at - attempts[0][1]) / 3_600_000_000 for _, at in attempts]
    assert hours == [0, 1, 3, 7]
    assert [entry.kind for entry in await run.history()] == ["started", "attempt", "attempt", "attempt", "step"]
    tries = [(each.attempt, each.failed, each.value["name"]) for each in await run.history() if each.kind == "attempt"]
    assert tries == [(1, True, tries[0][2]), (2, True, tries[0][2]), (3, True, tries[0][2])]
    assert "ConnectionError" in tries[0][2]


async def test_a_run_in_a_long_back_off_is_parked(perdure_app):
    app = perdure_app

    @step(retry=Retry(attempts=2, initial="1d", jitter=0))
    async def fails_first() -> int:
        if current_step().attempt == 1:
            raise OSError("down")
        return 1

    @workflow
    async def patient() -> int:
        return await fails_first()

    run = await app.start(patient())
    await app.settle()
    assert await run.status() == "waiting"
    assert not app.worker.drivers
    info = await run.info()
    assert info.wakes_at - info.started_at == timedelta(days=1)
    assert await run.result() == 1


async def test_attempts_run_out_with_the_last_error(perdure_app):
    app, bodies = perdure_app, []

    @step(retry=Retry(attempts=3, initial="1s", jitter=0))
    async def hopeless() -> None:
        bodies.append(1)
        raise ConnectionError(f"number {len(bodies)}")

    @workflow
    async def tries() -> None:
        await hopeless()

    with pytest.raises(RunFailed) as caught:
        await app.run(tries())
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert str(caught.value.__cause__) == "number 3"
    assert len(bodies) == 3


@pytest.mark.parametrize("error", [TypeError("t"), AttributeError("a"), NameError("n")], ids=lambda e: type(e).__name__)
async def test_programming_errors_are_never_retried(perdure_app, error):
    bodies = []

    @step(retry=5)
    async def broken() -> None:
        bodies.append(1)
        raise error

    @workflow
    async def calls() -> str:
        try:
            await broken()
        except type(error) as problem:
            return str(problem)
        return "no error"

    assert await perdure_app.run(calls()) == str(error)
    assert bodies == [1]


async def test_no_retry_of_an_exception_by_default(perdure_app):
    bodies = []

    @step
    async def fails() -> None:
        bodies.append(1)
        raise ConnectionError("once")

    @workflow
    async def calls() -> None:
        await fails()

    with pytest.raises(RunFailed):
        await perdure_app.run(calls())
    assert bodies == [1]


async def test_retry_on_and_unless_choose_the_errors(perdure_app):
    bodies = []

    class Chosen(Exception):
        pass

    @step(retry=Retry(attempts=3, initial=0, on=(Chosen, OSError), unless=PermissionError))
    async def picky(error: str) -> None:
        bodies.append(error)
        raise {"chosen": Chosen, "value": ValueError, "permission": PermissionError}[error](error)

    @workflow
    async def calls() -> int:
        for error in ("chosen", "value", "permission"):
            try:
                await picky(error)
            except Exception:
                pass
        return 0

    await perdure_app.run(calls())
    assert bodies == ["chosen"] * 3 + ["value", "permission"]


class Busy(Exception):
    def __init__(self, message, retry_after=None, response=None):
        super().__init__(message)
        if retry_after is not None:
            self.retry_after = retry_after
        if response is not None:
            self.response = response


class Response:
    def __init__(self, value):
        self.headers = {"retry-after": value}


@pytest.mark.parametrize("style", ["attribute", "header", "date"])
async def test_a_retry_after_is_honoured_as_a_durable_timer(perdure_app, style):
    app, attempts = perdure_app, []

    @step(retry=Retry(attempts=2, initial="1s"))
    async def limited() -> str:
        attempts.append(app.clock.now())
        if len(attempts) == 1:
            if style == "attribute":
                raise Busy("later", retry_after=7200)
            if style == "header":
                raise Busy("later", response=Response("7200"))
            later = datetime.fromtimestamp(app.clock.now() / 1e6, UTC) + timedelta(hours=2)
            raise Busy("later", response=Response(format_datetime(later, usegmt=True)))
        return "ok"

    @workflow
    async def calls() -> str:
        return await limited()

    run = await app.start(calls())
    await app.settle()
    await app.crash()
    await app.advance("119m")
    assert len(attempts) == 1
    assert await app.handle(run.id).result() == "ok"
    assert attempts[1] - attempts[0] == 7_200_000_000


async def test_a_timeout_is_per_attempt(perdure_app):
    app, attempts, going = perdure_app, [], asyncio.Queue()

    @step(timeout="30s", retry=Retry(attempts=3, initial=0))
    async def hangs_twice() -> str:
        attempts.append(app.clock.now())
        if len(attempts) < 3:
            going.put_nowait(1)
            await asyncio.Event().wait()
        return "third"

    @workflow
    async def calls() -> str:
        return await hangs_twice()

    run = await app.start(calls())
    for _ in range(2):
        await going.get()
        app.clock.jump()
    assert await run.result() == "third"
    assert [at - attempts[0] for at in attempts] == [0, 30_000_000, 60_000_000]
    assert all("TimeoutError" in str(each.value) for each in await run.history() if each.kind == "attempt")


async def test_a_timeout_without_retry_is_raised_in_the_workflow(perdure_app):
    app, going = perdure_app, asyncio.Event()

    @step(timeout="30s")
    async def hangs() -> str:
        going.set()
        await asyncio.Event().wait()

    @workflow
    async def calls() -> str:
        try:
            return await hangs()
        except TimeoutError as error:
            return str(error)

    run = await app.start(calls())
    await going.wait()
    app.clock.jump()
    assert "took longer than 30s" in await run.result()


async def test_a_step_that_ignores_its_cancellation_is_given_up(perdure_app):
    """P59: its attempt is left behind and cannot record any more."""
    app, going, release = perdure_app, asyncio.Event(), asyncio.Event()

    @step(timeout="30s")
    async def stubborn() -> str:
        going.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    @workflow
    async def calls() -> str:
        try:
            return await stubborn()
        except TimeoutError:
            await asyncio.sleep(1)
            return "gave up"

    run = await app.start(calls())
    await going.wait()
    app.clock.jump()  # its timeout
    app.clock.jump()  # the time to unwind
    assert await run.result() == "gave up"
    release.set()
    await app.settle()
    assert await kinds(run) == ["started", "step", "timer"]


async def test_def_steps_run_in_threads(perdure_app):
    threads, var = [], contextvars.ContextVar("var", default="unset")

    @step
    def blocking(n: int) -> str:
        threads.append(threading.get_ident())
        seen = var.get()
        var.set("changed")
        return f"{n}{seen}{current_step().attempt}"

    @workflow
    async def calls() -> list[str]:
        var.set("mine")
        results = await asyncio.gather(*(blocking(n) for n in range(5)))
        return [*results, var.get()]

    assert await perdure_app.run(calls()) == [f"{n}mine1" for n in range(5)] + ["mine"]
    assert len(threads) == 5
    assert threading.get_ident() not in threads


async def test_what_a_step_changes_in_its_context_does_not_flow_back(perdure_app):
    var = contextvars.ContextVar("var2", default=0)

    @step
    async def changes() -> int:
        var.set(var.get() + 1)
        return var.get()

    @workflow
    async def calls() -> list[int]:
        var.set(10)
        return [await changes(), await changes(), var.get()]

    assert await perdure_app.run(calls()) == [11, 11, 10]


async def test_a_plain_step_inside_a_step_is_part_of_it(perdure_app):
    inner_bodies = []

    @step(retry=Retry(attempts=3, initial=0))
    async def inner() -> int:
        inner_bodies.append(1)
        if len(inner_bodies) < 3:
            raise ConnectionError("again")
        return 5

    @step
    async def outer() -> int:
        return await inner() + 1

    @workflow
    async def calls() -> int:
        return await outer()

    run = await perdure_app.start(calls())
    assert await run.result() == 6
    assert len(inner_bodies) == 3
    assert lines(await run.history()) == ["started ", "step outer#0"]


async def test_awaiting_a_step_outside_of_a_run_just_runs_it():
    @step
    async def double(n: int) -> int:
        return 2 * n

    @step
    def triple(n: int) -> int:
        return 3 * n

    assert await double(4) == 8
    assert await triple(4) == 12
    assert await double.fn(5) == 10


async def test_a_key_names_the_call_instead_of_its_position(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def pay(invoice: str) -> str:
        bodies.append(invoice)
        return f"paid {invoice}"

    def deploy(order):
        @workflow(name="keys.pays")
        async def pays() -> list[str]:
            results = [await pay.options(key=invoice)(invoice) for invoice in order]
            await asyncio.sleep(60)
            return sorted(results)

        return pays

    run = await app.start(deploy(["a", "b"])())
    await app.settle()
    assert [each.key.rsplit(".", 1)[-1] for each in await run.history() if each.kind == "step"] == ["pay[a]", "pay[b]"]
    assert await run.result() == ["paid a", "paid b"]
    assert bodies == ["a", "b"]


async def test_keyed_steps_in_parallel_may_change_places(perdure_app):
    """P67: tool calls keyed by their ids; new code lists them in another order, and each keeps its own result."""
    app, bodies = perdure_app, []

    @step
    async def tool(id: str) -> str:
        bodies.append(id)
        return f"result of {id}"

    def deploy(order):
        @workflow(name="keys.tools")
        async def tools() -> list[str]:
            results = await asyncio.gather(*(tool.options(key=id)(id) for id in order))
            await asyncio.sleep(60)
            return results

        return tools

    run = await app.start(deploy(["a", "b", "c"])())
    await app.settle()
    deploy(["c", "a", "b"])
    # Steps in tasks of gather stand in scopes of their own, so only those awaited in one task are told by key alone.
    with_keys = [each.key for each in await run.history() if each.kind == "step"]
    assert all("[" in key for key in with_keys)
    assert sorted(bodies) == ["a", "b", "c"]


async def test_options_replace_retry_and_timeout_of_one_call(perdure_app):
    bodies = []

    @step
    async def flaky(name: str) -> str:
        bodies.append(name)
        if bodies.count(name) < 2:
            raise ConnectionError("first")
        return name

    @workflow
    async def calls() -> str:
        result = await flaky.options(retry=Retry(attempts=2, initial=0))("patient")
        try:
            await flaky("plain")
        except ConnectionError:
            return result
        return "?"

    assert await perdure_app.run(calls()) == "patient"
    assert bodies == ["patient", "patient", "plain"]


class Shop:
    def __init__(self, token):
        self.token = token  # a lock would do as well: it is never stored
        self.lock = threading.Lock()

    @step
    async def buy(self, item: str) -> str:
        return f"{item} with {self.token}"

    @staticmethod
    @step
    def price(item: str) -> int:
        return len(item)


async def test_the_object_of_a_method_is_never_journaled(perdure_app):
    shop = Shop("secret")

    @workflow
    async def shopping() -> list[str]:
        bought = [await shop.buy("tea"), await shop.buy.options(key="k")("milk")]
        return bought * (await Shop.price("a") or 0)

    run = await perdure_app.start(shopping())
    assert await run.result() == ["tea with secret", "milk with secret"]
    steps = [each for each in await run.history() if each.kind == "step"]
    assert [each.key.rsplit(".", 2)[-2:] for each in steps] == [["Shop", "buy#0"], ["Shop", "buy[k]"], ["Shop", "price#0"]]
    assert all("secret" not in str(each.arguments) for each in steps)
    assert await shop.buy("x") == "x with secret"


async def test_a_renamed_step_is_found_by_its_alias(perdure_app):
    app, bodies = perdure_app, []

    @step(name="alias.old")
    async def old() -> int:
        bodies.append("old")
        return 1

    @workflow(name="alias.flow")
    async def flow() -> int:
        first = await old()
        await asyncio.sleep(60)
        return first

    run = await app.start(flow())
    await app.settle()

    @step(name="alias.new", aliases=["alias.old"])
    async def new() -> int:
        bodies.append("new")
        return 2

    @workflow(name="alias.flow")
    async def flow() -> int:
        first = await new()
        await asyncio.sleep(60)
        return first + await new()

    assert await run.result() == 3
    assert bodies == ["old", "new"]


async def test_without_an_alias_a_renamed_step_blocks(perdure_app):
    app = perdure_app

    @step(name="noalias.old")
    async def old() -> int:
        return 1

    @workflow(name="noalias.flow")
    async def flow() -> int:
        await old()
        await asyncio.sleep(60)
        return 1

    run = await app.start(flow())
    await app.settle()

    @step(name="noalias.new")
    async def new() -> int:
        return 1

    @workflow(name="noalias.flow")
    async def flow() -> int:
        await new()
        await asyncio.sleep(60)
        return 1

    why = await blocked(run, "PRD-401")
    assert any("noalias.old" in each for each in why.recorded)
    assert any("noalias.new" in each for each in why.asked)


async def test_s05_changed_arguments_are_drift_and_the_recorded_result_stands(make_app):
    async with make_app(strict=False) as app:
        bodies = []

        @step
        async def model(prompt: str) -> str:
            bodies.append(prompt)
            return f"answer to {prompt}"

        def deploy(prompt):
            @workflow(name="drift.agent")
            async def agent() -> list[str]:
                first = await model(prompt)
                await asyncio.sleep(60)
                return [first, await model("last")]

            return agent

        run = await app.start(deploy("old prompt")())
        await app.settle()
        deploy("new prompt")
        assert await run.result() == ["answer to old prompt", "answer to last"]
        assert bodies == ["old prompt", "last"]


async def test_identity_chooses_what_must_be_the_same(make_app):
    async with make_app(strict=False) as app:

        @step(identity=lambda amount, note: amount)
        async def transfer(amount: int, note: str) -> str:
            return f"{amount} {note}"

        def deploy(amount, note):
            @workflow(name="identity.pays")
            async def pays() -> str:
                first = await transfer(amount, note)
                await asyncio.sleep(60)
                return first

            return pays

        run = await app.start(deploy(5, "hello")(), id="same")
        other = await app.start(deploy(5, "hello")(), id="other")
        await app.settle()
        deploy(5, "good bye")
        assert await run.result() == "5 hello"
        again = await app.start(deploy(5, "hello")(), id="third")
        await app.settle()
        deploy(6, "hello")
        why = await blocked(again, "PRD-401")
        assert "other arguments" in why.reason
        assert other.id == "other"


async def test_heartbeat_progress_reaches_the_next_attempt(perdure_app):
    app, seen, going = perdure_app, [], asyncio.Event()

    @step
    async def pages() -> int:
        seen.append(current_step().progress)
        if len(seen) == 1:
            current_step().heartbeat({"page": 41})
            going.set()
            await asyncio.Event().wait()
        return 1

    @workflow
    async def reads() -> int:
        return await pages()

    run = await app.start(reads())
    await going.wait()
    row = await run.info()
    await until(lambda: app.gate.store.published(row.number), "the progress to be written")
    await app.crash()
    run = app.handle(run.id)
    assert await run.result() == 1
    assert seen == [None, {"page": 41}]
    assert await run.published() == {}


async def test_progress_too_large_for_its_row_reaches_the_next_attempt(perdure_app):
    app, seen, going = perdure_app, [], asyncio.Event()
    pages = [f"{number} " * 1000 for number in range(5)]

    @step
    async def reads() -> int:
        seen.append(current_step().progress)
        if len(seen) == 1:
            current_step().heartbeat(pages)
            going.set()
            await asyncio.Event().wait()
        return 1

    @workflow
    async def reader() -> int:
        return await reads()

    run = await app.start(reader())
    await going.wait()
    row = await run.info()
    await until(lambda: app.gate.store.published(row.number), "the progress to be written")
    await app.crash()
    assert await app.handle(run.id).result() == 1
    assert seen == [None, pages]


async def test_p21_fifty_concurrent_steps_are_fifty_entries(perdure_app):
    effects = []

    @step
    def effect(n: int) -> int:
        effects.append(n)
        return n

    @workflow
    async def fans_out() -> int:
        return sum(await asyncio.gather(*(effect(n) for n in range(50))))

    run = await perdure_app.start(fans_out())
    assert await run.result() == sum(range(50))
    assert sorted(effects) == list(range(50))
    assert (await kinds(run)).count("step") == 50


async def test_steps_start_only_after_what_was_asked_for_before_is_committed(perdure_app):
    app, seen = perdure_app, []

    @step
    async def looks(id: str) -> bool:
        row = await app.gate.read(lambda: app.gate.store.promise(id))
        seen.append(row is not None)
        return True

    @workflow
    async def opens() -> bool:
        from perdure import ask

        question = ask("ready?", timeout="1h", default=True)
        await looks(question.id)
        return await question

    run = await app.start(opens())
    assert await run.result() is True
    assert seen == [True]
    assert await has(run, "opened")


async def test_publish_from_a_step_is_readable_while_the_run_goes_on(perdure_app):
    from perdure import publish

    app, going, release = perdure_app, asyncio.Event(), asyncio.Event()

    @step
    async def works() -> None:
        await publish("percent", 50)
        going.set()
        await release.wait()

    @workflow
    async def shows() -> None:
        await publish("phase", "one")
        await works()
        await publish("phase", "two")

    run = await app.start(shows())
    await going.wait()
    await until(lambda: _is(run, "percent", 50), "the value")
    assert await run.get("phase") == "one"
    release.set()
    await run.result()
    assert await run.published() == {"phase": "two", "percent": 50}
    assert await run.get("nothing", "default") == "default"


async def _is(run, key, value):
    return await run.get(key) == value
