"""A run that ends its process: it alone is set aside, everything beside it goes on."""

import asyncio
import subprocess
import sys

import pytest

from perdure import App, RunBlocked
from tests.crash import programs
from tests.crash.processes import until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]


async def test_p44_s14_a_run_that_ends_its_process_is_set_aside_alone(nursery, place):
    """`os._exit(137)` in a step, beside 100 others: whoever keeps the worker running needs to know nothing."""
    async with App(place.url, worker=False) as app:
        others = [await app.start(programs.chain(f"{number}", 5, 0.02), id=f"other {number}") for number in range(50)]
        deadly = await app.start(programs.deadly("dies"), id="deadly")
        others += [await app.start(programs.waits(f"{number}"), id=f"other {number}") for number in range(50, 100)]
        births = []

        async def keep_one_running():
            while True:
                births.append(await nursery.bear(place))
                await until(lambda: not births[-1].alive() or done.is_set(), "the worker to end")
                if done.is_set():
                    return

        done = asyncio.Event()
        keeper = asyncio.create_task(keep_one_running())
        try:
            for run in others[50:]:
                await run.send("go", "on")
            for run in others[:50]:
                assert await run.result(timeout="60s") == 5
            for number, run in enumerate(others[50:], 50):
                assert await run.result(timeout="60s") == f"{number} on"
            with pytest.raises(RunBlocked):
                await deadly.result(timeout="60s")
        finally:
            done.set()
            await keeper
        store = app.gate.store
        row = await app.gate.read(lambda: store.run("deadly"))
        assert (row.status, row.owner, row.blocked.code) == ("blocked", 0, "PRD-405")
        lines = place.effects_of("deadly")
        assert 2 <= len(lines) <= 4, lines
        assert [line["attempt"] for line in lines] == sorted({line["attempt"] for line in lines})
        print(
            f"{len(births)} workers, of which the deadly run ended {len({line['pid'] for line in lines})} and its own process"
        )
        assert births[-1].alive()
        assert len({line["pid"] for line in lines} - {child.pid for child in births}) == 1  # the last time alone
        rows = [await app.gate.read(lambda run=run: store.run(run.id)) for run in others]
        assert {(row.status, row.owner) for row in rows} == {("succeeded", 0)}
        assert await app.gate.read(app.gate.store.check) == []


async def test_a_poisoned_run_is_tried_again_when_somebody_says_so(nursery, place):
    async with App(place.url, worker=False) as app:
        deadly = await app.start(programs.deadly("dies"), id="deadly")
        worker = None
        while await deadly.status() != "blocked":
            if worker is None or not worker.alive():
                worker = await nursery.bear(place)
            await asyncio.sleep(0.02)
        before = len(place.effects_of("deadly"))
        await deadly.resume(by="ann")
        await until(lambda: len(place.effects_of("deadly")) > before, "another attempt")


DEADLY_PROGRAM = """
import asyncio, os
from perdure import App, RunBlocked, step, workflow

@step
async def dies() -> None:
    os._exit(137)

@workflow
async def deadly() -> None:
    await dies()

async def main():
    async with App("sqlite:///program.db") as app:
        run = await app.start(deadly(), id="deadly")
        try:
            await run.result()
        except RunBlocked as error:
            print(error.code, (await run.info()).blocked.code, len(await app.workers(live_only=False)))

asyncio.run(main())
"""


def test_a_program_without_a_main_guard_does_not_start_itself_when_its_run_is_isolated(tmp_path):
    """Each process that imports the program to run its suspect alone would start another one."""
    (tmp_path / "program.py").write_text(DEADLY_PROGRAM)
    ends = [
        subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        for _ in range(3)
    ]
    assert [end.returncode for end in ends] == [137, 137, 0], ends[-1].stderr
    blocked, poison, workers = ends[-1].stdout.split()
    assert (blocked, poison) == ("PRD-103", "PRD-405")
    assert int(workers) == 4  # three of the program, one for the run alone
