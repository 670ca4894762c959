"""What the crash tests run. Every effect is one line in a file: one write with O_APPEND, one fsync, as real effects are.

`PERDURE_TEST_EFFECTS` names the file.
"""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time

from perdure import InDoubt, Retry, current_run, current_step, receive, send, step, workflow

BRANCHES = 4


def effect(name, **more):
    """One line: who did what, under which key, as which attempt, when."""
    facts = current_step()
    line = {
        "run": facts.run,
        "key": facts.key,
        "name": name,
        "attempt": facts.attempt,
        "pid": os.getpid(),
        "at": time.time_ns() // 1000,
    }
    descriptor = os.open(os.environ["PERDURE_TEST_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (json.dumps(line | more) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ── the journey: 30 steps ────────────────────────────────────────────────────────────────────────────────────────────


@step
async def works(name: str) -> str:
    effect(name)
    await asyncio.sleep(0.003)
    return name.upper()


@step
def blocks(name: str) -> str:
    effect(name)
    time.sleep(0.003)
    return name.upper()


@step(retry=Retry(attempts=1000, initial="10ms", factor=1))
async def stumbles(name: str) -> str:
    effect(name)
    if current_step().idempotency_key not in _stumbled:  # once in each process
        _stumbled.add(current_step().idempotency_key)
        raise ConnectionError(name)
    return name.upper()


_stumbled = set()


@step(once=True)
async def pays(name: str) -> str:
    effect(name, once=True)
    await asyncio.sleep(0.003)
    return name.upper()


async def _paid(name):
    try:
        return await pays(name)
    except InDoubt:
        return "in doubt"


async def _branch(number):
    first = await works(f"branch {number} first")
    await asyncio.sleep(0.004 * number)
    second = await blocks(f"branch {number} second")
    return [first, second, await works(f"branch {number} third")]


@workflow
async def journey(collector: str) -> dict[str, list[str]]:
    """30 steps: 6 in a row, 12 in branches, 4 once, 3 that stumble, 5 around signals; timers and messages between them."""
    row = [await works(f"row {number}") for number in range(3)]
    await asyncio.sleep(0.01)
    row += [await blocks(f"row {number}") for number in range(3, 6)]
    branches = await asyncio.gather(*(_branch(number) for number in range(BRANCHES)))
    paid = [await _paid("pay 0")]
    paid += await asyncio.gather(*(_paid(f"pay {number}") for number in range(1, 4)))
    await send(collector, "passed", current_run().id)
    signals = []
    for number in range(2):
        await works(f"waits for {number}")
        signals.append(f"{(await receive('go')).value}")
        await asyncio.sleep(0.002)
    async with asyncio.TaskGroup() as group:
        stumbling = [group.create_task(stumbles(f"stumble {number}")) for number in range(3)]
        group.create_task(asyncio.sleep(0.02))
    late = []
    for number in range(3):
        async with asyncio.timeout(60):
            late.append(await works(f"late {number}"))
    await send(collector, "arrived", current_run().id)
    return {
        "row": row,
        "branches": [each for branch in branches for each in branch],
        "paid": paid,
        "signals": signals,
        "stumbled": [task.result() for task in stumbling],
        "late": late,
    }


STEPS = 30
EXPECTED = {
    "row": [f"ROW {number}" for number in range(6)],
    "branches": [f"BRANCH {number} {place}" for number in range(BRANCHES) for place in ("FIRST", "SECOND", "THIRD")],
    "signals": ["0", "1"],
    "stumbled": [f"STUMBLE {number}" for number in range(3)],
    "late": [f"LATE {number}" for number in range(3)],
}


@workflow
async def collector(runs: int) -> list[str]:
    """Receives two messages of each of so many journeys."""
    return sorted(
        [f"{message.name} {message.value}" for message in [await receive("passed", "arrived") for _ in range(2 * runs)]]
    )


# ── smaller ones ─────────────────────────────────────────────────────────────────────────────────────────────────────


@step
async def notes(name: str, seconds: float) -> int:
    effect(name)
    await asyncio.sleep(seconds)
    effect(f"{name}: done")
    return os.getpid()


@workflow
async def chain(name: str, length: int, seconds: float) -> int:
    """So many steps of so many seconds in a row."""
    for number in range(length):
        await notes(f"{name} {number}", seconds)
    return length


@workflow
async def alone(name: str, seconds: float) -> int:
    """One slow step: gives the process that did it."""
    return await notes(name, seconds)


@step
async def dies(name: str) -> None:
    effect(name)
    await asyncio.sleep(0.01)
    os._exit(137)


@workflow
async def deadly(name: str) -> None:
    await dies(name)


@step
async def forks(how: str) -> int:
    """Leave a child of this process behind that lives for a while and does nothing."""
    child = {"fork": _fork, "multiprocessing": _multiprocess, "subprocess": _spawn}[how]()
    effect("forked", child=child)
    return child


def _fork():
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    return child


def _multiprocess():
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    return process.pid


def _spawn():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False).pid


@workflow
async def forking(how: str, length: int, seconds: float) -> int:
    """Leave a child behind, then go on with some steps."""
    await forks(how)
    for number in range(length):
        await notes(f"after the fork {number}", seconds)
    return length


@workflow
async def waits(name: str) -> str:
    return f"{name} {(await receive('go')).value}"
