"""Bad values, answers, ids and code: one clear error with a code, what happened, where and what to do; nothing else changes."""

import asyncio
import logging
import threading
from typing import Any

import pytest

import perdure
from perdure import (
    AlreadyResolved,
    App,
    DuplicateRun,
    InvalidAnswer,
    NotStorable,
    PayloadTooLarge,
    RunEnded,
    RunFailed,
    UnknownRun,
    UnknownWait,
    UnknownWorkflow,
    ask,
    promise,
    publish,
    receive,
    send,
    step,
    workflow,
)

from .tools import has, kinds, store_state


class Opaque:
    """A value that cannot be stored."""


class changes_nothing:
    """A block after which the store is as it was before."""

    def __init__(self, app):
        self._app = app

    async def __aenter__(self):
        await self._app.settle()
        self._before = await store_state(self._app)

    async def __aexit__(self, *error):
        await self._app.settle()
        assert await store_state(self._app) == self._before


def clear(error, code, *told):
    """An error that says what, where and what to do."""
    text = str(error)
    assert text.startswith(f"[{code}] ")
    assert "\n  → " in text, f"it does not say what to do: {text}"
    for each in told:
        assert each in text


@workflow
async def echo(value: Any = None) -> Any:
    return value


@workflow
async def waits(n: int = 0) -> int:
    return (await receive("go")).value


@workflow
async def asks() -> int:
    return await ask("How many?", schema=int)


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────

BAD = {
    "object": (Opaque(), "Opaque"),
    "nan": (float("nan"), "nan"),
    "infinity": ([1.0, float("-inf")], "inf"),
    "deep": ({"a": [{"b": Opaque()}]}, ".a[0].b"),
    "surrogate": ("\ud800", "UTF-8"),
    "function": (len, "builtin"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_start_with_a_value_that_cannot_be_stored(perdure_app, name):
    value, _ = BAD[name]
    async with changes_nothing(perdure_app):
        call = echo(value)
        with pytest.raises(NotStorable) as caught:
            await perdure_app.start(call, id="x")
        call.close()
        clear(caught.value, "PRD-301", "echo", "value")
        call = waits()
        with pytest.raises(NotStorable) as caught:
            await perdure_app.start(call, id="x", send=("go", value))
        call.close()
        clear(caught.value, "PRD-301")
        with pytest.raises(NotStorable) as caught:
            await perdure_app.start(echo.name, args=[value], id="x")
        clear(caught.value, "PRD-301", "echo", "value")


@pytest.mark.parametrize("name", BAD)
async def test_a_message_that_cannot_be_stored(perdure_app, name):
    app = perdure_app
    value, _ = BAD[name]
    run = await app.start(waits(), id="x")
    async with changes_nothing(app):
        for verb in (run.send, run.request):
            with pytest.raises(NotStorable) as caught:
                await verb("go", value)
            clear(caught.value, "PRD-301", "go")
    await run.send("go", 1)
    assert await run.result() == 1


@pytest.mark.parametrize("name", BAD)
async def test_a_steps_result_that_cannot_be_stored_fails_once_and_names_run_and_step(perdure_app, name):
    value, _ = BAD[name]
    bodies = []

    @step(retry=5)
    async def returns():
        bodies.append(1)
        return value

    @workflow
    async def calls() -> None:
        await returns()

    run = await perdure_app.start(calls(), id="x")
    with pytest.raises(RunFailed) as caught:
        await run.result()
    cause = caught.value.__cause__
    assert isinstance(cause, NotStorable)
    clear(cause, "PRD-301", "returns", "run x")
    assert cause.run == "x"
    assert cause.step.endswith("returns#0")
    assert bodies == [1]
    assert await kinds(run) == ["started", "step"]


async def test_a_steps_result_that_cannot_be_stored_can_be_caught_and_looks_the_same_on_replay(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def returns():
        bodies.append(1)
        return {1: "a"}

    @workflow
    async def calls() -> str:
        try:
            await returns()
        except NotStorable as error:
            await asyncio.sleep(1)
            return str(error)
        return "stored"

    run = await app.start(calls(), id="x")
    await app.settle()
    await app.crash()
    said = await app.handle(run.id).result()
    assert said.startswith("[PRD-301]")
    assert "run x" in said
    assert bodies == [1]


async def test_a_runs_result_that_cannot_be_stored_fails_the_run(perdure_app):
    @workflow
    async def returns():
        return Opaque()

    run = await perdure_app.start(returns(), id="x")
    with pytest.raises(RunFailed) as caught:
        await run.result()
    clear(caught.value.__cause__, "PRD-301", "returns", "result", "Opaque", "run x")
    assert await run.status() == "failed"


async def test_what_is_too_large_fails_once_and_names_step_and_size(make_app):
    app, bodies = make_app(payload_cap=10_000), []

    @step(retry=5)
    async def returns(size: int) -> str:
        bodies.append(size)
        return "x" * size

    @workflow
    async def calls(size: int) -> int:
        return len(await returns(size))

    async with app:
        assert await app.run(calls(9_000)) == 9_000
        run = await app.start(calls(20_000), id="x")
        with pytest.raises(RunFailed) as caught:
            await run.result()
        assert isinstance(caught.value.__cause__, PayloadTooLarge)
        clear(caught.value.__cause__, "PRD-302", "returns#0", "run x")
        assert bodies == [9_000, 20_000]
        async with changes_nothing(app):
            call = echo("x" * 20_000)
            with pytest.raises(PayloadTooLarge) as caught:
                await app.start(call)
            clear(caught.value, "PRD-302", "echo")


@pytest.mark.parametrize("verb", ["publish", "send", "child"])
async def test_a_verb_in_a_run_with_a_value_that_cannot_be_stored_raises_there(perdure_app, verb):
    app = perdure_app
    other = await app.start(waits(), id="other")

    @workflow
    async def uses() -> str:
        try:
            match verb:
                case "publish":
                    await publish("key", Opaque())
                case "send":
                    await send("other", "go", Opaque())
                case "child":
                    await echo(Opaque())
        except NotStorable as error:
            return str(error)
        return "stored"

    run = await app.start(uses(), id="x")
    assert (await run.result()).startswith("[PRD-301]")
    assert await kinds(run) == ["started"]
    assert await run.published() == {}
    await other.send("go", 1)
    assert await other.result() == 1
    assert await app.count() == {"succeeded": 2}


# ── ids and names ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_unknown_workflow_name(perdure_app):
    async with changes_nothing(perdure_app):
        with pytest.raises(UnknownWorkflow) as caught:
            await perdure_app.start(echo.name + "s", id="x")
        clear(caught.value, "PRD-107", repr(echo.name + "s"), echo.name)


async def test_a_duplicate_id(perdure_app):
    app = perdure_app
    run = await app.start(waits(1), id="x")
    async with changes_nothing(app):
        with pytest.raises(DuplicateRun) as caught:
            await app.start(waits(2), id="x")
        clear(caught.value, "PRD-104", "'x'", "other arguments", "run x")
        with pytest.raises(DuplicateRun) as caught:
            await app.start(waits(1), id="x", if_exists="reject")
        clear(caught.value, "PRD-104", "'x'", "run x")
    await run.send("go", 1)
    assert await run.result() == 1


async def test_verbs_on_a_run_that_is_unknown_or_has_ended(perdure_app):
    app = perdure_app
    await app.run(echo(1), id="done")
    async with changes_nothing(app):
        for verb in ("send", "request", "pause", "resume"):
            arguments = ("go",) if verb in ("send", "request") else ()
            with pytest.raises(RunEnded) as caught:
                await getattr(app.handle("done"), verb)(*arguments)
            clear(caught.value, "PRD-106", "done")
            with pytest.raises(UnknownRun) as caught:
                await getattr(app.handle("nobody"), verb)(*arguments)
            clear(caught.value, "PRD-105", "nobody")
        with pytest.raises(UnknownRun) as caught:
            await app.handle("nobody").cancel()
        clear(caught.value, "PRD-105", "nobody")
        assert await app.handle("done").cancel() == "succeeded"


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_that_is_no_json(perdure_app):
    app = perdure_app
    run = await app.start(asks(), id="x")
    question = await app.next_ask()
    async with changes_nothing(app):
        for value, _ in BAD.values():
            with pytest.raises(InvalidAnswer) as caught:
                await app.answer(question.id, value)
            clear(caught.value, "PRD-203")
    await app.answer(question.id, 3)
    assert await run.result() == 3


@pytest.mark.parametrize("value", ["three", 3.5, None, [3], {"n": 3}, True], ids=repr)
async def test_an_answer_that_does_not_fit(perdure_app, value):
    app = perdure_app
    run = await app.start(asks(), id="x")
    question = await app.next_ask()
    async with changes_nothing(app):
        with pytest.raises(InvalidAnswer) as caught:
            await app.answer(question.id, value)
        clear(caught.value, "PRD-203", "'How many?'", "run x", "integer")
    assert [each.id for each in (await app.inbox()).items] == [question.id]
    await app.answer(question.id, 3)
    assert await run.result() == 3


async def test_x01_an_answer_to_an_unknown_ask_lists_the_open_ones(perdure_app):
    app = perdure_app
    await app.start(asks(), id="x")
    question = await app.next_ask()
    async with changes_nothing(app):
        for verb in (app.answer, app.resolve, app.reject, app.decline):
            arguments = (1,) if verb in (app.answer, app.resolve) else ("no",)
            with pytest.raises(UnknownWait) as caught:
                await verb("ask-unknown", *arguments)
            clear(caught.value, "PRD-202", "'ask-unknown'", question.id)


async def test_an_answer_to_an_ask_that_is_closed(perdure_app):
    app = perdure_app
    run = await app.start(asks(), id="x")
    question = await app.next_ask()
    await app.answer(question.id, 1, by="ann")
    assert await run.result() == 1
    async with changes_nothing(app):
        for verb, argument in ((app.answer, 2), (app.answer, 1), (app.decline, "no"), (app.reject, "no")):
            with pytest.raises(AlreadyResolved) as caught:
                await verb(question.id, argument)
            clear(caught.value, "PRD-201", question.id, "answered", "run x", "ann")
    assert await run.result() == 1


async def test_an_answer_after_the_deadline_or_the_cancellation(perdure_app):
    app = perdure_app

    @workflow
    async def limited() -> str:
        return await ask("Name?", schema=str, timeout="1h", default="nobody")

    run = await app.start(limited(), id="x")
    late = await app.next_ask()
    await app.advance("1h")
    cancelled = await app.start(asks(), id="y")
    gone = await app.next_ask()
    await cancelled.cancel()
    await app.settle()
    async with changes_nothing(app):
        for question, value in ((late, "ann"), (gone, 3)):
            with pytest.raises(AlreadyResolved) as caught:
                await app.answer(question.id, value)
            clear(caught.value, "PRD-201", question.id, f"run {question.run}")
    assert await run.result() == "nobody"


async def test_a_rejection_with_an_error_of_any_kind_reaches_the_code(perdure_app):
    app = perdure_app

    class Custom(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)
            self.handle = Opaque()

    @workflow
    async def promised() -> str:
        try:
            return await promise("p", schema=str)
        except Exception as error:
            return f"{type(error).__name__} {error}"

    run = await app.start(promised())
    await app.settle()
    (opened,) = await app.gate.read(lambda: app.gate.store.promises())
    await app.reject(opened.id, Custom(1, 2))
    assert await run.result() == "StepError [PRD-502] Custom: (1, 2)"  # a class that nobody can import is told by its name


# ── code ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_body_that_blocks_its_thread_is_reported_with_its_run_and_place(caplog):
    """The loop cannot stop it; the watchdog says who it is. What waits is not lost."""
    reported = threading.Event()

    class Noticing(logging.Handler):
        def emit(self, record):
            reported.set()

    @workflow
    async def blocks() -> bool:
        return reported.wait(30)

    handler = Noticing()
    logging.getLogger("perdure.watchdog").addHandler(handler)
    try:
        async with App("sqlite:///:memory:") as app:
            run, other = await asyncio.gather(app.start(blocks(), id="x"), app.start(echo(1)))
            assert await run.result() is True
            assert await other.result() == 1
    finally:
        logging.getLogger("perdure.watchdog").removeHandler(handler)
    (record,) = [record for record in caplog.records if record.name == "perdure.watchdog"]
    text = record.getMessage()
    assert f"run x (workflow {blocks.name})" in text
    assert "reported.wait(30)" in text


@pytest.mark.parametrize(
    "verb", ["ask", "promise", "receive", "now", "rng", "uuid4", "publish", "current_run", "send", "start"]
)
@pytest.mark.parametrize("place", ["outside", "step"])
async def test_a_run_verb_where_it_means_nothing_teaches(perdure_app, verb, place):
    app = perdure_app
    arguments = {
        "ask": ("Q?",),
        "promise": ("p",),
        "receive": ("go",),
        "publish": ("k", 1),
        "send": ("x", "go"),
        "start": (None,),
    }

    async def use():
        result = getattr(perdure, verb)(*arguments.get(verb, ()))
        return await result if hasattr(result, "__await__") else result

    @step
    async def uses() -> str:
        try:
            await use()
        except perdure.WrongContext as error:
            return str(error)
        return "allowed"

    @workflow
    async def calls() -> str:
        return await uses()

    if place == "step":
        run = await app.start(calls(), id="x")
        said = await run.result()
        if verb == "publish":  # a step may show how far it is
            assert said == "allowed"
            return
        assert "run x" in said
        assert "inside a step" in said
    else:
        async with changes_nothing(app):
            with pytest.raises(perdure.WrongContext) as caught:
                await use()
        said = str(caught.value)
        clear(caught.value, "PRD-701", f"{verb}()", "outside of a run")
    assert said.startswith("[PRD-701]")


async def test_a_bad_step_hurts_only_its_run(perdure_app):
    """One of many runs at once meets a value that cannot be stored: the others are written."""

    @step
    async def returns(n: int):
        return Opaque() if n == 5 else n

    @workflow
    async def calls(n: int):
        return await returns(n)

    runs = [await perdure_app.start(calls(n), id=str(n)) for n in range(10)]
    results = await asyncio.gather(*(run.result() for run in runs), return_exceptions=True)
    assert [n for n, result in enumerate(results) if isinstance(result, RunFailed)] == [5]
    assert [result for n, result in enumerate(results) if n != 5] == [n for n in range(10) if n != 5]
    assert await has(runs[5], "step")
