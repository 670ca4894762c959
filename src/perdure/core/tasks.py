"""The futures, tasks and timers of a run's loop: asyncio's own, hashed by creation number and with a place in the run."""

from __future__ import annotations

import asyncio
from asyncio import futures
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable

    from .loop import RunLoop
    from .scope import Scope

__all__ = ["RunFuture", "RunTask", "Timer", "origin_of"]


class RunFuture(asyncio.Future[Any]):
    """A future whose hash is its creation number in its loop."""

    __slots__ = ("number",)

    def __init__(self, *, loop: RunLoop) -> None:
        super().__init__(loop=loop)
        loop.created += 1
        self.number = loop.created

    def __hash__(self) -> int:
        return self.number


class RunTask(asyncio.Task[Any]):
    """A task with a place in the run's tree of tasks, and a hash that is its creation number among the tasks."""

    __slots__ = ("context", "number", "scope")

    def __init__(self, coro: Any, *, loop: RunLoop, name: str | None, context: contextvars.Context, scope: Scope) -> None:
        loop.tasks_created += 1
        self.number = loop.tasks_created
        self.scope = scope
        self.context = context
        super().__init__(coro, loop=loop, name=name or f"Task-{scope.path or 'main'}", context=context)

    def __hash__(self) -> int:
        return self.number


class Timer(asyncio.TimerHandle):
    """A timer that knows its key and its deadline in whole microseconds."""

    __slots__ = ("deadline", "key", "number")

    key: str
    deadline: int
    number: int

    def __lt__(self, other: Any) -> bool:
        return (self.deadline, self.number) < (other.deadline, other.number)


def origin_of(callback: Callable[..., Any]) -> str:
    """What made a timer, from its callback: the name under which its key is counted."""
    if callback is futures._set_result_unless_cancelled:  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio.sleep's callback has no public name
        return "sleep"
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Timeout):
        return getattr(owner, "origin", "timeout")
    if getattr(callback, "__qualname__", "") == "_release_waiter":
        return "wait"
    return "call_at"
