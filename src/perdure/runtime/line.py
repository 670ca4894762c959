"""Lines: one thread each, on which the store's blocking verbs run one after another, off the event loop.

A line is given plain functions; the runtime does not care on which thread they run. `InlineLine` runs them at once, for
tests and simulations that want no threads.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InlineLine", "Line", "ThreadLine", "call"]

T = TypeVar("T")


class Line(Protocol):
    """Runs functions one at a time, in order."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work`; then call `done(result, error)` on the loop's thread. May be called from any thread."""
        ...

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        ...


class ThreadLine:
    """A line with a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work`, then report to `done`."""
        self._work.put((work, done))

    def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        self._work.put(None)
        self._thread.join(timeout=60)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            result, error = None, None
            try:
                result = work()
            except BaseException as problem:  # noqa: BLE001 - handed to whoever asked; this thread must not die
                error = problem
            try:
                self._loop.call_soon_threadsafe(done, result, error)
            except RuntimeError:  # the loop is closed: nobody is left to be told
                return
            item = work = done = result = error = None


class InlineLine:
    """A line that runs its work at once, on the caller's thread, and reports through the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work`, then report to `done`."""
        result, error = None, None
        try:
            result = work()
        except BaseException as problem:  # noqa: BLE001 - as above
            error = problem
        self._loop.call_soon(done, result, error)

    def close(self) -> None:
        """Nothing to stop."""


async def call(line: Line, work: Callable[[], T]) -> T:
    """Run `work` on a line and wait for its result."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(result: T, error: BaseException | None) -> None:
        if future.done():  # whoever waited was cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    line.submit(work, done)
    return await future
