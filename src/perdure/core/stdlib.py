"""One implementation of the asyncio functions whose inner tasks differ between Python versions or depend on addresses.

`asyncio.wait_for` wraps its awaitable in a task on 3.11 and not on 3.12; `asyncio.as_completed` keeps bare coroutines in a
set, whose order is by address; `TaskGroup` loses cancellations before 3.13. A journal written on one version must replay on
another, so on a run's loop these are ours. They are dispatched on the running loop inside the functions' own code objects, so
that `from asyncio import wait_for`, done long before, is covered too. On every other loop the original runs.
"""

from __future__ import annotations

import asyncio
import sys
import types
from asyncio import events, futures, taskgroups, tasks
from collections import deque
from typing import TYPE_CHECKING, Any

from .loop import RunLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator

__all__ = ["install"]


async def _wait_for(awaitable: Any, timeout: float | None) -> Any:
    """`asyncio.wait_for` as Python 3.12 defines it: the awaitable runs in the caller's task."""
    if timeout is not None and timeout <= 0:
        future = asyncio.ensure_future(awaitable)
        if future.done():
            return future.result()
        future.cancel()
        await asyncio.wait([future])
        try:
            return future.result()
        except asyncio.CancelledError as error:
            raise TimeoutError from error
    loop = events.get_running_loop()
    scope = asyncio.timeout_at(None if timeout is None else loop.time() + timeout)
    scope.origin = "wait_for"  # type: ignore[attr-defined]  # the timer's key names where it comes from
    async with scope:
        return await awaitable


class _Completed:
    """What `asyncio.as_completed` gives: an iterator of awaitables, or (as on 3.13) an async iterator of futures."""

    def __init__(self, awaitables: Iterable[Any], timeout: float | None) -> None:
        # A dict keeps the caller's order and drops repeats, as the set in the standard library does without order.
        self._futures = [asyncio.ensure_future(each) for each in dict.fromkeys(awaitables)]
        self._open = len(self._futures)
        self._done: deque[asyncio.Future[Any] | None] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        loop = events.get_running_loop()
        self._timer = loop.call_later(timeout, self._release_all) if timeout is not None and self._futures else None
        self._expired = False
        for future in self._futures:
            future.add_done_callback(self._finished)

    def _release_all(self) -> None:
        self._expired = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _finished(self, future: asyncio.Future[Any]) -> None:
        self._open -= 1
        self._done.append(future)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        if not self._open and self._timer is not None:
            self._timer.cancel()

    async def _next(self) -> asyncio.Future[Any]:
        while not self._done:
            if self._expired:
                raise TimeoutError
            waiter: asyncio.Future[None] = events.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        future = self._done.popleft()
        assert future is not None
        return future

    async def _result(self) -> Any:
        return (await self._next()).result()

    def __iter__(self) -> Iterator[Coroutine[Any, Any, Any]]:
        for _ in self._futures:
            yield self._result()

    async def __aiter__(self) -> AsyncIterator[asyncio.Future[Any]]:
        for _ in range(len(self._futures)):
            yield await self._next()


def _cancel_again(task: asyncio.Task[Any]) -> None:
    if task.cancelling():
        task.uncancel()
        task.cancel()


async def _group_exit(self: Any, error: BaseException | None) -> None:
    """`TaskGroup.__aexit__` as Python 3.13 defines it: a cancellation from outside is not lost while the group cancels itself."""
    self._exiting = True
    outer = error if isinstance(error, asyncio.CancelledError) else None
    if error is not None and self._base_error is None and self._is_base_error(error):
        self._base_error = error
    if error is not None and not self._aborting:
        self._abort()
    while self._tasks:
        if self._on_completed_fut is None:
            self._on_completed_fut = self._loop.create_future()
        try:
            await self._on_completed_fut
        except asyncio.CancelledError as cancelled:
            if not self._aborting:
                outer = cancelled
                self._abort()
        self._on_completed_fut = None
    if self._base_error is not None:
        raise self._base_error
    parent = self._parent_task
    if self._parent_cancel_requested and parent.uncancel() == 0:
        outer = None
    if outer is not None and not self._errors:
        raise outer
    if error is not None and not isinstance(error, asyncio.CancelledError):
        self._errors.append(error)
    if self._errors:
        if parent.cancelling():
            # Asked for once more: it is delivered at the next await, unless whoever asked has taken it back by then. Not at
            # once, since before 3.13 what a task asks of itself cannot be taken back.
            self._loop.call_soon(_cancel_again, parent)
        errors, self._errors = self._errors, None
        raise BaseExceptionGroup("unhandled errors in a TaskGroup", errors) from None


def _number_gatherings() -> None:
    """Let what `asyncio.gather` gives hash by its creation, as all futures of a run do: programs put it into sets."""
    kind = tasks._GatheringFuture  # type: ignore[attr-defined]  # noqa: SLF001 - made by its class, not by the loop
    make, by_address = kind.__init__, kind.__hash__

    def init(self: Any, children: Any, *, loop: Any) -> None:
        if type(loop) is RunLoop:
            loop.created += 1
            self._perdure_number = loop.created
        make(self, children, loop=loop)

    def number(self: Any) -> int:
        return getattr(self, "_perdure_number", None) or by_address(self)  # type: ignore[no-any-return]

    kind.__init__, kind.__hash__ = init, number


def _dispatch_wait_for(original: Callable[..., Any]) -> Callable[..., Any]:
    async def wait_for(fut, timeout):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - the original's signature
        if _perdure_on_run():  # type: ignore[name-defined]  # noqa: F821 - a global of asyncio.tasks, see install()
            return await _perdure_wait_for(fut, timeout)  # type: ignore[name-defined]  # noqa: F821
        return await _perdure_original_wait_for(fut, timeout)  # type: ignore[name-defined]  # noqa: F821

    return wait_for


def _dispatch_as_completed(original: Callable[..., Any]) -> Callable[..., Any]:
    def as_completed(fs, *, timeout=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        if _perdure_on_run():  # type: ignore[name-defined]  # noqa: F821
            return _perdure_as_completed(fs, timeout)  # type: ignore[name-defined]  # noqa: F821
        return _perdure_original_as_completed(fs, timeout=timeout)  # type: ignore[name-defined]  # noqa: F821

    return as_completed


def _dispatch_aexit(original: Callable[..., Any]) -> Callable[..., Any]:
    async def __aexit__(self, et, exc, tb):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N807
        if _perdure_on_run():  # type: ignore[name-defined]  # noqa: F821
            return await _perdure_group_exit(self, exc)  # type: ignore[name-defined]  # noqa: F821
        return await _perdure_original___aexit__(self, et, exc, tb)  # type: ignore[name-defined]  # noqa: F821

    return __aexit__


def _dispatch_eager_task_factory(original: Callable[..., Any]) -> Callable[..., Any]:
    custom_task_constructor = None  # the original's closure has it, so this one must have it too

    def eager_task_factory(loop, coro, **options):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN202
        if _perdure_is_run(loop):  # type: ignore[name-defined]  # noqa: F821
            return loop.create_task(coro, **options)
        _ = custom_task_constructor
        return _perdure_original_eager_task_factory(loop, coro, **options)  # type: ignore[name-defined]  # noqa: F821

    return eager_task_factory


def _dispatch_wrap_future(original: Callable[..., Any]) -> Callable[..., Any]:
    def wrap_future(future, *, loop=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        _perdure_check(future)  # type: ignore[name-defined]  # noqa: F821 - a global of asyncio.futures, see install()
        return _perdure_original_wrap_future(future, loop=loop)  # type: ignore[name-defined]  # noqa: F821

    return wrap_future


def _dispatch_start(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(self):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        _perdure_note()  # type: ignore[name-defined]  # noqa: F821 - a global of threading, see install()
        return _perdure_original_start(self)  # type: ignore[name-defined]  # noqa: F821

    return start


def _is_run(loop: Any) -> bool:
    return type(loop) is RunLoop


def _on_run() -> bool:
    return type(events._get_running_loop()) is RunLoop  # noqa: SLF001 - must not raise outside of any loop


def _refuse_foreign(future: Any) -> None:
    """What a thread will bring cannot be waited for in a run, only in a step."""
    loop = events._get_running_loop()  # noqa: SLF001 - as above
    if type(loop) is RunLoop and not asyncio.isfuture(future):
        loop.refuse("asyncio.wrap_future()")


def _note_thread() -> None:
    loop = events._get_running_loop()  # noqa: SLF001 - as above
    if type(loop) is RunLoop:
        loop.thread_started()


def _replace(owner: Any, names: dict[str, Any], name: str, dispatch: Callable[..., Any], **added: Any) -> None:
    """Give a function other code, under which its old code is called as `_perdure_original_…`; names are its globals."""
    function = vars(owner)[name]
    original = types.FunctionType(function.__code__, names, name, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__
    names |= {f"_perdure_{each}": value for each, value in added.items()}
    names[f"_perdure_original_{name}"] = original
    function.__code__ = dispatch(function).__code__


def install() -> None:
    """Make these functions dispatch on the running loop. Doing it again does nothing."""
    names = vars(tasks)
    if "_perdure_on_run" in names:
        return
    _replace(tasks, names, "wait_for", _dispatch_wait_for, on_run=_on_run, wait_for=_wait_for)
    _replace(tasks, names, "as_completed", _dispatch_as_completed, as_completed=_Completed)
    _replace(asyncio.TaskGroup, vars(taskgroups), "__aexit__", _dispatch_aexit, on_run=_on_run, group_exit=_group_exit)
    if "eager_task_factory" in names:  # since 3.12; a run begins all its tasks later, as 3.11 does
        _replace(tasks, names, "eager_task_factory", _dispatch_eager_task_factory, is_run=_is_run)
    _replace(futures, vars(futures), "wrap_future", _dispatch_wrap_future, check=_refuse_foreign)
    threading = sys.modules["threading"]  # asyncio has it; only whether one is started is of interest here
    _replace(threading.Thread, vars(threading), "start", _dispatch_start, note=_note_thread)
    _number_gatherings()
