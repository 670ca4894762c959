"""What becomes of the runs of a worker that dies, hangs, drains or restarts, with nobody to help."""

import asyncio
import contextlib
import threading

import pytest

from perdure import current_step, receive, step, workflow
from perdure.core.errors import RunEnded
from perdure.runtime.lease import HUNG_LEASES, LeaseKeeper
from perdure.stores.base import Claim, Takeover

from .several import beat, die, leased_out, live, rest, row_of, see, sharing
from .tools import FaultyStore, blocked, kinds, until


async def test_p25_nothing_is_taken_from_who_renews_and_nothing_before_it_is_due(make_app, tmp_path, held, bodies):
    """A step of three leases, a start in three leases, three workers, one of which is restarted."""
    async with sharing(make_app, tmp_path, 3) as (a, b, c):
        long = await a.start(held())
        await until(lambda: bodies.gates, "the long step")
        owner = (await row_of(a, long)).owner
        later = await b.start(held(), delay="30s")
        await b.crash()
        later = b.handle(later.id)
        await live(29, a, b, c)
        assert (await row_of(a, long)).owner == owner
        assert len(bodies.gates) == 1, "neither again nor too early"
        assert await later.status() == "delayed"
        await live(2, a, b, c)
        assert len(bodies.gates) == 2, "one of the three began it"
        row = await row_of(a, later)
        assert row.started_at - row.created_at == 30_000_000
        bodies.release()
        assert [await a.handle(long.id).result(), await a.handle(later.id).result()] == [0, 1]


@pytest.mark.parametrize("proven", [True, False])
async def test_p30_250_runs_go_on_though_the_store_is_away_during_their_recovery(make_app, tmp_path, held, bodies, proven):
    async with sharing(make_app, tmp_path) as (a, b):
        runs = [await a.start(held(), id=f"run {number}") for number in range(250)]
        await until(lambda: len(bodies.gates) == 250, "all bodies")
        die(a)
        faulty = FaultyStore.between(b)
        left = faulty.fail(6, lambda change: isinstance(change, Takeover | Claim))
        bodies.open = True
        if proven:
            a._kept._store._locks.close()
            b._process.look_for_dead()
            await rest(b)
        else:
            a.clock.advance_to(a.clock.now() + 20_000_000)
            await beat(b)
        assert (await b.count()) == {"running": 250}, "not yet"
        await live(60, b)
        assert left == [0]
        assert await b.count() == {"succeeded": 250}
        assert len(bodies.gates) == 500, "each once more"
        assert all([await kinds(b.handle(run.id)) == ["started", "begun", "step"] for run in runs])


async def test_p31_p45_a_draining_worker_claims_nothing_and_hands_back_without_counting(make_app, tmp_path, held, bodies):
    """The new process boots while the old one drains; the old one's time is shorter than its step."""
    async with sharing(make_app, tmp_path) as (a, b):
        die(b)
        run = await a.start(held())
        await until(lambda: bodies.gates, "the body")
        draining = asyncio.ensure_future(a.worker.drain(5_000_000))
        await rest(a)
        second = await a.start(held())
        await b.crash()  # it boots anew
        await see(a, b)
        assert len(bodies.gates) == 2
        assert (await row_of(b, second)).owner == b.worker.number, "only the new one takes what is new"
        assert (await row_of(b, run)).owner == a.worker.number
        await live(5, a, b)
        await draining
        await a.close()
        row = await row_of(b, run)
        assert (row.owner, row.crashes, row.recoveries, row.status) == (0, 0, 1, "queued")
        await see(b)
        assert len(bodies.gates) == 3
        bodies.release()
        assert [await b.handle(run.id).result(), await b.handle(second.id).result()] == [2, 1]
        assert [entry.attempt for entry in await b.handle(run.id).history() if entry.kind == "step"] == [2]


async def test_p45_a_step_that_ends_within_the_drain_is_recorded_and_not_run_again(make_app, tmp_path, held, bodies):
    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(held())
        await until(lambda: bodies.gates, "the body")
        draining = asyncio.ensure_future(a.worker.drain(5_000_000))
        await rest(a)
        bodies.release()
        await draining
        row = await row_of(b, run)
        assert (row.owner, row.crashes, row.status) == (0, 0, "queued")
        assert await kinds(b.handle(run.id)) == ["started", "step"]
        await see(b)
        assert await b.handle(run.id).result() == 0
        assert len(bodies.gates) == 1


async def test_p32_runs_whose_owner_has_no_row_any_more_are_found(make_app, tmp_path, held, bodies):
    """Somebody deletes the row of a worker that died with a run."""
    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(held())
        await until(lambda: bodies.gates, "the body")
        number = a.worker.number
        die(a)
        b._kept._store._opened.writer.script(f"DELETE FROM workers WHERE number = {number}")
        assert (await row_of(b, run)).owner == number
        await beat(b)
        assert (await row_of(b, run)).owner == b.worker.number
        await until(lambda: len(bodies.gates) == 2, "the run to go on")
        await b.crash()
        assert b.worker.number > number, "a number is never given again"
        bodies.release()
        assert await b.handle(run.id).result() == 2


async def test_p33_an_orphan_whose_id_was_given_to_another_run_is_no_obstacle(make_app, tmp_path, held, bodies):
    async with sharing(make_app, tmp_path) as (a, b):
        await a.start(held(), id="same")
        old = await a.handle("same").info()
        await until(lambda: bodies.gates, "the body")
        die(a)
        new = await b.start(held(), id="same", if_exists="replace")
        await until(lambda: len(bodies.gates) == 2, "the new run")
        await leased_out(a, b)
        await beat(b)
        bodies.release()
        assert await new.result() == 1
        [replaced] = [row for row in (await b.runs()).items if row.number == old.number]
        assert replaced.status == "cancelled"
        assert len(bodies.gates) == 2, "the old one does not go on"


async def test_p41_a_run_goes_on_behind_no_later_one(make_app, tmp_path):
    """Killed between two steps, with others started meanwhile: it is claimed first and repeats nothing."""
    done = []

    @step
    async def part(name: str) -> None:
        done.append(name)

    @workflow
    async def parts(name: str) -> None:
        await part(f"{name} 1")
        await receive("go on")
        await part(f"{name} 2")

    async with sharing(make_app, tmp_path) as (a, b):
        die(b)
        run = await a.start(parts("first"))
        await a.settle()
        die(a)
        store = a._kept._store
        await b.crash()
        await b.handle(run.id).send("go on")
        await b.start(parts("second"), send=("go on", None))
        await b.settle()
        assert done == ["first 1", "first 2", "second 1", "second 2"]
        assert store.run(run.id).ended_at


async def test_p44_a_step_that_ends_its_process_is_set_aside_with_a_reason(perdure_app):
    app, begun = perdure_app, []

    @step
    async def deadly() -> None:
        begun.append(current_step().attempt)
        await asyncio.Event().wait()

    @workflow
    async def kills() -> None:
        await deadly()

    run = await app.start(kills())
    for turn in range(3):
        await until(lambda turn=turn: len(begun) == turn + 1, "the step to begin")
        assert (await row_of(app, run)).crashes == turn, "counted when it died, at once durable"
        await app.crash()
        run = app.handle(run.id)
    found = await blocked(run, "PRD-405")
    assert "3 times" in found.reason
    assert begun == [1, 2, 3]
    await app.crash()
    assert await app.handle(run.id).status() == "blocked", "it is not tried again"
    await app.handle(run.id).cancel()
    assert await app.handle(run.id).status() == "cancelled"


async def test_p44_hand_backs_and_progress_do_not_count(perdure_app, bodies):
    app, begun = perdure_app, []

    @step
    async def slow(number: int) -> int:
        begun.append(number)
        return await bodies.enter()

    @workflow
    async def three() -> None:
        for number in range(3):
            await slow(number)

    run = await app.start(three())
    for number in range(3):  # two deaths in each step are one too many only if they add up
        for _ in range(2):
            seen = len(begun)
            await until(lambda seen=seen: len(begun) >= max(seen, 1), "the step to begin")
            await rest(app)
            await app.crash()
            await rest(app)
        bodies.gates[-1].set()
        await rest(app)
    assert await app.handle(run.id).result() is None
    assert {number: begun.count(number) for number in range(3)} == {0: 3, 1: 3, 2: 3}


async def test_p44_a_run_claimed_and_under_way_can_be_cancelled(perdure_app, held, bodies):
    run = await perdure_app.start(held())
    await until(lambda: bodies.gates, "the body")
    await run.cancel()
    bodies.release()
    await perdure_app.settle()
    assert await run.status() == "cancelled"


async def test_s14_one_run_that_kills_its_process_does_not_condemn_those_beside_it(perdure_app):
    app, begun, first = perdure_app, [], True

    @step
    async def work(number: int) -> int:
        begun.append(number)
        if first or number == 50:
            await asyncio.Event().wait()
        return number

    @workflow
    async def one(number: int) -> int:
        return await work(number)

    runs = [await app.start(one(number), id=f"run {number}") for number in range(100)]
    await until(lambda: len(begun) == 100, "all to be under way")
    for turn in range(3):
        await until(lambda turn=turn: begun.count(50) == turn + 1, "the guilty one")
        await rest(app)
        await app.crash()
        first = False
    await app.settle()
    await blocked(app.handle("run 50"), "PRD-405")
    assert await app.count() == {"succeeded": 99, "blocked": 1}
    assert [await app.handle(run.id).result() for run in runs if run.id != "run 50"] == [n for n in range(100) if n != 50]
    assert len(begun) == 3 + 99 * 2, "each of the others was begun again once"


async def test_x13_what_has_ended_is_never_taken_up_again(make_app, tmp_path):
    bodies = []

    @step
    async def once() -> int:
        bodies.append(1)
        return 1

    @workflow
    async def short() -> int:
        return await once()

    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(short())
        assert await run.result() == 1
        ended = await row_of(b, run)
        number = a.worker.number
        die(a)
        b._process.take_over(number, proven=True)
        await rest(b)
        b._process.take_over(number, proven=True)
        await live(30, b)
        with pytest.raises(RunEnded):
            await b.handle(run.id).resume()
        assert await row_of(b, run) == ended
        assert await b.handle(run.id).result() == 1
        assert bodies == [1]


async def test_p46_recovery_is_bounded(make_app, tmp_path, held, bodies):
    async with sharing(make_app, tmp_path, 1) as (app,):
        app._options.residents = 8
        for _ in range(30):
            await app.start(held())
        await rest(app)
        assert len(bodies.gates) == len(app.worker.drivers) == 8
        await app.crash()
        await rest(app)
        assert len(app.worker.drivers) == 8
        assert await app.count() == {"running": 8, "queued": 22}
        bodies.release()
        await app.settle()
        assert await app.count() == {"succeeded": 30}


async def test_p46_waits_hold_no_thread_and_def_steps_have_a_bound(make_app, tmp_path):
    release, most, running = threading.Event(), [0], []

    @step
    def blocking(number: int) -> int:
        running.append(number)
        most[0] = max(most[0], len(running))
        release.wait(20)
        running.remove(number)
        return number

    @workflow
    async def waits() -> str:
        return (await receive("go")).value

    @workflow
    async def blocks(number: int) -> int:
        return await blocking(number)

    async with sharing(make_app, tmp_path, 1, threads=4) as (app,):
        before = threading.active_count()
        waiting = [await app.start(waits()) for _ in range(30)]
        results = [asyncio.ensure_future(run.result()) for run in waiting for _ in range(2)]
        await app.crash()
        await app.settle()
        assert threading.active_count() == before
        runs = [await app.start(blocks(number)) for number in range(12)]
        await until(lambda: len(running) == 4, "the pool to be full")
        assert await app.handle(waiting[0].id).status() == "waiting", "looking on needs no thread of theirs"
        release.set()
        assert [await run.result() for run in runs] == list(range(12))
        assert most == [4]
        for result in results:
            result.cancel()


async def test_p48_a_loop_that_hangs_is_reported_and_gives_itself_up(make_app, tmp_path, bodies, caplog):
    """It claims nothing, renews for some leases, then no more; it learns of its fence when it is back."""
    time = [100.0]
    keepers = []

    @step
    async def slow() -> int:
        return await bodies.enter()

    @workflow
    async def hangs() -> int:
        if a is not None and not bodies.gates:
            block()  # the code of a run blocks the thread of the loop; the keeper's thread goes on beside it
        return await slow()

    def block():
        for _ in range(30 * 2):
            time[0] += 0.5
            a.clock.advance_to(a.clock.now() + 500_000)
            before = len(renewals)
            keepers[0].look()
            assert len(renewals) == before or time[0] - 100 < HUNG_LEASES * 10

    async with sharing(make_app, tmp_path) as (a, b):
        renewals, store = [], a.gate.store
        number = a.worker.number

        def renew():
            now = a.clock.now()
            renewals.append(round(time[0] - 100))
            store.heartbeat(number, now, now + 10_000_000)

        keepers.append(LeaseKeeper(10_000_000, renew, a._process._describe, monotonic=lambda: time[0]))
        run = await a.start(hangs(), id="hanging")
        await until(lambda: bodies.gates, "the end of the hang")
        assert renewals == [7, 14, 21, 28], "not after three leases of silence"
        [report] = [record for record in caplog.records if record.name == "perdure.watchdog"]
        assert "run hanging" in report.getMessage()
        assert "in block" in report.getMessage()
        await leased_out(a, b)
        await until(lambda: len(bodies.gates) == 2, "the takeover")
        await beat(a)
        assert a.worker.number != number
        bodies.release()
        assert await b.handle(run.id).result() == 1


async def test_p48_a_tick_makes_the_keeper_renew_again_and_no_error_ends_it(caplog):
    time, calls = [0.0], []

    def renew():
        calls.append(time[0])
        if len(calls) == 2:
            raise RuntimeError("once")

    keeper = LeaseKeeper(3_000_000, renew, str, monotonic=lambda: time[0])
    for _ in range(20):
        time[0] += 1
        with pytest.raises(RuntimeError) if time[0] == 4 else contextlib.nullcontext():
            keeper.look()
    assert calls == [2, 4, 6, 8]
    keeper.tick()
    keeper.look()
    assert calls[-1] == 20


async def test_clocks_that_jump_lose_and_repeat_nothing(make_app, tmp_path, bodies):
    """The clock of the machine is set: an hour ahead during a step, and back again during the next."""

    @step
    async def slow(number: int) -> int:
        await bodies.enter()
        return number

    @workflow
    async def two() -> list:
        return [await slow(1), await slow(2)]

    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(two())
        await until(lambda: bodies.gates, "the first step")
        a.clock._now += 3_600_000_000
        await beat(a, b)
        bodies.gates[0].set()
        await until(lambda: len(bodies.gates) == 2, "the second step")
        a.clock._now -= 3_600_000_000
        await beat(a, b)
        bodies.release()
        assert await a.handle(run.id).result() == [1, 2]
        assert len(bodies.gates) == 2
        times = [entry.at for entry in await a.handle(run.id).history()]
        assert times == sorted(times)


async def test_a_time_told_again_and_again_is_kept_once(make_app, tmp_path):
    """Each heartbeat tells when the next run is due: a run that waits for a week may not cost memory meanwhile."""

    @workflow
    async def waits() -> None:
        await asyncio.sleep(7 * 86_400)

    async with sharing(make_app, tmp_path, 1) as (app,):
        run = await app.start(waits())
        await app.settle()
        await beat(*[app] * 50)
        assert len(app.worker.dues._times) == 1
        await app.advance("7d")
        assert await run.status() == "succeeded"
        assert not app.worker.dues._times
