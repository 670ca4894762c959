"""Closing the coroutines of a dropped run, explicitly and in order, so that nothing of it is left to the collector.

A coroutine that awaits while it unwinds is closed again, a bounded number of times. One that still resists is kept for good:
the interpreter would complain of it, and run its `finally` blocks at a moment of its own.

This module closes; which task, and when, its loop decides.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from .tasks import RunTask

__all__ = ["close_generator", "close_task", "release_generator"]

PATIENCE = 100
"""How often the parts of one task may await again while they are closed."""

_kept: list[Any] = []
_READING = ("async_generator_asend", "async_generator_athrow")


def close_task(loop: asyncio.AbstractEventLoop, task: RunTask) -> bool:
    """Close a task's coroutine; false if it resists, and is kept."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - dropping it pending is the point
    # It unwinds where it ran: in its context, and as the current task, which timeouts and groups ask for.
    asyncio.tasks._enter_task(loop, task)  # noqa: SLF001 - documented for those who write tasks of their own
    try:
        closed = task.context.run(_unwind, task.get_coro())
    finally:
        asyncio.tasks._leave_task(loop, task)  # noqa: SLF001
    if not closed:
        _kept.append(task)
    return closed


def close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """Close an async generator that nobody reads any more."""
    closing = generator.aclose()
    try:
        closing.send(None)
    except BaseException:  # noqa: BLE001 - a finally block of dropped code failed: nobody is there to be told
        return
    _unwind(closing)
    if generator.ag_frame is not None:  # type: ignore[attr-defined]  # the protocol does not name it
        _kept.append(generator)


def release_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """An async generator goes without having been closed.

    Its frame goes without unwinding; but what it awaits would unwind in the middle of that, and complain if it awaits again.
    """
    if not _unwind(getattr(generator, "ag_await", None)):
        _kept.append(generator)


def _unwind(awaited: Any, patience: Iterator[int] | None = None) -> bool:
    """Close a coroutine, or whatever else can be awaited; false if it resists.

    The innermost goes first, each as often as it awaits again while it unwinds. Closing only the outermost would give each of
    the others one chance, and have the interpreter complain of those that need more.
    """
    close = _closing(awaited)
    if close is None:
        return True
    if patience is None:
        patience = iter(range(PATIENCE))
    for _ in patience:
        if not _unwind(_awaited_by(awaited), patience):
            return False
        try:
            close()
        except RuntimeError:  # it awaits again
            continue
        except BaseException:  # noqa: BLE001 - as above
            return True
        return True
    return False


def _generator_of(reading: Any) -> Any:
    """The async generator that is read: only the collector knows."""
    return next((each for each in gc.get_referents(reading) if inspect.isasyncgen(each)), None)


def _awaited_by(awaiting: Any) -> Any:
    if type(awaiting).__name__ in _READING:
        awaiting = _generator_of(awaiting)
    for name in ("cr_await", "ag_await", "gi_yieldfrom"):
        if hasattr(awaiting, name):
            return getattr(awaiting, name)
    return None


def _closing(awaited: Any) -> Callable[[], Any] | None:
    if type(awaited).__name__ not in _READING:
        return getattr(awaited, "close", None)

    def close() -> None:  # before 3.13 its own `close` does not reach into the generator
        if _generator_of(awaited) is None:
            return
        try:
            awaited.throw(GeneratorExit())
        except BaseException:  # noqa: BLE001 - it is closed; how does not matter
            return
        raise RuntimeError("async generator ignored GeneratorExit")

    return close
