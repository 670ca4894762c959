"""Workloads of several processes: recovery after SIGKILL, and workers that share the runs of one store."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time

from perdure import App

from .measuring import Meter, head, tell
from .programs import sequence
from .waiting import AT_ONCE


def _start(*arguments):
    """A process of `benchmarks.process`, whose standard output is read line by line."""
    command = [sys.executable, "-m", "benchmarks.process", *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(process):
    """Its next line, as JSON."""
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a process of the benchmark ended with {process.wait()}")
    return json.loads(line)


@contextlib.contextmanager
def _processes(*started):
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


async def recover(options):
    """K steps done, SIGKILL, a new process."""
    options.with_defaults(steps=2000)
    with Meter() as meter, _processes(_start("build", options.url, options.steps)) as (first,):
        _line(first)
        tell("killing the first process")
        first.kill()
        first.wait()
        with _processes(_start("recover", options.url)) as (second,):
            found = _line(second)
    return {
        **head(options),
        **meter.facts(),
        "recover_s": round(found["recover_s"], 4),
        "recover_us_per_step": round(found["recover_s"] / options.steps * 1e6, 2),
        "from_opened_s": round(found["from_opened_s"], 4),
        "from_claim_s": round(found["from_claim_s"], 4),
        "from_claim_us_per_step": round(found["from_claim_s"] / options.steps * 1e6, 2),
    }


async def queue(options):
    """N runs of K steps that wait in a store, and several worker processes."""
    options.with_defaults(n=1000, steps=10)
    async with App(options.url, worker=False) as app:
        numbers = iter(range(options.n))

        async def start_some():
            for _ in numbers:
                await app.start(sequence(options.steps))

        await asyncio.gather(*(start_some() for _ in range(AT_ONCE)))
        tell(f"{options.n} runs started")
        started = [_start("work", options.url) for _ in range(options.workers)]
        with _processes(*started):
            for process in started:
                _line(process)
            for process in started:
                process.stdin.write("go\n")
                process.stdin.flush()
            with Meter() as meter:
                while (await app.count()).get("succeeded", 0) < options.n:
                    await asyncio.sleep(0.005)
            cpu = []
            for process in started:
                process.stdin.write("stop\n")
                process.stdin.flush()
                cpu.append(_line(process))
    return {
        **head(options),
        "wall_s": round(meter.wall, 4),
        "cpu_us_per_step": round(sum(each["cpu_s"] for each in cpu) / options.n / options.steps * 1e6, 1),
        "runs_per_s": round(options.n / meter.wall),
        "steps_per_s": round(options.n * options.steps / meter.wall),
        "workers": options.workers,
        "commits": sum(each["commits"] for each in cpu),
        "begun_at": round(time.time(), 3),
    }
