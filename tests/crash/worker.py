"""The nursery of the crash tests: `python -m tests.crash.worker`. It imports everything and then forks a process for each line
that it reads, so that a new one is there in a few milliseconds. Each is a process of its own, with nothing open yet.

A line is a JSON object: `role` (`serve`: host a worker until SIGTERM or SIGINT; `start`: open an app, perhaps start a run and
wait for it), `url`, `effects` (the file for effects), `options` of the App, and more for `start`. What the processes have to
say goes to standard output, one JSON list per line: `[pid, word, ...]`.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import traceback

from perdure import App
from tests.crash import programs


async def serve(order):
    """Host a worker until a signal says stop."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    nursery = os.getppid()
    async with App(order["url"], **order["options"]) as app:
        say("serving", app.worker.number)
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 1)
            if os.getppid() != nursery:  # the test is gone
                os._exit(1)
        say("stopping")
    say("stopped")


async def start(order):
    """Open an app at a moment agreed upon, start a run, and say what came of it."""
    await asyncio.sleep(max(0.0, order["at"] - time.time()))
    async with App(order["url"], **order["options"]) as app:
        say("opened", app.gate.process.number)
        if order["workflow"]:
            run = await app.start(getattr(programs, order["workflow"])(*order["arguments"]), id=order["id"])
            say("result", await run.result(timeout="60s"))
    say("closed")


def say(*words):
    """One line for the test."""
    os.write(1, (json.dumps([os.getpid(), *words]) + "\n").encode())


def main():
    """Fork for each line. Ended children are buried by the kernel."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live(json.loads(line))
        say("born", child)


def _live(order):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ["PERDURE_TEST_EFFECTS"] = order["effects"]
    code = 1
    try:
        asyncio.run({"serve": serve, "start": start}[order["role"]](order))
        code = 0
    except BaseException:
        say("failed", traceback.format_exc())
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
