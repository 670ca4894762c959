"""A deterministic asyncio event loop for one run.

Theory of operation. Workflow code is ordinary asyncio code, so it needs an event loop; but everything that reaches it must
come out of its journal. This loop therefore has a ready queue and a heap of timers and nothing else: no selector, no
threads, no clock. `drive()` runs callbacks until none is ready; time moves only when somebody sets `now`.

Three things make it deterministic beyond that:

* tasks and futures hash by creation number, because asyncio keeps them in sets and iterates those;
* every timer gets a key from where it was made (task path, origin, count), so a recorded firing finds it again;
* the collector does not run during `drive()`, so no finaliser runs user code at a random moment.

Real I/O, executors and foreign threads are *refused*: the call raises and the refusal is kept, so that the run stops even
if a framework swallows the error. This module may not import anything above `core.scope`.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import sys
import threading
from asyncio import events
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, TypeVarTuple

from .closing import close_generator, close_task, release_generator
from .errors import Refused, Spinning
from .scope import Scope
from .tasks import RunFuture, RunTask, Timer, origin_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

Ts = TypeVarTuple("Ts")

__all__ = ["RunFuture", "RunLoop", "RunTask", "Timer"]

CALLBACKS_PER_DRIVE = 200_000
CALLBACKS_PER_OPERATION = 20


class RunLoop(asyncio.AbstractEventLoop):
    """The event loop of one run. Its owner sets `now`, calls `drive()` and asks for `next_timer()`."""

    def __init__(self, *, on_foreign: Callable[[], None] | None = None) -> None:
        self.now = 0  # µs since the epoch
        self.created = 0  # futures and timers so far
        self.tasks_created = 0  # counted apart: how many futures asyncio makes inside differs between Python versions
        self.operations = 0  # raised by the execution: each allows some more callbacks per drive
        self.root = Scope("")
        self.outside = Scope("~")  # operations issued by callbacks that belong to no task
        self.dead = False
        self.execution: Any = None  # the run that this loop belongs to
        self.refusal: Refused | None = None
        self.thread: Refused | None = None  # says where workflow code started a thread: to be told if it waits for it
        self.unhandled: Callable[[dict[str, Any]], None] | None = None
        self.abandon_timer: Callable[[Timer], None] = lambda timer: None
        self._ready: deque[asyncio.Handle] = deque()
        self._heap: list[Timer] = []
        self._tasks: list[RunTask] = []
        self._prune_at = 64
        self._driving = False
        self._thread = threading.get_ident()
        self._on_foreign = on_foreign
        self._generators: list[AsyncGenerator[Any, Any]] = []

    # ── driving ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def drive(self) -> None:
        """Run callbacks until none is ready.

        Raises `Spinning` when the code keeps itself busy without waiting for anything recorded.
        """
        ready = self._ready
        if not ready:
            return
        previous_loop = events._get_running_loop()  # noqa: SLF001 - documented for loop implementers
        previous_hooks = sys.get_asyncgen_hooks()
        collecting = gc.isenabled()
        gc.disable()
        self._driving = True
        events._set_running_loop(self)  # noqa: SLF001
        # Both hooks: with the outer loop's `firstiter` it would keep the run's generators and close them in the end.
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._generator_dropped)
        try:
            count = 0
            while ready:
                handle = ready.popleft()
                if not handle._cancelled:  # noqa: SLF001 - as every event loop does
                    try:
                        handle._run()  # noqa: SLF001
                    except SystemExit:
                        pass  # the task that raised it carries it: one run may not end the process
                count += 1
                if count > CALLBACKS_PER_DRIVE and count > self.operations * CALLBACKS_PER_OPERATION:
                    raise Spinning(
                        f"workflow code ran {count} callbacks without waiting for anything recorded",
                        hint="look for a loop around something that is always ready, such as asyncio.sleep(0)",
                    )
        finally:
            sys.set_asyncgen_hooks(*previous_hooks)
            events._set_running_loop(previous_loop)  # noqa: SLF001
            self._driving = False
            if collecting:
                gc.enable()

    def start(self, coro: Coroutine[Any, Any, Any]) -> RunTask:
        """Make the root task, in an empty context: recovery has no caller, so neither may a first start."""
        task = RunTask(coro, loop=self, name="main", context=contextvars.Context(), scope=self.root)
        self._tasks.append(task)
        return task

    def scope(self) -> Scope:
        """The scope of the code that is running now."""
        task = asyncio.current_task(self)
        return task.scope if isinstance(task, RunTask) else self.outside

    def unfinished(self) -> list[RunTask]:
        """The tasks that are not done, oldest first."""
        return [task for task in self._tasks if not task.done()]

    def tell_unretrieved(self) -> None:
        """Tell of errors in tasks that nobody has awaited. To be called when nobody can any more: at the run's end.

        The standard loops tell when such a task is collected; but this one holds its tasks until it is dropped.
        """
        for task in self._tasks:
            if task.done() and task._log_traceback:  # noqa: SLF001 - asyncio's own mark
                task._log_traceback = False  # noqa: SLF001
                self.call_exception_handler(
                    {
                        "message": f"an error in {task.get_name()} was never awaited by workflow code",
                        "exception": task.exception(),
                    }
                )

    def drop(self) -> list[str]:
        """Close every coroutine of the run, newest first; answer with the names of those that resist.

        Called on eviction and at the end. The loop is dead from here on: a verb that a `finally` block awaits yields for
        ever instead of doing anything.
        """
        self.dead = True
        self._ready.clear()
        self._heap.clear()
        previous = events._get_running_loop()  # noqa: SLF001
        events._set_running_loop(self)  # noqa: SLF001
        resisting: list[str] = []
        try:
            while self._tasks:  # what unwinds may make further tasks: they are closed too, before they began
                task = self._tasks.pop()
                if not task.done() and not close_task(self, task):
                    resisting.append(task.get_name())
            for generator in reversed(self._generators):
                close_generator(generator)
        finally:
            events._set_running_loop(previous)  # noqa: SLF001
        self._generators.clear()
        return resisting

    # ── timers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def next_timer(self) -> Timer | None:
        """The timer that is due first, if any."""
        heap = self._heap
        while heap and heap[0].cancelled():
            heapq.heappop(heap)
        return heap[0] if heap else None

    def fire(self, timer: Timer) -> None:
        """Make a timer's callback ready. The caller then drives."""
        if self._heap and self._heap[0] is timer:
            heapq.heappop(self._heap)
        else:
            self._heap.remove(timer)
            heapq.heapify(self._heap)
        self._ready.append(timer)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Timer:
        return self.set_timer(round(when * 1_000_000), origin_of(callback), callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Timer:
        return self.set_timer(self.now + round(delay * 1_000_000), origin_of(callback), callback, *args, context=context)

    def set_timer(
        self,
        deadline: int,
        origin: str,
        callback: Any,
        *args: Any,
        context: contextvars.Context | None = None,
        key: str = "",
    ) -> Timer:
        """Arm a timer for an absolute time in µs, keyed by `origin` in the running task's scope if not by `key`."""
        timer = Timer(deadline / 1_000_000, callback, args, self, context)
        timer.deadline = deadline
        self.created += 1
        timer.number = self.created
        timer.key = key or self.scope().key(origin)
        if not self.dead:
            heapq.heappush(self._heap, timer)
            self.armed(timer)
        return timer

    def armed(self, timer: Timer) -> None:
        """Told of every timer that was armed; the execution overrides it."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, Timer):
            self.abandon_timer(handle)

    # ── what asyncio asks of a loop ─────────────────────────────────────────────────────────────────────────────────

    def time(self) -> float:
        return self.now / 1_000_000

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._driving and threading.get_ident() == self._thread:
            return self.call_soon(callback, *args, context=context)
        error = self._keep(self.thread or _refused("call_soon_threadsafe from another thread"))
        if self._on_foreign is not None and not self.dead:
            self._on_foreign()
        raise error

    def create_future(self) -> RunFuture:
        return RunFuture(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None, **options: Any
    ) -> RunTask:
        options.pop("eager_start", None)  # since 3.14; a run begins all its tasks later, on every Python
        if options:
            self.refuse(f"create_task({', '.join(options)})")
        parent = self.scope()
        context = contextvars.copy_context() if context is None else context
        task = RunTask(coro, loop=self, name=name, context=context, scope=parent.child())
        self._tasks.append(task)
        if len(self._tasks) > self._prune_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._prune_at = 2 * len(self._tasks) + 64
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.unhandled is not None and not self.dead:
            self.unhandled(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_exception_handler(self) -> None:
        return None

    def set_exception_handler(self, handler: Any) -> None:
        self.refuse("set_exception_handler")

    def get_task_factory(self) -> None:
        return None

    def set_task_factory(self, factory: Any) -> None:
        self.refuse("set_task_factory")

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Ignored: debugging would make replay depend on a flag."""

    def is_running(self) -> bool:
        return self._driving

    def is_closed(self) -> bool:
        return self.dead

    def close(self) -> None:
        self.refuse("close")

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: generators are closed when the run ends."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Nothing to do: there is no executor."""

    # ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────

    def refuse(self, call: str) -> NoReturn:
        """Keep and raise the error for a call that workflow code may not make."""
        raise self._keep(_refused(call))

    def thread_started(self) -> None:
        """Note that workflow code started a thread.

        That alone is harmless (libraries keep threads for logs and traces), so nothing is raised. But code that then waits for
        what only the thread can bring did what is refused, and this says where.
        """
        if self.thread is None and self._driving:
            self.thread = _refused("threading.Thread.start()")

    def _keep(self, error: Refused) -> Refused:
        if self.refusal is None and not self.dead:
            self.refusal = error
        return error

    # ── async generators ────────────────────────────────────────────────────────────────────────────────────────────

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        """A generator lost its last reference: close it now, at a fixed point. One met by the collector is kept."""
        if self.dead:
            release_generator(generator)
        elif self._driving:
            self.create_task(generator.aclose())
        else:
            self._generators.append(generator)


def _refused(call: str) -> Refused:
    where = _user_frame()
    return Refused(
        f"workflow code called {call}{f' at {where}' if where else ''}, which a replay could not repeat",
        hint="put it in a step: a function with @step may do any I/O and use threads",
    )


_PASSED_OVER = frozenset({"anyio", "asyncio", "concurrent", "contextlib", "threading"})


def _user_frame() -> str:
    """`file:line in function` of the innermost frame that is neither asyncio's nor perdure's."""
    frame = sys._getframe(2)  # noqa: SLF001 - the only way to the caller without building a whole traceback
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _PASSED_OVER and not module.startswith("perdure.core."):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return ""


def _refusing(name: str) -> Callable[..., Any]:
    def refused(self: RunLoop, *args: Any, **options: Any) -> NoReturn:
        self.refuse(f"loop.{name}()")

    refused.__name__ = name
    return refused


for _name in (
    "run_in_executor",
    "set_default_executor",
    "getaddrinfo",
    "getnameinfo",
    "create_connection",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "create_datagram_endpoint",
    "connect_accepted_socket",
    "start_tls",
    "sendfile",
    "connect_read_pipe",
    "connect_write_pipe",
    "subprocess_shell",
    "subprocess_exec",
    "add_reader",
    "remove_reader",
    "add_writer",
    "remove_writer",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendto",
    "sock_connect",
    "sock_accept",
    "sock_sendfile",
    "add_signal_handler",
    "remove_signal_handler",
    "run_forever",
    "run_until_complete",
    "stop",
):
    setattr(RunLoop, _name, _refusing(_name))
RunLoop.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
