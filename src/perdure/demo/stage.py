"""The stage: what every demo's story needs, one worker at a time, the news from the ledger, and the moments of the kills.

A story (`conductor.py`, and the larger one in `examples/research`) starts and kills the worker here and waits for what
is to happen next; everything that happens meanwhile is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from perdure import AlreadyResolved, App, Handle, OpenPromise

from .ledger import Event, file_of, follow
from .screen import Screen
from .worker import Worker, WorkerDied

__all__ = ["Stage", "WorkerDied", "look_into", "perform", "place", "recorded_steps"]

T = TypeVar("T")

DATABASE = "agents.db"
LOOK = 0.02  # seconds between two looks at the ledger
PATIENCE = 60.0  # seconds without any news before a demo gives up


def look_into(run: str, keep: Path) -> str:
    """The command that shows the journal of the demo in `keep`."""
    return f"perdure runs show {run} --db sqlite:///{(keep / DATABASE).as_posix()}"


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


def perform(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end; told to end by the system, it first stops its worker, as after Ctrl-C."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    logging.getLogger("perdure").setLevel(logging.ERROR)  # that a worker died is the story, not a warning
    return asyncio.run(story)


class Stage:
    """One demo in one folder: its database, its worker, its ledger."""

    def __init__(self, screen: Screen, folder: Path, module: str, environment: Mapping[str, str] | None = None) -> None:
        self.url = f"sqlite:///{(folder / DATABASE).as_posix()}"
        self.screen = screen
        self.events: list[Event] = []
        self.kills: list[float] = []
        self.restarts: list[float] = []  # for each kill, the seconds in which the next worker went on
        self._folder, self._module, self._environment = folder, module, environment
        self._news = follow(file_of(folder))
        self._worker: Worker | None = None
        self._over: asyncio.Future[Any] | None = None
        self._ready = 0.0  # since when the worker could go on: it is started, and its ask is answered

    def watch(self, handle: Handle[Any]) -> None:
        """Look out for an end of the run that is not in the script."""
        self._over = asyncio.ensure_future(handle.result())

    def start_worker(self) -> None:
        """Start the worker, the first one or the next."""
        self._ready = time.time()
        self._worker = Worker(self._module, self.url, self._folder, self._environment)
        self.screen.line("worker", f"process {self._worker.process} {'started again' if self.kills else 'started'}")

    def kill_worker(self, when: str) -> None:
        """Kill the worker, and say `when`."""
        assert self._worker is not None
        end = self._worker.kill()
        while self._hear():  # what it managed to say
            pass
        self.kills.append(time.time())
        how = "TerminateProcess" if sys.platform == "win32" else "SIGKILL"
        self.screen.line("KILLED", f"process {self._worker.process} by {how} ({end}), {when}", "bold red")

    async def show_journal(self, handle: Handle[Any]) -> None:
        """Say what a dead worker left: the steps that no other will run again."""
        names = Counter(await recorded_steps(handle))
        listed = ", ".join(name if times == 1 else f"{name} x{times}" for name, times in names.items())
        self.screen.line("journal", f"holds {listed}: not run again", "green")
        await self.screen.pause()

    def stop_worker(self) -> None:
        """Let the last worker go, and look out for nothing more."""
        if self._over is not None:
            self._over.cancel()
        if self._worker is not None:
            self._worker.stop()

    async def until(self, what: Awaitable[T]) -> T:
        """Wait for something outside of the ledger, showing the news meanwhile."""
        waited = asyncio.ensure_future(what)
        try:
            while not waited.done():
                await self._glance()
            while self._hear():
                pass
        finally:
            waited.cancel()
        return waited.result()

    async def until_asked(self, app: App, run: str) -> None:
        """Wait until the run asks a person."""
        while not await _open(app, run):
            self._must_go_on()
            await self._glance()

    async def answer(self, app: App, run: str) -> None:
        """Show the run's open ask and answer it: the person at the terminal, or, without one, the demo itself."""
        [question] = await _open(app, run)
        self.screen.line("ask", question.question, "bold yellow")
        self.screen.line("", "It can wait for a person for a week, and holds nothing.")
        answer = await self.screen.confirm(question.question)
        if answer is None:
            self.screen.line("answer", "yes, says the demo: there is no terminal to ask at")
        self._ready = time.time()
        try:
            await app.answer(question.id, answer is not False, by="demo")
        except AlreadyResolved:
            self.screen.line("answer", "somebody else was faster")

    async def next(self) -> Event:
        """The next event of the ledger, shown."""
        patience = time.monotonic() + PATIENCE
        while (event := await self._glance()) is None:
            self._must_go_on()
            if time.monotonic() > patience:
                raise WorkerDied(f"no news for {PATIENCE:.0f} s; see {self._folder / 'worker.log'}")
        return event

    def _must_go_on(self) -> None:
        """Raise what ended the run, if it has ended too early."""
        if self._over is not None and self._over.done():
            raise WorkerDied(f"the run ended too early, with {self._over.result()!r}")

    async def _glance(self) -> Event | None:
        """Show what is new; without anything new, look after the worker and wait a little."""
        event = self._hear()
        if event is None:
            if self._worker is not None:
                self._worker.check()
            await asyncio.sleep(LOOK)
        return event

    def _hear(self) -> Event | None:
        """Show what is new, if anything is."""
        event = next(self._news)
        if event is not None:
            self.events.append(event)
            if len(self.restarts) < len(self.kills) and self._ready > self.kills[-1]:
                self.restarts.append(event.at - self._ready)
            self._show(event)
        return event

    def _show(self, event: Event) -> None:
        if event.what == "asked":
            self.screen.open(event.step)
            if sum(each.what == "asked" and each.step == event.step for each in self.events) > 1:
                self.screen.stream("(again) ")
        elif event.what == "token":
            self.screen.stream(event.text)
        elif event.what == "published":
            self.screen.line(event.step, f"created {event.text}", "green")
        elif event.what in {"read", "searched"}:
            self.screen.line(event.step, event.text)


async def _open(app: App, run: str) -> list[OpenPromise]:
    return [question for question in (await app.inbox()).items if question.run == run]


async def recorded_steps(handle: Handle[Any]) -> list[str]:
    """The names of the steps whose outcome is in the run's journal, in order and without their modules."""
    keys = [entry.key for entry in await handle.history() if entry.kind == "step"]
    return [key.rpartition("/")[2].rpartition("#")[0].rpartition(".")[2] for key in keys]
