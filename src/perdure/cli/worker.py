"""`perdure worker`: host a worker in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from typing import Any

import click

from perdure import __version__
from perdure.app import App
from perdure.core.duration import microseconds, show
from perdure.core.errors import PerdureError
from perdure.location import DEFAULT_URL
from perdure.runtime.worker import Worker

from .arguments import Length
from .commands import INTERRUPTED
from .live import Live
from .loading import Loaded, load
from .screen import Screen, counted

__all__ = ["worker"]

GRACE = 1.0
"""Seconds for what is left over after the worker has stopped; then the process ends regardless."""


@click.command()
@click.argument("target", metavar="pkg.mod[:app] | file.py")
@click.option(
    "--db", "url", metavar="URL", help=f"The store. Default: that of the App found, else $PERDURE_URL, else {DEFAULT_URL}."
)
@click.option("--drain", type=Length(), help="How long steps may go on when it is told to stop. Default: the App's, else 30s.")
@click.option(
    "--log",
    "level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What is logged to standard error; a program that sets up logging itself is left alone.",
)
def worker(target: str, url: str | None, drain: str | None, level: str) -> None:
    """Run workflows until SIGINT (Ctrl-C) or SIGTERM.

    The module is imported; its App is used if it has one (say which, as pkg.mod:app, if it has several), else one is made of all
    workflows that are defined. A file is imported under its own name, so that its runs go on however it is started.

    Told to stop, it claims nothing more, lets steps finish, and hands its runs back; told twice, it stops at once. Either way no
    run is lost: it goes on where it was when a worker is there again. A stop is exit code 0, a second one 130.
    """
    screen = Screen()
    loaded = load(target)
    _set_up_logging(level)
    hosted = _Hosted(screen, loaded, target, url, drain)
    code = asyncio.run(hosted.run())
    click.get_current_context().exit(code)


class _Hosted:
    """One hosted worker, from opening to its end."""

    def __init__(self, screen: Screen, loaded: Loaded, target: str, url: str | None, drain: str | None) -> None:
        self._screen = screen
        self._loaded = loaded
        self._target = target
        self._url = url
        self._drain = drain
        self._app: App | None = None
        self._worker: Worker | None = None  # the one that was told to stop: an App that closes forgets it
        self._signals = 0
        self._stop = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Host it until it is told to stop; the exit code."""
        self._listen()
        app = self._app = await self._open()
        live = Live(self._screen, app)
        self._greet(app)
        watching = asyncio.create_task(self._watch(live))
        await self._stop.wait()
        await self._close(app, live, watching)
        await _leave_nothing(self._code)
        return self._code

    async def _open(self) -> App:
        app = self._loaded.app
        if app is not None and self._url is not None:
            app.url = self._url
        if app is None:
            app = App(self._url)
        await app.open()
        if app.worker is None:  # an App that only starts runs where it was made: here its store gets a worker
            await app.close()
            app = App(app.url)
            await app.open()
        return app

    async def _watch(self, live: Live) -> None:
        while True:
            try:
                await live.watch()
            except PerdureError as error:  # what is shown must not stop what runs
                self._screen.error(error)
                await asyncio.sleep(5)

    # ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._signalled)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._signalled))

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals == 1:
            self._worker = self._app.worker if self._app is not None else None
            self._screen.say(f"stopping: steps may finish{self._bound()}; once more stops at once", style="yellow")
        elif self._signals == 2:
            self._screen.say("stopping at once: steps under way are left and will run again", style="yellow")
            self._code = INTERRUPTED
            if self._worker is not None:
                self._worker.stop_at_once()
        else:
            _end_now(INTERRUPTED)
        self._stop.set()

    def _bound(self) -> str:
        return f" within {show(microseconds(self._drain))}" if self._drain is not None else ""

    async def _close(self, app: App, live: Live, watching: asyncio.Task[None]) -> None:
        hosted = app.worker
        if hosted is not None and self._drain is not None:
            await hosted.drain(microseconds(self._drain, "--drain"))
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        left = 0
        if hosted is not None:
            with contextlib.suppress(PerdureError):
                await live.look()
            left = len(hosted.drivers)
        await app.close()
        self._screen.say("stopped" + (f"; what it had goes on in the next worker: {counted(left, 'run')}" if left else ""))

    # ── greeting ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _greet(self, app: App) -> None:
        names = sorted(app.definitions.names())
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        hosted = app.worker
        self._screen.say(f"perdure {__version__}, worker {hosted.number if hosted is not None else ''}", style="bold")
        self._screen.fields(
            [
                ("store", app.url),
                ("code", f"{self._target} (build {app.gate.process.build})"),
                ("workflows", shown),
                ("stop", f"Ctrl-C, or kill {os.getpid()}"),
            ]
        )


def _set_up_logging(level: str) -> None:
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_Format())
    handler.addFilter(
        lambda record: not (record.name == "perdure.run" and record.msg.startswith("run is blocked"))
    )  # shown live
    root.addHandler(handler)
    root.setLevel(level.upper())


class _Format(logging.Formatter):
    """One line: time, level, where (run, step), what."""

    def __init__(self) -> None:
        super().__init__("{asctime}  {levelname:<9}  {place}{message}", "%H:%M:%S", style="{")

    def format(self, record: logging.LogRecord) -> str:
        fields = ((word, getattr(record, word, "")) for word in ("run", "step"))
        place = " ".join(f"{word} {value}" for word, value in fields if value)
        record.place = f"[{place}] " if place else ""
        record.levelname = record.levelname.lower()
        return super().format(record)


async def _leave_nothing(code: int) -> None:
    """End the process now if anything is left that would keep it: a step in a thread, a task that resists."""
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    pending: set[asyncio.Task[Any]] = set()
    if rest:
        _, pending = await asyncio.wait(rest, timeout=GRACE)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("perdure-step")]
    for thread in threads:
        thread.join(GRACE / max(1, len(threads)))
    if pending or any(thread.is_alive() for thread in threads):
        _end_now(code)


def _end_now(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
