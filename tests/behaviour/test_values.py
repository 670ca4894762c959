"""Values inside runs: the same round trip live and replayed, refused in time, never retried, never silently another value."""

import asyncio
import contextlib
import dataclasses
import enum
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import apsw
import pytest

from perdure import NotStorable, Retry, RunFailed, StepError, step, workflow
from perdure.core.errors import PayloadTooLarge

from .tools import blocked, kinds


class Kind(enum.Enum):
    NEWS = "news"


@dataclasses.dataclass
class Hit:
    title: str
    when: date
    score: Decimal = Decimal(1)
    kind: Kind = Kind.NEWS
    tags: tuple[str, ...] = ()
    parts: set[int] = dataclasses.field(default_factory=set)
    seen: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Special(Hit):
    more: str = "?"


@dataclasses.dataclass
class Cat:
    name: str


@dataclasses.dataclass
class Dog:
    name: str


async def test_the_live_value_made_the_same_round_trip_as_the_stored_one(perdure_app):
    """P12 too: a field with `init=False` keeps its value, and nothing becomes None."""
    app, live, replayed, made = perdure_app, [], [], []

    @step
    async def search() -> dict[int, list[Hit]]:
        hit = Hit("llamas", date(2026, 1, 31), Decimal("0.10"), tags=("a", "b"), parts={3, 1})
        hit.seen = 7
        made.append(hit)
        return {2026: [hit, hit]}

    @step
    async def facts() -> tuple[datetime, UUID, bytes, float]:
        return datetime(2026, 1, 31, 12, tzinfo=UTC), UUID(int=5), b"\x00\xff", 3

    @workflow
    async def flow() -> None:
        (live if not live else replayed).append(await search())
        (live if len(live) == 1 else replayed).append(await facts())
        await asyncio.sleep(60)

    run = await app.start(flow())
    await app.settle()
    await app.crash()
    await app.handle(run.id).result()
    assert live[0] == replayed[-2] == {2026: [made[0], made[0]]}
    assert live[1] == replayed[-1]
    assert [type(each) for each in live[1]] == [type(each) for each in replayed[-1]]
    first, second = live[0][2026]
    assert first is not made[0]
    assert first is not second
    assert type(first.tags) is tuple
    assert type(first.score) is Decimal
    assert first.seen == replayed[-2][2026][0].seen == 7


async def test_what_happens_to_a_returned_object_later_is_not_seen(perdure_app):
    kept = []

    @step
    async def items() -> list[int]:
        kept.append([1, 2])
        return kept[-1]

    @workflow
    async def flow() -> list[int]:
        mine = await items()
        kept[-1].append(99)
        mine.append(3)
        return mine

    assert await perdure_app.run(flow()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "result is nan"),
        ({"score": float("inf")}, "result.score is inf"),
        ((1, 2), "result is a tuple"),
        ({"pairs": [[1], (1, 2)]}, "result.pairs[1] is a tuple"),
        ({"hits": {1: "a"}}, "result.hits has an int (1) as a key"),
        (Cat("Tom"), "result is a"),
        ({1, 2}, "result is a set"),
        (object(), "result is a"),
        ("\ud800", "half a character"),
    ],
    ids=["nan", "infinity", "tuple", "inner tuple", "integer key", "dataclass", "set", "object", "surrogate"],
)
async def test_s29_unannotated_values_that_would_change_are_refused_live_and_never_retried(perdure_app, value, path):
    app, bodies = perdure_app, []

    @step(retry=Retry(attempts=5, initial=0, on=Exception))
    async def measure():
        bodies.append(1)
        return value

    @workflow
    async def flow() -> list[str]:
        try:
            await measure()
        except NotStorable as error:
            await asyncio.sleep(60)
            return [error.code, error.message, error.run, error.step.rsplit(".", 1)[-1]]
        return ["stored"]

    run = await app.start(flow(), id="measured")
    await app.settle()
    await app.crash()
    code, message, *place = await app.handle(run.id).result()
    assert code == "PRD-301"
    assert "measure" in message
    assert path in message
    assert place == ["measured", "measure#0"]
    assert bodies == [1]
    assert await kinds(app.handle(run.id)) == ["started", "step", "timer"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(float, float("nan")), (Hit, Special("x", date(2026, 1, 1))), (int, True), (list[Cat], [Dog("Rex")]), (Cat, None)],
    ids=["nan", "subclass with more fields", "bool for int", "another class", "nothing"],
)
async def test_p70_what_the_annotation_does_not_allow_is_refused_when_it_is_saved(perdure_app, annotation, value):
    app, bodies = perdure_app, []

    async def fetch():
        bodies.append(1)
        return value

    fetch.__annotations__["return"] = annotation
    fetch = step(retry=5)(fetch)

    @workflow
    async def flow() -> None:
        await fetch()

    run = await app.start(flow())
    with pytest.raises(RunFailed) as caught:
        await run.result()
    assert isinstance(caught.value.__cause__, NotStorable)
    assert "fetch" in caught.value.__cause__.message
    assert bodies == [1]


async def test_a_workflow_s_result_is_refused_in_the_same_manner(perdure_app):
    bodies = []

    @workflow
    async def flow():
        bodies.append(1)
        return {"pairs": (1, 2)}

    with pytest.raises(RunFailed) as caught:
        await perdure_app.run(flow())
    assert isinstance(caught.value.__cause__, NotStorable)
    assert "result.pairs" in caught.value.__cause__.message
    assert bodies == [1]


async def test_a_model_without_an_annotation_is_refused(perdure_app):
    pydantic = pytest.importorskip("pydantic")

    class Report(pydantic.BaseModel):
        title: str

    @step
    async def bare():
        return Report(title="x")

    @step
    async def annotated() -> Report:
        return Report(title="x")

    @workflow
    async def flow() -> str:
        report = await annotated()
        assert type(report) is Report
        try:
            await bare()
        except NotStorable as error:
            return str(error)
        return "stored"

    text = await perdure_app.run(flow())
    assert "Report" in text
    assert "add a return annotation" in text


async def test_unions_of_classes_come_back_as_the_class_that_was_stored(perdure_app):
    app, seen = perdure_app, []

    @step
    async def adopt(kind: str) -> Cat | Dog | None:
        return {"cat": Cat("Tom"), "dog": Dog("Tom")}.get(kind)

    @workflow
    async def flow() -> None:
        seen.append([await adopt("cat"), await adopt("dog"), await adopt("none")])
        await asyncio.sleep(60)

    run = await app.start(flow())
    await app.settle()
    await app.crash()
    await app.handle(run.id).result()
    assert len(seen) > 1
    assert all(each == [Cat("Tom"), Dog("Tom"), None] for each in seen)


async def test_p12_a_value_that_fits_no_more_blocks_its_run_with_run_step_and_type(make_app):
    """Never None: the run waits, its stored bytes untouched, until code is back that can read them."""
    async with make_app(strict=False) as app:

        def deploy(fields, bodies):
            item = dataclasses.make_dataclass("Item", fields)

            @step(name="values.fetch")
            async def fetch() -> item:
                bodies.append(1)
                return item(*range(len(fields)))

            @workflow(name="values.reads")
            async def reads() -> str:
                one = await fetch()
                await asyncio.sleep(60)
                return str(dataclasses.asdict(one))

            return reads

        bodies, others = [], []
        run = await app.start(deploy([("count", int)], bodies)(), id="reader")
        await app.settle()
        stored = [each.value for each in await run.history() if each.kind == "step"]
        deploy([("total", int)], others)
        await app.crash()
        run = app.handle("reader")
        why = await blocked(run, "PRD-303")
        assert "Item" in why.reason
        assert "values.fetch#0" in why.reason
        with pytest.raises(Exception, match="run reader"):
            await run.result()
        assert [each.value for each in await run.history() if each.kind == "step"] == stored == [{"count": 0}]
        deploy([("count", int), ("total", int, 9)], others)
        await run.resume()
        assert await run.result() == "{'count': 0, 'total': 9}"
        assert (bodies, others) == ([1], [])


class Refused(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


async def test_p68_an_exception_takes_the_same_branch_live_and_replayed(perdure_app):
    app, branches = perdure_app, []

    @step
    async def refuses() -> None:
        raise Refused(402, "no money")

    @workflow
    async def flow() -> str:
        try:
            await refuses()
        except Refused as error:
            branches.append((error.code, error.reason, str(error)))
        except Exception as error:
            branches.append(error)
        await asyncio.sleep(60)
        return branches[-1][1]

    run = await app.start(flow())
    await app.settle()
    await app.crash()
    assert await app.handle(run.id).result() == "no money"
    assert len(branches) > 1
    assert set(branches) == {(402, "no money", "402: no money")}


async def test_p68_an_exception_of_a_class_that_cannot_be_found_is_a_step_error_live_too(perdure_app):
    app, seen = perdure_app, []

    @step
    async def fails() -> None:
        class Hidden(Exception):
            pass

        error = Hidden("bang", 7)
        error.where = "kitchen"
        raise error

    @workflow
    async def flow() -> bool:
        try:
            await fails()
        except StepError as error:
            name = error.type_name.rsplit(".", 1)[-1]
            seen.append((name, error.message, error.data["args"], error.data["where"], "in " in error.traceback_text))
        await asyncio.sleep(60)
        return True

    run = await app.start(flow())
    await app.settle()
    await app.crash()
    assert await app.handle(run.id).result() is True
    assert len(seen) > 1
    assert all(each == ("Hidden", "('bang', 7)", ["bang", 7], "kitchen", True) for each in seen)


@pytest.mark.parametrize(
    ("module", "name"), [("os", "system"), ("antigravity", "Boom"), ("builtins", "print"), ("builtins", "object")]
)
async def test_p69_a_stored_name_can_make_nothing_run_or_load(make_app, tmp_path, module, name):
    """The journal is altered in the file: an error's class becomes a function, one of a module that is not loaded, any class."""
    assert "antigravity" not in sys.modules
    path = tmp_path / "tampered.db"
    async with make_app(f"sqlite:///{path}", strict=False) as app:
        seen = []

        @step
        async def fails() -> None:
            raise ValueError("exit 1")

        @workflow
        async def flow() -> bool:
            try:
                await fails()
            except Exception as error:
                seen.append(error)
            await asyncio.sleep(60)
            return True

        run = await app.start(flow())
        await app.settle()
        with contextlib.closing(apsw.Connection(str(path))) as file:
            number, value = file.execute("SELECT max(number), value FROM entries WHERE failed = 1").get
            for was, becomes in ((b"builtins", module), (b"ValueError", name)):
                assert value.count(was) == 1
                value = value.replace(was, becomes.encode())
            file.execute("UPDATE entries SET value = ? WHERE number = ?", (value, number))
        await app.crash()
        assert await app.handle(run.id).result() is True
        assert type(seen[0]) is ValueError
        assert (type(seen[-1]), seen[-1].type_name) == (StepError, f"{module}.{name}")
    assert "antigravity" not in sys.modules


async def test_p56_a_result_over_the_cap_fails_once_and_names_step_and_size(make_app):
    async with make_app(payload_cap=2_000_000) as app:
        bodies = []

        @step(retry=Retry(attempts=5, initial=0, on=Exception))
        async def download() -> str:
            bodies.append(1)
            return "x" * 3_000_000

        @workflow
        async def flow() -> list[str]:
            try:
                await download()
            except PayloadTooLarge as error:
                return [error.code, str(error)]
            return ["stored"]

        code, text = await app.run(flow())
        assert code == "PRD-302"
        assert "download#0" in text
        assert "3,000,002" in text
        assert "2,000,000" in text
        assert bodies == [1]


async def test_p56_a_run_s_result_over_the_cap_fails_the_run_and_names_the_size(make_app):
    async with make_app(payload_cap=1_000) as app:

        @workflow
        async def flow() -> str:
            return "x" * 2_000

        with pytest.raises(RunFailed) as caught:
            await app.run(flow())
        assert isinstance(caught.value.__cause__, PayloadTooLarge)
        assert "2,002" in str(caught.value.__cause__)


async def test_p56_arguments_over_the_cap_are_refused_where_the_run_is_started(make_app):
    async with make_app(payload_cap=1_000) as app:

        @workflow
        async def flow(text: str) -> int:
            return len(text)

        with pytest.raises(PayloadTooLarge):
            await app.start(flow("x" * 2_000), id="big")
        assert not (await app.runs()).items
