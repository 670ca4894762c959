"""One run of a workflow function, driven by its journal: feed an entry, get the operations that the code asked for meanwhile.

Theory of operation. `begin()` takes the `started` entry and starts the function on a fresh `RunLoop`. `feed()` takes one
further entry, resolves what it names, and drives the loop until it is idle. Live and replayed feeding are the same call:
whoever feeds decides whether an entry is an old one or one that was committed a moment ago. So what the code sees live is
what it sees on replay.

Operations that the code asks for stand in `operations` until an entry completes them; `take()` gives the new ones. During a
replay nobody takes: what is still open after the last entry was *held*, and only then is it started.

What each kind of entry does is in `core.feeding`.

Pure and synchronous: no I/O, no clock, no randomness. Values arrive as JSON bytes, already fetched and unpacked.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from typing import TYPE_CHECKING, Any

from .codec import describe_arguments, encode_error, natural_encode
from .entry import Kind
from .errors import NotRestorable, NotStorable, RunCancelled
from .feeding import FEEDERS, after_end
from .loop import RunFuture, RunLoop
from .mail import Mail
from .operation import ChildRequest, Operation, PromiseRequest, Wait
from .outcome import Drift, Ended

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from .definition import StepDefinition, WorkflowDefinition
    from .entry import Entry
    from .facts import RunFacts
    from .loop import RunTask, Timer

__all__ = ["Execution", "current"]


class Execution:
    """One run, from its journal to now."""

    def __init__(
        self, definition: WorkflowDefinition, facts: RunFacts, *, on_foreign: Callable[[], None] | None = None
    ) -> None:
        self.definition = definition
        self.facts = facts
        self.loop = RunLoop(on_foreign=on_foreign)  # type: ignore[abstract]  # its refusals are set by a loop over their names
        self.loop.execution = self
        self.loop.armed = self._timer_armed  # type: ignore[method-assign]
        self.loop.abandon_timer = self._timer_abandoned
        self.seed = b""
        self.started_at = 0
        self.replaying = True  # recorded entries are being fed: logs are silent
        self.at_end = False  # the last recorded entry is being fed, or was: what comes now is new
        self.operations: dict[str, Operation] = {}
        self.commands: dict[str, Operation] = {}  # those of them that are commands, in the order in which they were issued
        self.timers: dict[str, Timer] = {}
        self.waits: dict[str, Wait] = {}
        self.drifts: list[Drift] = []
        self.mail: deque[Mail] = deque()
        self.receivers: list[tuple[frozenset[str], RunFuture]] = []
        self.ending = ""  # cancel | deadline | timeout: what was delivered as CancelledError
        self.ended: Ended | None = None
        self.dropped: list[str] = []  # keys of steps that the code no longer waits for
        self.orphans: list[str] = []  # ids of attached children nobody waits for any more
        self.patches: dict[str, bool] = {}
        self.patches_recorded: frozenset[str] = frozenset()
        self._issued: list[Operation] = []
        self.abandoned: set[str] = set()
        self._main: RunTask | None = None

    # ── feeding ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, entry: Entry) -> None:
        """Start the function. `entry` is the journal's first, which holds the seed."""
        note = entry.note
        assert entry.kind == Kind.STARTED and note is not None
        self.loop.now = self.started_at = entry.time
        self.seed = note.seed
        args, kwargs = self.definition.arguments.decode(self.facts.input)
        self._main = self.loop.start(self._body(args, kwargs))
        self._drive()

    async def _body(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await self.definition.fn(*args, **kwargs)

    def feed(self, entry: Entry) -> None:
        """Complete what the entry names and run the code until it is idle.

        Raises `Diverged`, `NotRestorable`, `Refused` or `Spinning`; the execution must then be dropped.
        """
        if entry.time > self.loop.now:
            self.loop.now = entry.time
        if self.ended is not None:
            after_end(self, entry)
            return
        try:
            FEEDERS[entry.kind](self, entry)
        except NotRestorable as error:
            error.run, error.step = self.facts.id, entry.key
            raise
        self._drive()

    def _drive(self) -> None:
        self.loop.drive()
        if self.loop.refusal is not None:
            raise self.loop.refusal
        main = self._main
        if main is not None and main.done() and self.ended is None:
            self.ended = self._outcome(main)

    def _outcome(self, main: RunTask) -> Ended:
        error: BaseException | None = None
        if main.cancelled():
            error = RunCancelled("the run was cancelled", run=self.facts.id)
        else:
            error = main.exception()
        if self.ending == "cancel" or (main.cancelled() and not self.ending):
            return Ended("cancelled", encode_error(RunCancelled("the run was cancelled", run=self.facts.id)))
        if self.ending and (main.cancelled() or error is None):
            return Ended("failed", encode_error(TimeoutError(f"the run's {self.ending} was reached")))
        if error is not None:
            return Ended("failed", encode_error(error))
        try:
            return Ended("succeeded", self.definition.schema.encode(main.result(), where=f"result of {self.definition.name}"))
        except Exception as problem:  # noqa: BLE001 - whatever a value's own code raises: the result cannot be stored
            if isinstance(problem, NotStorable):
                problem.run = self.facts.id
            return Ended("failed", encode_error(problem))

    def end(self, why: str) -> None:
        """Deliver the end of the run to its code: as `CancelledError`, in its main task and from every open promise."""
        if self.ending or self._main is None:
            return
        self.ending = why
        self._main.cancel()
        for wait in self.open_promises():
            timer = self.timers.pop(wait.key, None)
            if timer is not None:
                timer.cancel()
            wait.resolve(None, asyncio.CancelledError())

    def open_promises(self) -> list[Wait]:
        """The promises and asks that have no outcome yet."""
        return [wait for wait in self.waits.values() if wait.kind is Kind.RESOLVED and not wait.done]

    # ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def step(self, call: Any) -> Iterator[Any]:
        """Ask for a step. `call` has `definition`, `args`, `kwargs`, `bound` and `key`."""
        if self.loop.dead:
            return self.never()
        definition: StepDefinition = call.definition
        scope = self.loop.scope()
        operation = Operation(self, Kind.STEP, scope.key(definition.name, call.key), definition.name, call)
        if definition.aliases:
            operation.other_keys = tuple(scope.key(alias, call.key) for alias in definition.aliases)
            for key in operation.other_keys:
                self.operations[key] = operation
        operation.arguments, operation.digest = describe_arguments(call.args, call.kwargs)
        if definition.identity is not None:
            operation.digest = self._identity(operation)
        if not definition.record_args:
            operation.arguments = b""
        operation.context = contextvars.copy_context()
        self._issue(operation)
        return operation.__await__()

    def _identity(self, operation: Operation) -> bytes:
        """The digest of what `identity=` picks. What cannot be stored is shown elsewhere; here it would compare as nothing."""
        call = operation.request
        chosen = call.definition.identity(*call.args, **call.kwargs)
        try:
            natural_encode(chosen, where=f"identity of step {operation.name}", root="identity")
        except NotStorable as error:
            error.run, error.step = self.facts.id, operation.key
            raise
        return describe_arguments((chosen,), {})[1]

    def command(self, kind: Kind, name: str, request: Any, *, describe: tuple[Any, ...] = (), key: str = "") -> Operation:
        """Ask for a command: a change outside, recorded together with it."""
        operation = Operation(self, kind, key or self.loop.scope().key(name), name, request)
        operation.arguments, operation.digest = describe_arguments(describe, {})
        if not self.loop.dead:
            self._issue(operation)
            if kind is not Kind.PATCHED:  # a patch changes nothing outside: the code may come to ask for it elsewhere
                self.commands[operation.key] = operation
        return operation

    def promise(self, request: PromiseRequest, key: str, describe: tuple[Any, ...]) -> Wait:
        """Open a promise under a key made before (its id follows from the key)."""
        wait = Wait(self, Kind.RESOLVED, key, request.id)
        wait.value = request  # until it has its outcome
        self.waits[key] = wait
        if not self.loop.dead:
            self.command(Kind.OPENED, request.name, request, describe=describe, key=key)
            if request.deadline:
                self.loop.set_timer(request.deadline, "promise", _nothing, key=key)
        return wait

    def child(self, request: ChildRequest, key: str, describe: tuple[Any, ...]) -> tuple[Operation, Wait]:
        """Start a child run under a key made before (its id follows from the key)."""
        wait = Wait(self, Kind.CHILD_ENDED, key, request.id)
        wait.value = request
        self.waits[key] = wait
        return self.command(Kind.CHILD, request.workflow, request, describe=describe, key=key), wait

    def receive(self, names: frozenset[str]) -> Mail | RunFuture:
        """The oldest message of one of these names, or a future for the next one."""
        for index, mail in enumerate(self.mail):
            if mail.name in names:
                del self.mail[index]
                return mail
        waiter = self.loop.create_future()
        self.receivers.append((names, waiter))
        return waiter

    def forget(self, waiter: RunFuture) -> None:
        """A receiver stopped waiting."""
        self.receivers = [each for each in self.receivers if each[1] is not waiter]

    def patched(self, change: str) -> bool:
        """Whether this run takes the changed path: decided once, when it is first asked, and recorded if so."""
        if change not in self.patches:
            recorded = change in self.patches_recorded
            taken = recorded or self.at_end
            self.patches[change] = taken
            if taken and not self.loop.dead:
                self.command(Kind.PATCHED, change, None, key=change)
        return self.patches[change]

    def never(self) -> Generator[Any, None, Any]:
        """Yield for ever: what a verb does in a dropped run, where nothing may happen and nothing may be raised."""
        while True:
            yield RunFuture(loop=self.loop)

    def _issue(self, operation: Operation) -> None:
        self.operations[operation.key] = operation
        self.loop.operations += 1
        self._issued.append(operation)

    def complete(self, operation: Operation) -> None:
        """An operation is asked for no more."""
        self.operations.pop(operation.key, None)
        self.commands.pop(operation.key, None)
        for key in operation.other_keys:
            self.operations.pop(key, None)

    def abandon(self, operation: Operation) -> None:
        """The code no longer waits for an operation: its outcome, should it still come, only moves time."""
        if self.loop.dead or operation.kind is not Kind.STEP:
            return
        self.abandoned.add(operation.key)
        self.dropped.append(operation.key)
        self.complete(operation)

    def abandon_child(self, start: Operation, wait: Wait) -> None:
        """The code no longer waits for an attached child that it awaited directly: it is to be cancelled.

        One whose start is not even recorded is not started: a start that was issued before this drive of the loop is.
        """
        if self.loop.dead or wait.done:
            return
        if start.key in self.operations:
            self.abandoned.add(start.key)
            self.complete(start)
        else:
            self.orphans.append(wait.id)

    # ── timers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _timer_armed(self, timer: Timer) -> None:
        self.timers[timer.key] = timer

    def _timer_abandoned(self, timer: Timer) -> None:
        if self.timers.get(timer.key) is timer:
            del self.timers[timer.key]
            self.abandoned.add(timer.key)

    def next_timer(self) -> Timer | None:
        """The timer that is due first."""
        return self.loop.next_timer()

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> list[Operation]:
        """The operations asked for since the last call that still stand."""
        issued, self._issued = self._issued, []
        return [operation for operation in issued if operation.key in self.operations]

    def keep_asked(self, keys: set[str]) -> None:
        """Forget that operations were asked for, other than these: somebody has them already."""
        self._issued = [operation for operation in self._issued if operation.key in keys]

    @property
    def stuck(self) -> bool:
        """Whether the code waits for something that nothing can ever bring."""
        if self.ended is not None or self.operations or self.timers or self.receivers:
            return False
        return not any(wait.waiters for wait in self.waits.values() if not wait.done)

    def where(self) -> str:
        """Where the code stands: `file:line in function` of the innermost frame of the user's in each unfinished task."""
        places = (_place(task.get_coro()) for task in self.loop.unfinished())
        return "; ".join(list(dict.fromkeys(place for place in places if place))[:5])

    def drop(self) -> list[str]:
        """Close everything; answer with the names of tasks that resist."""
        if self.ended is not None:
            self.loop.tell_unretrieved()
        resisting = self.loop.drop()
        self.operations.clear()
        self.commands.clear()
        self.timers.clear()
        self.waits.clear()
        self.receivers.clear()
        self._issued.clear()
        return resisting


def _place(waiting: Any) -> str:
    """The innermost frame of the user's in a chain of awaits. A suspended task's own stack has its outermost frame only."""
    place = ""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None) or getattr(waiting, "ag_frame", None)
        if frame is not None and not frame.f_globals.get("__name__", "").startswith(("perdure.", "asyncio")):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        waiting = (
            getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None) or getattr(waiting, "ag_await", None)
        )
    return place


def _nothing() -> None:
    """What a promise's timer calls: its entry does the work."""


def current() -> Execution | None:
    """The execution whose code is running now, or None outside of any run."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - must not raise outside of any loop
    return loop.execution if type(loop) is RunLoop else None
