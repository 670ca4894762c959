"""The stage: what every demo's story needs, one worker at a time, the news from the ledger, and the moments of the kills.

A story (`conductor.py`, and the larger one in `examples/research`) starts and kills the worker here and waits for what
is to happen next; everything that happens meanwhile is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from perdure import App, OpenPromise

from .ledger import Event, file_of, follow
from .screen import Screen
from .worker import Worker, WorkerDied

__all__ = ["Stage", "WorkerDied", "place"]

T = TypeVar("T")

DATABASE = "agents.db"
LOOK = 0.02  # seconds between two looks at the ledger
PATIENCE = 120.0  # seconds without any news before a demo gives up


@contextlib.contextmanager
def place(keep: Path | None) -> Iterator[Path]:
    """The folder of a demo: `keep`, which then must not hold one already, or one that goes away."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="perdure-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    folder = keep.resolve()
    if (folder / DATABASE).exists():
        raise FileExistsError(f"{keep} holds a demo already: name another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


class Stage:
    """One demo in one folder: its database, its worker, its ledger."""

    def __init__(self, screen: Screen, folder: Path, module: str, environment: Mapping[str, str] | None = None) -> None:
        self.url = f"sqlite:///{(folder / DATABASE).as_posix()}"
        self.screen = screen
        self.events: list[Event] = []
        self.kills: list[float] = []
        self.restarts: list[float] = []  # for each kill, the seconds from the new process to its first act
        self._folder, self._module, self._environment = folder, module, environment
        self._news = follow(file_of(folder))
        self._worker: Worker | None = None
        self._started = 0.0

    def start_worker(self) -> None:
        """Start the worker, the first or the next."""
        self._started = time.time()
        self._worker = Worker(self._module, self.url, self._folder, self._environment)
        self.screen.line("worker", f"process {self._worker.process} {'started again' if self.kills else 'started'}")

    def kill_worker(self, when: str) -> None:
        """Kill the worker, and say `when`."""
        assert self._worker is not None
        end = self._worker.kill()
        self.kills.append(time.time())
        how = "TerminateProcess" if sys.platform == "win32" else "SIGKILL"
        self.screen.line("KILLED", f"process {self._worker.process} by {how} ({end}), {when}", "bold red")

    def stop_worker(self) -> None:
        """Let the last worker go."""
        if self._worker is not None:
            self._worker.stop()

    async def until(self, what: Awaitable[T]) -> T:
        """Wait for something outside of the ledger, showing the news meanwhile."""
        waited = asyncio.ensure_future(what)
        try:
            while not waited.done():
                await self._glance()
            while await self._glance():
                pass
        finally:
            waited.cancel()
        return waited.result()

    async def until_asked(self, app: App, run: str) -> None:
        """Wait until the run asks a person."""
        while not await _open(app, run):
            await self._glance()

    async def answer(self, app: App, run: str) -> bool:
        """Show the run's open ask and answer it: the person at the terminal, or, without one, the demo itself."""
        [question] = await _open(app, run)
        self.screen.line("ask", question.question, "bold yellow")
        self.screen.line("", "The agent waits for a person. It could wait for a week and hold nothing.")
        answer = await self.screen.confirm(question.question)
        if answer is None:
            self.screen.line("answer", "yes, says the demo: there is no terminal to ask at")
        await app.answer(question.id, answer is not False, by="demo")
        return answer is not False

    async def next(self) -> Event:
        """The next event of the ledger, shown."""
        patience = time.monotonic() + PATIENCE
        while (event := await self._glance()) is None:
            if time.monotonic() > patience:
                raise WorkerDied(f"no news for {PATIENCE:.0f} s; see {self._folder / 'worker.log'}")
        return event

    async def _glance(self) -> Event | None:
        """Show what is new, if anything is."""
        event = next(self._news)
        if event is None:
            if self._worker is not None:
                self._worker.check()
            await asyncio.sleep(LOOK)
            return None
        self.events.append(event)
        if len(self.restarts) < len(self.kills) and event.at > self._started > self.kills[-1]:
            self.restarts.append(event.at - self._started)
        self._show(event)
        return event

    def _show(self, event: Event) -> None:
        if event.what == "asked":
            self.screen.open(event.step)
            if event.attempt > 1:
                self.screen.stream(f"(attempt {event.attempt}) ")
        elif event.what == "token":
            self.screen.stream(event.text)
        elif event.what == "published":
            self.screen.line(event.step, f"created {event.text}", "green")
        elif event.what in {"read", "searched"}:
            self.screen.line(event.step, event.text)


async def _open(app: App, run: str) -> list[OpenPromise]:
    return [question for question in (await app.inbox()).items if question.run == run]
