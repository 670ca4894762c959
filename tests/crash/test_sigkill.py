"""A workflow of 30 steps is killed by SIGKILL at 200 random moments of its life, and always ends right."""

import asyncio
import collections
import os
import random
import secrets
import time

import pytest

from perdure import App
from perdure.core.entry import Kind
from tests.crash import programs
from tests.crash.processes import PATIENCE, Place, until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]

KILLS = int(os.environ.get("PERDURE_TEST_KILLS", "200"))
LANES = 4
"""Stores that are worked on, and whose workers are killed, at the same time."""

RUNS = 2
"""Runs of one worker at a time."""


class Lane:
    """One store, one worker at a time, and its killer. Round after round of runs, until there were enough kills."""

    def __init__(self, number, folder, nursery, seed, tally):
        self.number = number
        self.place = Place(folder / f"lane {number}")
        self.nursery = nursery
        self.random = random.Random(f"{seed} {number}")
        self.tally = tally
        self.lives = 0
        self.killed = set()

    async def run(self):
        async with App(self.place.url, worker=False) as app:
            self.app = app
            rounds = 0
            while rounds == 0 or self.tally["kills"] < KILLS:
                rounds += 1
                await self.round(f"{self.number}.{rounds}")
            problems = await app.gate.read(app.gate.store.check)
            assert problems == []

    async def round(self, name):
        collector = await self.app.start(programs.collector(RUNS), id=f"collector {name}")
        runs = [await self.app.start(programs.journey(collector.id), id=f"journey {name}.{number}") for number in range(RUNS)]
        if self.random.random() < 0.3:
            await runs[0].send("go", 0, id="go 0")  # long before anybody waits for it
        postman = asyncio.create_task(self.post(runs))
        worker = await self.nursery.bear(self.place)
        self.lives += 1
        try:
            while self.tally["kills"] < KILLS and await self.gone_on(runs):
                await asyncio.sleep(self.random.random() * self.random.choice((0.004, 0.02, 0.06)))
                if postman.done():
                    await postman
                self.tally["kills"] += 1
                self.tally["places"][await self.progress(runs)] += 1
                await worker.kill()
                worker = await self.nursery.bear(self.place)
                self.lives += 1
            for run in [*runs, collector]:
                await run.result(timeout=PATIENCE)
        finally:
            postman.cancel()
            await asyncio.gather(postman, return_exceptions=True)
            await worker.kill()
        for run in runs:
            await self.check(run)
        assert await collector.result() == sorted(f"{word} {run.id}" for word in ("passed", "arrived") for run in runs)
        assert await self.kinds(collector, Kind.SIGNAL) == 2 * RUNS
        self.tally["runs"] += RUNS

    async def post(self, runs):
        """Send each run what it waits for: late, early, and every now and then twice."""
        sent = set()
        while True:
            for run in runs:
                for line in self.place.effects_of(run.id):
                    if line["name"].startswith("waits for ") and (run.id, line["name"]) not in sent:
                        sent.add((run.id, line["name"]))
                        number = int(line["name"].split()[-1])
                        await asyncio.sleep(self.random.random() * 0.03)
                        for _ in range(self.random.choice((1, 1, 2))):
                            await run.send("go", number, id=f"go {number}")
            await asyncio.sleep(0.005)

    async def rows(self, runs):
        store = self.app.gate.store
        return await self.app.gate.read(lambda: [store.run(run.id) for run in runs])

    async def progress(self, runs):
        """How far the runs are, in tenths of their lives."""
        steps = sum(len({line["key"] for line in self.place.effects_of(run.id)}) for run in runs)
        return steps * 10 // (programs.STEPS * RUNS)

    async def gone_on(self, runs):
        """Wait until every run that has not ended has gone on since its worker was killed; False if all have ended.

        Mostly a recorded step is waited for, sometimes only a body that began: two deaths without a record, and a run goes on
        in a process of its own.
        """
        before = {run.id: len(self.place.effects_of(run.id)) for run in runs}
        enough = self.random.random() < 0.2

        async def went_on():
            rows = await self.rows(runs)
            return all(
                row.ended_at
                or row.crashes > 2
                or (len(self.place.effects_of(row.id)) > before[row.id] and (row.crashes == 0 or (enough and row.crashes == 1)))
                for row in rows
            )

        await until(went_on, lambda: f"progress of {[run.id for run in runs]} after {before}")
        rows = await self.rows(runs)
        assert not [row for row in rows if row.status == "blocked"], rows
        return not all(row.ended_at for row in rows)

    async def kinds(self, run, kind):
        row, store = await run._row(), self.app.gate.store
        return sum(entry.kind == kind for entry in await self.app.gate.read(lambda: store.journal(row.number)))

    async def check(self, run):
        """The run's result, its journal, and its effects agree, and nothing happened that the journal forbids."""
        result = await run.result(timeout=PATIENCE)
        row, store = await run._row(), self.app.gate.store
        entries = await self.app.gate.read(lambda: store.journal(row.number))
        effects = self.place.effects_of(run.id)

        paid = result.pop("paid")
        assert result == programs.EXPECTED
        assert all(each in (f"PAY {number}", "in doubt") for number, each in enumerate(paid))
        assert (row.status, row.owner, row.due_at) == ("succeeded", 0, None)

        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        times = [entry.time for entry in entries]
        assert times == sorted(times)

        recorded = {entry.key: entry.time for entry in entries if entry.kind == Kind.STEP}
        assert len(recorded) == programs.STEPS == sum(entry.kind == Kind.STEP for entry in entries)
        assert sum(entry.kind == Kind.SIGNAL for entry in entries) == 2
        assert sum(entry.kind == Kind.SENT for entry in entries) == 2

        bodies = collections.defaultdict(list)
        for line in effects:
            bodies[line["key"]].append(line)
        # A payment that was announced may have been killed before its body began; everything else has run.
        assert set(bodies) <= set(recorded)
        doubtful = {key for key in recorded if key not in bodies}
        assert len(doubtful) <= paid.count("in doubt")
        for key, lines in bodies.items():
            late = [line for line in lines if line["at"] > recorded[key]]
            assert not late, f"{key} was recorded at {recorded[key]}, and began again: {late}"
            attempts = [line["attempt"] for line in lines]
            assert attempts == sorted(set(attempts)), f"{key}: the attempts have the numbers {attempts}"
            if not lines[0]["name"].startswith("stumble"):
                workers = [line["pid"] for line in lines]
                assert len(workers) == len(set(workers)), f"{key} ran twice in one process"
            if lines[0].get("once"):
                assert len(lines) == 1, f"{key} is a once step and ran {len(lines)} times"
        self.tally["again"] += sum(len(lines) - 1 for lines in bodies.values() if not lines[0]["name"].startswith("stumble"))
        self.tally["in doubt"] += paid.count("in doubt")


async def test_a_run_that_is_killed_at_200_moments_of_its_life_ends_right(nursery, tmp_path):
    seed = os.environ.get("PERDURE_TEST_SEED") or secrets.token_hex(4)
    tally = collections.Counter(places=collections.Counter())
    began = time.monotonic()
    lanes = [Lane(number, tmp_path, nursery, seed, tally) for number in range(LANES)]
    try:
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(lane.run())
    except BaseException:
        print(f"PERDURE_TEST_SEED={seed} makes the same choices again, after {tally}")
        raise
    places = [tally["places"][tenth] for tenth in range(11)]
    print(
        f"{tally['kills']} kills of {tally['runs']} runs in {time.monotonic() - began:.1f} s; by tenths of their lives {places}; "
        f"{tally['again']} bodies ran again, {tally['in doubt']} payments are in doubt"
    )
    assert tally["kills"] >= KILLS
    assert KILLS < 100 or sum(count > 0 for count in places) >= 8, "the kills are not spread"
