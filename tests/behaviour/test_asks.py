"""Asks and promises: open until somebody outside gives them their outcome, by id, once, whatever crashes meanwhile."""

import asyncio
import enum
import json
import random
from dataclasses import dataclass
from typing import Literal

import pydantic
import pytest

from perdure import (
    AlreadyResolved,
    InvalidAnswer,
    UnknownWait,
    ask,
    step,
    workflow,
)
from perdure.core.payload import pack
from perdure.stores.base import Advance, Answer, Batch
from perdure.stores.rows import WorkerRow

from .tools import FaultyStore, kinds, store_state


async def test_an_ask_is_in_the_inbox_until_it_is_answered(perdure_app):
    app = perdure_app

    @workflow
    async def publishes() -> str:
        question = ask("Publish 3 findings?", to="anna", timeout="7d", default=False)
        assert not question.done
        assert question.answered_by is None
        return f"{await question} {question.done} {question.answered_by} {await question}"

    run = await app.start(publishes())
    shown = await app.next_ask()
    assert (shown.question, shown.to, shown.state, shown.run) == ("Publish 3 findings?", "anna", "open", run.id)
    assert shown.schema == {"type": "boolean"}
    assert (shown.deadline - shown.opened_at).days == 7
    assert [each.id for each in (await app.inbox(to="anna")).items] == [shown.id]
    assert (await app.inbox(to="bob")).items == []
    await app.answer(shown.id, True, by="anna")
    assert (await app.inbox()).items == []
    assert await run.result() == "True True anna True"
    assert await kinds(run) == ["started", "opened", "resolved"]


class Verdict(enum.Enum):
    YES = "yes"
    NO = "no"


@dataclass
class Review:
    stars: int
    remark: str = ""


class Form(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=18)


@pytest.mark.parametrize(
    ("schema", "wrong", "answer", "value"),
    [
        (bool, "yes", True, True),
        (int, 1.5, 3, 3),
        (str, 3, "free text", "free text"),
        (str | None, 3, None, None),
        (Literal["a", "b"], "c", "b", "b"),
        (Verdict, "maybe", "yes", Verdict.YES),
        (list[int], ["x"], [1, 2], [1, 2]),
        (Review, {"remark": "no stars"}, {"stars": 4}, Review(4)),
        (Form, {"name": "Ann", "age": 17}, {"name": "Ann", "age": 18}, Form(name="Ann", age=18)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_the_schema_says_what_an_answer_may_be_and_what_it_becomes(perdure_app, schema, wrong, answer, value):
    app, seen = perdure_app, []

    @workflow(name="asks.typed")
    async def typed() -> None:
        answer = await ask("What?", schema=schema)
        seen.append(answer)

    run = await app.start(typed())
    await app.settle()
    (shown,) = (await app.inbox()).items
    before = await store_state(app)
    with pytest.raises(InvalidAnswer) as refused:
        await app.answer(shown.id, wrong)
    assert refused.value.code == "PRD-203"
    assert await store_state(app) == before
    await app.answer(shown.id, answer)
    await run.result()
    assert seen[-1] == value
    assert type(seen[-1]) is type(value)


class Even(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def even(cls, n):
        if n % 2:
            raise ValueError("must be even")
        return n


async def test_an_answer_that_only_the_type_itself_can_refuse_is_sent_back(perdure_app):
    """A JSON Schema cannot say everything. The owner, who knows the type, opens the ask again, with the problem shown."""
    app = perdure_app

    @workflow
    async def asks() -> int:
        return (await ask("An even number?", schema=Even)).n

    run = await app.start(asks())
    await app.settle()
    (shown,) = (await app.inbox()).items
    await app.answer(shown.id, {"n": 3})
    await app.settle()
    (again,) = (await app.inbox()).items
    assert again.id == shown.id
    assert "must be even" in again.problem
    assert await kinds(run) == ["started", "opened"]
    await app.answer(shown.id, {"n": 4})
    assert await run.result() == 4


async def test_an_answer_that_is_sent_back_after_its_deadline_leaves_the_time_out(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/r.db"

    @workflow(name="asks.even")
    async def asks() -> int:
        return (await ask("An even number?", schema=Even, timeout="1h", default=Even(n=0))).n

    async with make_app(url) as app:
        await app.start(asks(), id="r")
        await app.settle()
        shown, clock = (await app.inbox()).items[0], app.clock
    async with make_app(url, clock=clock, worker=False) as client:
        await client.answer(shown.id, {"n": 3})
        clock.advance_to(clock.now() + 7_200_000_000)
    async with make_app(url, clock=clock) as app:
        run = app.handle("r")
        assert await run.result() == 0
        assert [each.name for each in await run.history() if each.kind == "resolved"] == ["expired"]


async def test_a_declined_ask_raises_with_the_reason(perdure_app):
    app = perdure_app

    @workflow
    async def asks() -> str:
        question = ask("Delete everything?")
        try:
            await question
        except PermissionError as error:
            return f"{error} ({question.answered_by})"
        return "deleted"

    run = await app.start(asks())
    await app.decline((await app.next_ask()).id, "certainly not", by="anna")
    assert await run.result() == "certainly not (anna)"
    run = await app.start(asks())
    await app.decline((await app.next_ask()).id)
    assert await run.result() == "the question was declined (None)"


async def test_a_time_out_is_a_recorded_outcome(perdure_app):
    app = perdure_app

    @workflow
    async def asks() -> list[str]:
        with_default = ask("a?", schema=str, timeout="1h", default="assumed")
        without = ask("b?", schema=str, timeout="1h")
        seen = [f"{await with_default} by {with_default.answered_by}"]
        try:
            await without
        except TimeoutError as error:
            seen.append(str(error))
        return seen

    run = await app.start(asks())
    await app.settle()
    first, second = (await app.inbox()).items
    await app.advance("59m")
    assert len((await app.inbox()).items) == 2
    await app.crash()
    run = app.handle(run.id)
    assert await run.result() == ["assumed by default", "nobody answered 'b?' in time"]
    assert [each.name for each in await run.history() if each.kind == "resolved"] == ["expired", "expired"]
    for late in (first, second):
        with pytest.raises(AlreadyResolved) as told:
            await app.answer(late.id, "late")
        assert told.value.code == "PRD-201"


async def test_s13_an_answer_before_the_deadline_wins_though_the_worker_comes_after_it(make_app, tmp_path):
    """The run starts two hours after it was queued, and its 60 s count from its start."""
    url = f"sqlite:///{tmp_path}/r.db"

    @workflow(name="asks.for_a_minute")
    async def asks() -> str:
        question = ask("q?", schema=str, timeout="60s", default="nobody")
        return f"{await question} by {question.answered_by}"

    async with make_app(url, worker=False) as client:
        clock = client.clock
        for id in ("answered", "late"):
            await client.start(asks(), id=id)
        clock.advance_to(clock.now() + 7_200_000_000)
    async with make_app(url, clock=clock) as app:
        await app.settle()
        waits = {each.run: each for each in (await app.inbox()).items}
        assert all((each.deadline - each.opened_at).seconds == 60 for each in waits.values())
    async with make_app(url, clock=clock, worker=False) as client:
        clock.advance_to(clock.now() + 59_999_999)
        await client.answer(waits["answered"].id, "ann", by="ann")
        clock.advance_to(clock.now() + 1)
        with pytest.raises(AlreadyResolved, match="deadline"):
            await client.answer(waits["late"].id, "ann", by="ann")
        clock.advance_to(clock.now() + 3_600_000_000)
    async with make_app(url, clock=clock) as app:
        assert await app.handle("answered").result() == "ann by ann"
        assert await app.handle("late").result() == "nobody by default"


async def test_an_answer_that_commits_just_before_the_time_out_does_is_the_outcome(perdure_app):
    """The owner has composed the time-out already; its transaction finds the answer of another process."""
    app, answered = perdure_app, []

    @workflow
    async def asks() -> list[str]:
        questions = [ask("q?", schema=str, timeout="60s", default="nobody") for _ in range(2)]
        return [f"{await each} by {each.answered_by}" for each in questions]

    faulty = FaultyStore.between(app)
    stranger = faulty.enter(WorkerRow(number=0, role="client", lease_until=1 << 60))

    def commit(batch, write):
        if not answered and any(isinstance(change, Advance) and change.expired for change in batch.changes):
            answered.append(shown.id)
            value = pack(b'"somebody"', cap=100, where="")[0]
            change = Answer(id=shown.id, state="answered", value=value, failed=False, by="ann", at=batch.at - 1)
            told = faulty.inner.commit(Batch(worker=stranger, number=1, lease_until=1 << 60, at=batch.at, changes=[change]))
            assert told == [None]
        return write(batch)

    faulty.on_commit = commit
    run = await app.start(asks())
    await app.settle()
    _, shown = (await app.inbox()).items
    assert await run.result() == ["nobody by default", "somebody by ann"]
    assert answered == [shown.id]
    assert sorted(each.name for each in await run.history() if each.kind == "resolved") == ["answered", "expired"]


async def test_two_answers_at_once_are_one(perdure_app):
    app = perdure_app

    @workflow
    async def asks() -> str:
        question = ask("q?", schema=str)
        return f"{await question} {question.answered_by}"

    run = await app.start(asks())
    id = (await app.next_ask()).id
    told = await asyncio.gather(
        app.answer(id, "yes", by="a"), app.answer(id, "no", by="b"), app.decline(id, by="c"), return_exceptions=True
    )
    assert [type(each).__name__ for each in told] == ["NoneType", "AlreadyResolved", "AlreadyResolved"]
    assert await run.result() == "yes a"
    before = await store_state(app)
    for verb, value in ((app.answer, "no"), (app.answer, 5), (app.decline, "no"), (app.reject, "no")):
        with pytest.raises(AlreadyResolved, match="was answered by a"):
            await verb(id, value)
    assert await store_state(app) == before


async def test_x01_an_unknown_wait_lists_those_that_are_open(perdure_app):
    app = perdure_app

    @workflow
    async def asks() -> str:
        return await ask("q?", schema=str)

    with pytest.raises(UnknownWait, match="nothing is open"):
        await app.answer("ask-nothing", 1)
    run = await app.start(asks())
    shown = await app.next_ask()
    before = await store_state(app)
    for verb in (app.answer, app.decline, app.resolve, app.reject):
        with pytest.raises(UnknownWait) as unknown:
            await verb("ask-nothing", "x")
        assert unknown.value.code == "PRD-202"
        assert shown.id in unknown.value.hint
    assert await store_state(app) == before
    await app.answer(shown.id, "fine")
    assert await run.result() == "fine"


# ── which answer goes where ──────────────────────────────────────────────────────────────────────────────────────────


async def test_p09_answers_go_by_id_whatever_finishes_first(perdure_app):
    """Two tools in parallel ask the same words; 100 runs, each in its own order, half of them over a crash."""
    app, dice = perdure_app, random.Random(9)

    @step
    async def prepare(name: str) -> str:
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        return name

    @workflow
    async def two_tools() -> dict[str, str]:
        async def tool(name: str) -> str:
            await prepare(name)
            return await ask("May I?", schema=str, to=name)

        a, b = await asyncio.gather(tool("a"), tool("b"))
        return {"a": a, "b": b}

    for _ in range(5):
        runs = [await app.start(two_tools()) for _ in range(20)]
        await app.settle()
        waiting = (await app.inbox()).items
        assert len({each.id for each in waiting}) == 40
        dice.shuffle(waiting)
        for count, each in enumerate(waiting):
            await app.answer(each.id, f"{each.to} of {each.run}")
            if count == 20:
                await app.crash()
        for run in runs:
            assert await app.handle(run.id).result() == {"a": f"a of {run.id}", "b": f"b of {run.id}"}


async def test_p10_asking_cannot_be_swallowed(perdure_app):
    app, model_calls, went_wrong = perdure_app, [], []

    @step
    async def model(text: str) -> str:
        model_calls.append(text)
        return f"reply to {text}"

    async def ask_human(question: str) -> str:
        try:
            return await ask(question, schema=str)
        except Exception as error:
            went_wrong.append(error)
            return "apology"

    async def retried(question: str) -> str:
        for _ in range(3):
            try:
                return await ask_human(question)
            except Exception as error:
                went_wrong.append(error)
        raise RuntimeError("gave up")

    async def error_to_text(question: str) -> str:
        try:
            return await retried(question)
        except Exception as error:
            went_wrong.append(error)
            return f"error: {error}"

    @workflow
    async def agent() -> list[str]:
        first = await error_to_text("first?")
        said = await model(first)
        return [said, await error_to_text("second?")]

    run = await app.start(agent())
    for expected, answer in (("first?", "blue"), ("second?", "red")):
        await app.settle()
        await app.crash()
        await app.settle()
        (shown,) = (await app.inbox()).items
        assert shown.question == expected
        await app.answer(shown.id, answer)
    assert await app.handle(run.id).result() == ["reply to blue", "red"]
    assert model_calls == ["blue"]
    assert went_wrong == []


async def test_p37_nested_tools_of_equal_names_are_told_apart_in_a_new_process(make_app, tmp_path):
    url, called = f"sqlite:///{tmp_path}/r.db", []

    @step(name="p37.tool")
    async def tool(level: int, answer: str) -> str:
        called.append((level, answer))
        return f"{level}:{answer}"

    @workflow(name="p37.agent")
    async def agent(level: int, mark: str) -> list[str]:
        async def delete(mark: str) -> str:
            return await tool(level, await ask("delete?", schema=str, to=mark))

        # Two tools of one display name at each level, the next level beside them.
        mine = [asyncio.create_task(delete(f"{mark}{n}"), name="delete") for n in range(2)]
        below = await agent(level + 1, f"{mark}.") if level < 2 else []
        return [*await asyncio.gather(*mine), *below]

    async with make_app(url) as app:
        await app.start(agent(0, "x"), id="root")
        await app.settle()
        dump = json.dumps([(each.id, each.to) for each in (await app.inbox()).items])
        clock = app.clock
    waits = json.loads(dump)
    assert sorted(to for _, to in waits) == ["x..0", "x..1", "x.0", "x.1", "x0", "x1"]
    async with make_app(url, clock=clock) as app:
        for id, to in reversed(waits):
            await app.answer(id, f"ok {to}")
        result = await app.handle("root").result()
    assert result == ["0:ok x0", "0:ok x1", "1:ok x.0", "1:ok x.1", "2:ok x..0", "2:ok x..1"]
    assert len(called) == len(set(called)) == 6
