"""Who owns a run, when processes die, stop, fork, or come and go: on one file, with nobody to help."""

import asyncio
import os
import signal
import sqlite3
import time

import pytest

from perdure import App
from perdure.core.entry import Kind
from tests.crash import programs
from tests.crash.processes import until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]


async def journal(app, run):
    row, store = await run._row(), app.gate.store
    return await app.gate.read(lambda: store.journal(row.number))


async def row_of(app, run):
    store = app.gate.store
    return await app.gate.read(lambda: store.run(run.id))


def names(lines):
    return [line["name"] for line in lines]


async def test_a_living_process_takes_over_at_once(nursery, place):
    """Killed, a process leaves its runs to another one that works on the same file."""
    taken = []
    async with App(place.url, worker=False) as app:
        living = await nursery.bear(place, lease="60s")  # no lease may have to run out
        await living.says("serving")
        for number in range(3):
            dying = await nursery.bear(place, lease="60s")
            await dying.says("serving")
            await _stop(living, place)  # so that the other one gets the run
            run = await app.start(programs.chain(f"turn {number}", 40, 0.02), id=f"turn {number}")
            await until(lambda run=run: len(place.effects_of(run.id)) > 4, "the run to begin")
            living.signal(signal.SIGCONT)
            killed = await dying.kill()
            assert await run.result(timeout="60s") == 40
            lines = place.effects_of(run.id)
            assert {line["pid"] for line in lines if line["at"] <= killed} == {dying.pid}
            taken.append((min(line["at"] for line in lines if line["pid"] != dying.pid) - killed) / 1_000_000)
            begun = [name for name in names(lines) if not name.endswith("done")]
            assert sorted(set(begun)) == sorted(f"turn {number} {step}" for step in range(40))
            assert len(begun) <= 41
            assert (await row_of(app, run)).owner == 0
    print("taken over after", ", ".join(f"{seconds:.2f} s" for seconds in taken))
    assert max(taken) < 10  # far more than it takes; the lease is a minute


async def test_s15_a_process_that_was_stopped_past_its_lease_commits_nothing_more(nursery, place):
    """SIGSTOP in the middle of a step, another one takes over by the lease, SIGCONT: what the first one has done is refused."""
    async with App(place.url, worker=False, lease="1s") as app:
        first = await nursery.bear(place, lease="1s")
        (number,) = await first.says("serving")
        run = await app.start(programs.chain("held", 4, 0.6), id="held")
        await until(lambda: names(place.effects_of(run.id))[-1:] == ["held 1"], "the second step")
        await _stop(first, place)
        second = await nursery.bear(place, lease="1s")
        await until(lambda: any(line["pid"] == second.pid for line in place.effects_of(run.id)), "the takeover")
        first.signal(signal.SIGCONT)
        continued = time.time_ns() // 1000
        assert await run.result(timeout="60s") == 4
        await asyncio.sleep(1)  # it had every chance to do something wrong
        late = [line["name"] for line in place.effects_of(run.id) if line["pid"] == first.pid and line["at"] >= continued]
        assert late in ([], ["held 1: done"]), late  # the body that it was in may end; nothing else begins
        assert (await app.gate.read(lambda: app.gate.store.worker(number))).end == "expired"  # the fence
        entries = await journal(app, run)
        steps = [entry for entry in entries if entry.kind == Kind.STEP]
        assert len({entry.key for entry in steps}) == len(steps) == 4
        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        owners = {line["name"]: line["pid"] for line in place.effects_of(run.id) if not line["name"].endswith("done")}
        assert owners == {"held 0": first.pid, "held 1": second.pid, "held 2": second.pid, "held 3": second.pid}
        # The first one is of use again: it entered anew, or it ended. A run that only it could take is taken in any case.
        await second.kill()
        other = await app.start(programs.chain("afterwards", 1, 0.0), id="afterwards")
        if not first.alive():
            await nursery.bear(place, lease="1s")
        assert await other.result(timeout="60s") == 1
        assert await app.gate.read(app.gate.store.check) == []


async def _stop(child, place):
    """Stop a process, but not within a transaction: there it would stop all others too, as the docs say."""
    while True:
        child.signal(signal.SIGSTOP)
        await asyncio.sleep(0.01)
        if not place.is_locked():
            return
        child.signal(signal.SIGCONT)
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("how", ["fork", "multiprocessing", "subprocess"])
async def test_s30_a_killed_worker_is_taken_over_though_a_child_of_it_lives(nursery, place, how):
    async with App(place.url, worker=False) as app:
        first = await nursery.bear(place, lease="60s")
        await first.says("serving")
        run = await app.start(programs.forking(how, 20, 0.05), id="forking")
        await until(lambda: len(place.effects_of(run.id)) > 3, "the run to begin")
        child = next(line["child"] for line in place.effects_of(run.id) if line["name"] == "forked")
        try:
            second = await nursery.bear(place, lease="60s")
            await second.says("serving")
            killed = await first.kill()
            await until(lambda: any(line["pid"] == second.pid for line in place.effects_of(run.id)), "the takeover")
            os.kill(child, 0)  # it lives
            taken = next(line["at"] for line in place.effects_of(run.id) if line["pid"] == second.pid)
            print(f"taken over after {(taken - killed) / 1_000_000:.2f} s, with a living child")
            assert (taken - killed) / 1_000_000 < 10
            assert await run.result(timeout="60s") == 20
            assert names(place.effects_of(run.id)).count("forked") == 1
        finally:
            os.kill(child, signal.SIGKILL)


async def test_p54_eight_processes_open_an_empty_file_at_once(nursery, tmp_path):
    """Ten times: nobody fails, one schema, one identity, a number for each."""
    from tests.crash.processes import Place

    for turn in range(10):
        place = Place(tmp_path / f"turn {turn}")
        at = time.time() + 0.25
        more = {"at": at, "workflow": ""}
        children = [await nursery.bear(place, role="start", more=more, worker=number % 2 == 0) for number in range(8)]
        numbers = [(await child.says("opened"))[0] for child in children]
        for child in children:
            await child.says("closed")
        assert sorted(numbers) == list(range(1, 9))
        async with App(place.url, worker=False) as app:
            assert await app.gate.read(app.gate.store.check) == []
            workers = await app.workers(live_only=False)
            assert [each.role for each in workers] == ["worker"] * 4 + ["client"]  # this one: clients leave no row behind


async def test_p04_eight_processes_start_one_id_at_once(nursery, place):
    """One run, one execution of each body, the same result for all."""
    async with App(place.url, worker=False) as app:
        for turn in range(5):
            more = {"at": time.time() + 0.25, "workflow": "alone", "arguments": ["once", 0.3], "id": f"same {turn}"}
            children = [await nursery.bear(place, role="start", more=more) for _ in range(8)]
            results = {(await child.says("result"))[0] for child in children}
            lines = place.effects_of(f"same {turn}")
            assert names(lines) == ["once", "once: done"]
            assert results == {lines[0]["pid"]}
            for child in children:
                await child.says("closed")
        assert len((await app.runs()).items) == 5


async def test_two_processes_share_a_file_and_each_run_is_done_by_one_of_them(nursery, place):
    async with App(place.url, worker=False) as app:
        workers = [await nursery.bear(place) for _ in range(2)]
        for worker in workers:
            await worker.says("serving")
        runs = []
        for number in range(10):  # in portions: a worker takes all that it sees
            runs += [
                await app.start(programs.chain(f"{number}.{each}", 4, 0.02), id=f"run {number}.{each}") for each in range(6)
            ]
            await asyncio.sleep(0.05)
        for run in runs:
            assert await run.result(timeout="60s") == 4
        shares = {worker.pid: 0 for worker in workers}
        for run in runs:
            lines = place.effects_of(run.id)
            assert len(lines) == 8  # every body once
            (pid,) = {line["pid"] for line in lines}
            shares[pid] += 1
        print("shared as", sorted(shares.values()))
        assert min(shares.values()) > 0
        assert all(row.owner == 0 for row in [await row_of(app, run) for run in runs])


async def test_p30_the_250_runs_of_a_killed_worker_go_on_though_the_database_is_away_meanwhile(nursery, place):
    async with App(place.url, worker=False) as app:
        first = await nursery.bear(place)
        await first.says("serving")
        runs = [await app.start(programs.chain(f"{number}", 3, 0.4), id=f"run {number}") for number in range(150)]
        runs += [await app.start(programs.waits(f"{number}"), id=f"waiting {number}") for number in range(100)]
        await until(lambda: len(place.effects.look()) >= 150, "the first steps")
        second = await nursery.bear(place)
        await second.says("serving")
        await first.kill()
        outage = asyncio.create_task(asyncio.to_thread(_lock, place.database, 2.0))
        await outage
        for run in runs[150:]:
            await run.send("go", 1)
        for run in runs[:150]:
            assert await run.result(timeout="60s") == 3
        for number, run in enumerate(runs[150:]):
            assert await run.result(timeout="60s") == f"{number} 1"
        for run in runs[:150]:
            done = [line["name"] for line in place.effects_of(run.id) if line["name"].endswith("done")]
            assert sorted(set(done)) == [f"{run.id.split()[1]} {step}: done" for step in range(3)]
        rows = [await row_of(app, run) for run in runs]
        assert {(row.status, row.owner) for row in rows} == {("succeeded", 0)}
        assert await app.gate.read(app.gate.store.check) == []


def _lock(database, seconds):
    """Nobody else can write for so long."""
    connection = sqlite3.connect(database, timeout=30, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
    finally:
        connection.close()
