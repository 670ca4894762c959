"""What the processes do that `benchmarks.several` starts: `build URL K`, `recover URL`, `work URL`."""

import time

import perdure

from . import programs

BEGUN = time.perf_counter()  # the first line after imports

import asyncio  # noqa: E402 - loaded above already
import json  # noqa: E402
import sys  # noqa: E402


def say(**facts):
    """One line for the process that started this one."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


async def build(url, steps):
    """Bring a run to its last step, say so, and hang there until killed."""

    async def notice():
        say(done=True)
        await asyncio.sleep(3600)

    programs.notice = notice
    async with perdure.App(url) as app:
        await app.run(programs.recovered(int(steps)), id="recovered")


async def recover(url):
    """Open the store that a killed process left, and say when its run went on."""
    gone_on = asyncio.Event()
    moments = {}

    async def notice():
        moments["gone_on"] = time.perf_counter()
        gone_on.set()

    programs.notice = notice
    async with perdure.App(url) as app:
        opened = time.perf_counter()
        while not app.worker.drivers:
            await asyncio.sleep(0.0005)
        claimed = time.perf_counter()
        await gone_on.wait()
        end = moments["gone_on"]
        say(recover_s=end - BEGUN, from_opened_s=end - opened, from_claim_s=end - claimed)


async def work(url):
    """Work on what waits in a store, from the first line of standard input to the second."""
    loop = asyncio.get_running_loop()
    say(ready=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    begun = time.process_time()
    async with perdure.App(url) as app:
        await loop.run_in_executor(None, sys.stdin.readline)
        say(cpu_s=time.process_time() - begun, commits=app.gate.process.committer.commits)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    asyncio.run({"build": build, "recover": recover, "work": work}[command](*arguments))
