"""A worker that is told to stop: its steps may end within a bound, its runs are handed back, nothing counts as a crash."""

import signal
import subprocess
import sys
import time

import pytest

from perdure import App
from tests.crash import programs
from tests.crash.processes import PATIENCE, ROOT, environment, until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


class Command:
    """`perdure worker` in a process of its own."""

    def __init__(self, place, *options):
        self._log = (place.folder / "command.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "perdure", "worker", "tests.crash.programs", "--db", place.url, *options],
            env=environment(PERDURE_TEST_EFFECTS=str(place.effects.path)), cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()

    def stop(self, number):
        """Tell it to stop, and wait until it has: its exit code and the seconds that it took."""
        began = time.monotonic()
        self._process.send_signal(number)
        return self._process.wait(timeout=PATIENCE), time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_p45_x17_a_worker_that_is_told_to_stop_hands_its_runs_back(nursery, place, number):
    """A step of 3 s across a drain of 1 s runs again elsewhere; one of 0.6 s ends and is recorded; nothing new begins."""
    async with App(place.url, worker=False) as app:
        with Command(place, "--drain", "1s") as command:
            short = await app.start(programs.chain("short", 2, 0.6), id="short")
            long = await app.start(programs.chain("long", 2, 3.0), id="long")
            waiting = await app.start(programs.waits("waiting"), id="waiting")
            await until(lambda: place.effects_of("short") and place.effects_of("long"), "the steps to begin")
            queued = []
            code, seconds = command.stop(number)
            stopped = time.time_ns() // 1000
        assert code == 0
        print(f"stopped after {seconds:.1f} s")
        assert names(place, "short") == ["short 0", "short 0: done"]
        assert names(place, "long") == ["long 0"]
        store = app.gate.store
        found = await app.gate.read(lambda: [store.run(name) for name in ("short", "long", "waiting")])
        rows = {row.id: row for row in found}
        assert {(row.owner, row.crashes) for row in rows.values()} == {(0, 0)}
        assert {row.status for row in rows.values()} <= {"queued", "waiting"}
        assert rows["short"].sequence == 2  # its first step was recorded
        assert rows["long"].sequence == 1
        queued.append(await app.start(programs.chain("later", 1, 0.0), id="later"))
        await waiting.send("go", "on")

        await nursery.bear(place)
        assert await queued[0].result(timeout="60s") == 1
        assert await short.result(timeout="60s") == 2
        assert await waiting.result(timeout="60s") == "waiting on"
        assert await long.result(timeout="60s") == 2
        assert names(place, "short") == ["short 0", "short 0: done", "short 1", "short 1: done"]
        assert names(place, "long") == ["long 0", "long 0", "long 0: done", "long 1", "long 1: done"]
        assert place.effects_of("long")[1]["at"] >= stopped
        assert [line["attempt"] for line in place.effects_of("long")[:2]] == [1, 2]
        assert await app.gate.read(app.gate.store.check) == []


def names(place, run):
    return [line["name"] for line in place.effects_of(run)]


async def test_p31_a_new_process_boots_while_the_old_one_drains(nursery, place):
    """The old one claims nothing more from the moment at which it is told to stop; the new one has a number of its own."""
    async with App(place.url, worker=False) as app:
        old = await nursery.bear(place, drain="5s")
        (first,) = await old.says("serving")
        run = await app.start(programs.chain("old", 3, 0.8), id="old")
        await until(lambda: place.effects_of("old"), "the first step")
        new = await nursery.bear(place)
        (second,) = await new.says("serving")
        assert second != first
        old.signal(signal.SIGTERM)
        await old.says("stopping")
        fresh = [await app.start(programs.chain(f"{number}", 2, 0.01), id=f"fresh {number}") for number in range(10)]
        for each in fresh:
            assert await each.result(timeout="60s") == 2
            assert {line["pid"] for line in place.effects_of(each.id)} == {new.pid}
        assert await run.result(timeout="60s") == 3
        await old.says("stopped")
        lines = place.effects_of("old")
        assert names(place, "old") == [
            f"old {number}{end}" for number in range(3) for end in ("", ": done")
        ]  # nothing ran twice
        assert [line["pid"] for line in lines] == [old.pid] * 2 + [new.pid] * 4
        row = await app.gate.read(lambda: app.gate.store.run("old"))
        assert (row.crashes, row.recoveries) == (0, 0)


async def test_p45_sigkill_after_sigterm(nursery, place):
    """The grace was too short: what was not handed back is taken over."""
    async with App(place.url, worker=False) as app:
        old = await nursery.bear(place, drain="30s", lease="60s")
        await old.says("serving")
        run = await app.start(programs.chain("run", 2, 1.5), id="run")
        await until(lambda: place.effects_of("run"), "the first step")
        old.signal(signal.SIGTERM)
        await old.says("stopping")
        await nursery.bear(place, lease="60s")
        await old.kill()
        assert await run.result(timeout="60s") == 2
        assert names(place, "run") == ["run 0", "run 0", "run 0: done", "run 1", "run 1: done"]
