"""When writing fails: before it took effect, after it did, for one run of many, for a while. Neither lost nor written twice."""

import asyncio
import logging

import apsw
import pytest

from perdure import ask, current_step, step, workflow
from perdure.core.errors import StoreError
from perdure.stores.base import Advance, Start

from .several import rest, sharing
from .tools import FaultyStore, blocked, kinds, until


async def finish(app, awaitable):
    """Wait for something while time passes: a batch that failed is tried again after a pause."""
    task = asyncio.ensure_future(awaitable)
    while not task.done():
        await rest(app, 5)
        app.clock.jump()
    return task.result()


def records(change, kind="step"):
    """Whether a change records an entry of this kind."""
    return isinstance(change, Advance) and any(entry.kind == kind for entry in change.entries)


class Breaking:
    """Breaks the COMMIT of one batch of a store: the answer is lost, and the connection is gone for some looks after it."""

    def __init__(self, app, which, *, happened, looks):
        self.commits = 0
        self.broken = False
        connection = app._kept._store._opened.writer
        do, row = connection.do, connection.row
        left = [0]

        def breaking(query):
            if query == "begin" and left[0]:
                left[0] -= 1
                raise apsw.IOError("still gone")
            if query == "commit":
                self.commits += 1
                if self.commits == which:
                    self.broken = True
                    left[0] = looks
                    do("commit" if happened else "rollback")
                    raise apsw.IOError("the answer was lost")
            do(query)

        def looking(query, bindings=()):
            if query == "worker_batch" and left[0]:
                left[0] -= 1
                raise apsw.IOError("still gone")
            return row(query, bindings)

        connection.do, connection.row = breaking, looking


@pytest.mark.parametrize("failures", [1, 5])
async def test_p06_a_result_that_cannot_be_recorded_is_written_again_and_not_computed_again(perdure_app, caplog, failures):
    app, seen = perdure_app, []
    left = FaultyStore.between(app).fail(failures, records)

    @step
    async def paid() -> str:
        seen.append((current_step().attempt, current_step().idempotency_key))
        return "receipt"

    @workflow
    async def buys() -> str:
        return await paid()

    run = await app.start(buys())
    assert await finish(app, run.result()) == "receipt"
    assert left == [0]
    assert [attempt for attempt, _ in seen] == [1]
    assert await kinds(run) == ["started", "step"]
    warnings = [record for record in caplog.records if "could not be written, trying again" in record.getMessage()]
    assert len(warnings) == failures
    assert all("the connection was reset" in record.getMessage() for record in warnings)


async def test_p06_if_the_process_dies_too_the_body_runs_again_under_its_key(perdure_app):
    app, seen = perdure_app, []
    faulty = FaultyStore.between(app)
    faulty.fail(1_000_000, records)

    @step
    async def paid() -> str:
        seen.append((current_step().attempt, current_step().idempotency_key))
        return "receipt"

    @workflow
    async def buys() -> str:
        return await paid()

    run = await app.start(buys())
    await until(lambda: seen)
    await rest(app)
    assert await kinds(run) == ["started"]
    faulty.on_commit = None
    await app.crash()
    assert await app.handle(run.id).result() == "receipt"
    assert [attempt for attempt, _ in seen] == [1, 2]
    assert len({key for _, key in seen}) == 1


async def test_a_pause_grows_and_other_work_waits_with_it(perdure_app):
    """Back-pressure: what is pending gathers into the next batch instead of hammering a store that is away."""
    app = perdure_app
    faulty = FaultyStore.between(app)
    bodies = []

    @step
    async def work(number: int) -> int:
        bodies.append(number)
        return number

    @workflow
    async def one(number: int) -> int:
        return await work(number)

    first = await app.start(one(0))
    faulty.fail(6, records)
    start = app.clock.now()
    assert await finish(app, first.result()) == 0
    waited = app.clock.now() - start
    assert 50_000 + 100_000 + 200_000 + 400_000 + 800_000 + 1_600_000 <= waited <= 3_200_000
    assert bodies == [0]


@pytest.mark.parametrize("error", [RuntimeError("a fault"), MemoryError(), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
async def test_p50_an_error_in_the_writer_is_told_and_ends_nothing(perdure_app, error):
    """Whoever can be told is told; a run's own change is written later."""
    app, wanted, bodies = perdure_app, [lambda change: isinstance(change, Start)], []
    faulty = FaultyStore.between(app)

    def commit(batch, write):
        if wanted and any(wanted[0](change) for change in batch.changes):
            wanted.pop(0)
            raise error
        return write(batch)

    faulty.on_commit = commit

    @step
    async def once() -> int:
        bodies.append(1)
        return 1

    @workflow
    async def one() -> int:
        return await once()

    with pytest.raises(StoreError, match=type(error).__name__):
        await app.start(one(), id="one")
    assert (await app.runs()).items == []
    wanted.append(records)
    run = await finish(app, app.start(one(), id="one"))
    assert await finish(app, run.result()) == 1
    assert not wanted
    assert bodies == [1]


async def test_a_claim_that_cannot_be_written_is_made_again_by_itself(perdure_app):
    """No hint will come for a run that is due already."""
    app = perdure_app

    @workflow
    async def one() -> int:
        return 1

    app.worker._claiming = True  # the start comes alone
    run = await app.start(one())
    left = FaultyStore.between(app).fail(3)
    app.worker._claiming = False
    app.worker.take()
    await rest(app)
    assert left == [2]
    assert await finish(app, run.result()) == 1


@pytest.mark.parametrize("looks", [0, 1, 3], ids=["seen at once", "seen later", "seen much later"])
@pytest.mark.parametrize("happened", [True, False], ids=["happened", "did not happen"])
async def test_s16_whichever_commits_answer_is_lost_nothing_is_lost_or_doubled(make_app, tmp_path, caplog, happened, looks):
    """The same small run again and again, each time with another of its commits broken, until all have been."""
    caplog.set_level(logging.INFO, "perdure.ask")
    bodies, told = [], []

    @step
    async def work(number: int) -> int:
        bodies.append(number)
        return number

    @workflow
    async def child() -> int:
        return await work(2)

    @workflow
    async def flow() -> list:
        first = await work(1)
        question = ask("Which?", schema=int)
        return [first, await child(), await question, await work(3)]

    async def once(which):
        bodies.clear()
        caplog.clear()
        async with make_app(f"sqlite:///{tmp_path}/{which}.db", residency="1h") as app:
            breaking = Breaking(app, which, happened=happened, looks=looks)
            for _ in range(2):  # who is told that it was not written asks again, under the same id
                try:
                    run = await finish(app, app.start(flow(), id="flow"))
                    break
                except StoreError as error:
                    told.append(error)
            await finish(app, until(lambda: kinds_has(run, "opened")))
            [question] = (await app.inbox()).items
            for _ in range(2):
                try:
                    await finish(app, app.answer(question.id, 7))
                    break
                except StoreError as error:
                    told.append(error)
            assert await finish(app, run.result()) == [1, 2, 7, 3]
            assert sorted(bodies) == [1, 2, 3]
            rows = (await app.runs()).items
            assert sorted(row.status for row in rows) == ["succeeded", "succeeded"]
            journal = await kinds(run)
            assert sorted(journal) == sorted(["started", "step", "opened", "child", "child_ended", "resolved", "step"])
            asked = [record for record in caplog.records if record.getMessage().endswith("asks: Which?")]
            assert len(asked) == 1, "neither unsaid nor said twice"
            assert await app.gate.read(app.gate.store.check) == []
            return breaking.broken

    which = 1
    while await once(which):
        which += 1
    assert which > 6, "so many commits there were to break"
    if happened or looks:
        assert not told, "what was written, or may have been, is settled before anybody is told"
    else:
        assert len(told) == 2, "the start and the answer can be told; all else is written again"


async def kinds_has(run, kind):
    return kind in await kinds(run)


async def test_s16_a_fence_settles_what_was_in_doubt(make_app, tmp_path):
    """The commit happened, nobody knows, and the worker is fenced before anybody can look."""

    @workflow
    async def one() -> int:
        return 1

    async with sharing(make_app, tmp_path) as (a, b):
        Breaking(a, 1, happened=True, looks=3)
        starting = asyncio.ensure_future(a.start(one(), id="one"))
        await rest(a)
        assert not starting.done()
        number = a.worker.number
        a.clock.advance_to(a.clock.now() + 20_000_000)
        b._process.beat()
        await rest(b)
        run = await finish(a, starting)
        assert await finish(b, b.handle("one").result()) == 1
        await finish(a, until(lambda: a.worker.number != number))
        assert await finish(a, run.result()) == 1
        assert len((await a.runs()).items) == 1


async def test_s17_one_of_64_can_never_be_written(perdure_app, caplog):
    app, bodies, gate = perdure_app, [], asyncio.Event()

    @step
    async def work(number: int) -> int:
        bodies.append(number)
        await gate.wait()
        return number

    @workflow
    async def one(number: int) -> int:
        return await work(number)

    runs = [await app.start(one(number), id=f"run {number}") for number in range(64)]
    await until(lambda: len(bodies) == 64)
    guilty = (await runs[20].info()).number
    faulty = FaultyStore.between(app)
    sizes = []

    def commit(batch, write):
        changes = [change for change in batch.changes if not (records(change) and change.run == guilty)]
        if len(changes) == len(batch.changes):
            return write(batch)
        sizes.append(len(batch.changes))
        place = next(i for i, change in enumerate(batch.changes) if change not in changes)
        batch.changes = changes
        outcomes = write(batch)
        return [*outcomes[:place], StoreError("the value is cursed"), *outcomes[place:]]

    faulty.on_commit = commit
    gate.set()
    assert [await run.result() for run in runs if run.id != "run 20"] == [n for n in range(64) if n != 20]
    found = await blocked(runs[20], "PRD-601")
    assert "the value is cursed" in found.reason
    assert sizes[0] >= 64, "they were one batch"
    assert len(bodies) == 64, "no body again for a failed write"
    [said] = [record for record in caplog.records if "is blocked" in record.getMessage()]
    assert (said.levelno, said.perdure_run) == (logging.ERROR, "run 20")


async def test_a_batch_that_waits_to_be_tried_again_waits_for_time_only(perdure_app):
    """So a test app moves its clock to that time by itself when a result is waited for."""
    left = FaultyStore.between(perdure_app).fail(3, records)

    @step
    async def one() -> int:
        return 1

    @workflow
    async def waits() -> int:
        return await one()

    assert await perdure_app.run(waits()) == 1
    assert left == [0]
