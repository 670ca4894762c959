"""Real processes for a test: a nursery that bears them, what they said and did, and that none is left behind."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
"""Seconds after which something that should have happened is said not to happen. No time is asserted by it."""


def environment(**more):
    """This process's environment, for another Python with the same modules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])} | more


async def until(condition, what):
    """Wait until a condition (a function, async or not) holds, and give what it gave."""
    end = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {PATIENCE:.0f} s for {what() if callable(what) else what}")
        await asyncio.sleep(0.003)


class Lines:
    """The lines of a file that others append to, as JSON."""

    def __init__(self, path):
        self.path = path
        self.read_to = 0
        self.all = []

    def look(self):
        """All lines so far; a line that is still being written is left for the next look."""
        if self.path.exists() and self.path.stat().st_size > self.read_to:
            with self.path.open("rb") as file:
                file.seek(self.read_to)
                data = file.read()
            data = data[: data.rfind(b"\n") + 1]
            self.read_to += len(data)
            self.all += [json.loads(line) for line in data.splitlines()]
        return self.all


class Place:
    """One store and one file of effects."""

    def __init__(self, folder, name="perdure"):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.database = folder / f"{name}.db"
        self.url = f"sqlite:///{self.database}"
        self.effects = Lines(folder / f"{name}.effects")

    def effects_of(self, run):
        """What a run did so far, in order."""
        return [line for line in self.effects.look() if line["run"] == run]

    def is_locked(self):
        """Whether somebody is writing right now."""
        connection = sqlite3.connect(self.database, timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
        finally:
            connection.close()
        return False


class Child:
    """A process of the nursery."""

    def __init__(self, pid, said):
        self.pid = pid
        self._said = said

    def words(self):
        """What it said so far, one list per line, without its number."""
        return [words for pid, *words in self._said.look() if pid == self.pid]

    def alive(self):
        """Whether it has not ended."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def signal(self, number):
        """Send it a signal; one that has ended does not mind."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    async def kill(self):
        """End it by SIGKILL, and wait until it has ended. Gives the moment, µs since the epoch."""
        at = time.time_ns() // 1000
        self.signal(signal.SIGKILL)
        await until(lambda: not self.alive(), f"the end of process {self.pid}")
        return at

    async def says(self, word):
        """Wait until it says a word; gives the rest of that line."""

        def said():
            for words in self.words():
                if words[0] == word:
                    return words
                if words[0] == "failed":
                    raise AssertionError(words[1])
            return None

        return (await until(said, f"process {self.pid} to say {word}; it said {self.words()}"))[1:]


class Nursery:
    """Bears processes. On leaving, all that are left are killed."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "nursery.log"
        self._said = Lines(folder / "nursery.said")
        self._children = []
        self._births = asyncio.Lock()

    async def __aenter__(self):
        with self._said.path.open("ab") as said, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.worker"],
                stdin=subprocess.PIPE, stdout=said, stderr=log, env=environment(), cwd=ROOT,
            )  # fmt: skip
        return self

    async def __aexit__(self, *error):
        for child in self._children:
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(timeout=30)

    async def bear(self, place, *, role="serve", more=None, **options):
        """A new process."""
        order = {"role": role, "url": place.url, "effects": str(place.effects.path), "options": options} | (more or {})
        async with self._births:
            before = len(self._born())
            self._process.stdin.write((json.dumps(order) + "\n").encode())
            self._process.stdin.flush()
            await until(lambda: len(self._born()) > before, lambda: f"a birth; {self.log.read_text()}")
            child = Child(self._born()[before], self._said)
        self._children.append(child)
        return child

    def _born(self):
        return [words[2] for words in self._said.look() if words[1] == "born"]
