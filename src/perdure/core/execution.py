"""One run of a workflow function, driven by its journal: feed an entry, get the operations that the code asked for meanwhile.

Theory of operation. `begin()` takes the `started` entry and starts the function on a fresh `RunLoop`. `feed()` takes one
further entry, resolves what it names, and drives the loop until it is idle. Live and replayed feeding are the same call:
whoever feeds decides whether an entry is an old one or one that was committed a moment ago. So what the code sees live is
what it sees on replay.

Operations that the code asks for stand in `operations` until an entry completes them; `take()` gives the new ones. During a
replay nobody takes: what is still open after the last entry was *held*, and only then is it started.

Rules of feeding:

1. An entry that names an open operation of its kind completes it.
2. One that names an operation that was asked for and abandoned, or that comes after the function's end, only moves time.
3. One that names nothing that was ever asked for, or another kind of thing, is divergence.
4. Commands and protected steps must agree with the recorded digest of their arguments; for other steps the recorded result
   stands and the difference is kept as drift.

Pure and synchronous: no I/O, no clock, no randomness. Values arrive as JSON bytes, already fetched and unpacked.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from typing import TYPE_CHECKING, Any

from .entry import Kind
from .errors import Diverged, NotRestorable, RunCancelled, StepError
from .loop import RunFuture, RunLoop
from .operation import ChildRequest, Operation, PromiseRequest, Wait
from .codec import decode_error, describe_arguments, encode_error

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from .definition import StepDefinition, WorkflowDefinition
    from .entry import Entry
    from .loop import RunTask, Timer

__all__ = ["Drift", "Ended", "Execution", "Mail", "RunFacts", "current"]


class RunFacts:
    """What code inside a run may know of it: handed in by whoever drives it."""

    __slots__ = ("identity", "id", "input", "link", "number", "tags", "workflow")

    def __init__(
        self, *, id: str, number: int, workflow: str, input: bytes, identity: bytes,
        tags: tuple[str, ...] = (), link: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        self.id = id
        self.number = number
        self.workflow = workflow
        self.input = input  # JSON of the arguments
        self.identity = identity  # unique per run number and database: seeds ids and idempotency keys
        self.tags = tags
        self.link = link  # the address at which a promise can be answered


class Mail:
    """A message as it came in: its value is still JSON, the receiver says what it should be."""

    __slots__ = ("at", "by", "data", "name", "uid")

    def __init__(self, name: str, data: bytes, by: str, uid: str, at: int) -> None:
        self.name, self.data, self.by, self.uid, self.at = name, data, by, uid, at


class Drift:
    """A step whose arguments differ from the recorded ones; its recorded result stands."""

    __slots__ = ("asked", "key", "recorded")

    def __init__(self, key: str, recorded: bytes, asked: bytes) -> None:
        self.key, self.recorded, self.asked = key, recorded, asked


class Ended:
    """How the function ended: `status` is succeeded, failed or cancelled; `data` is the JSON of its result or error."""

    __slots__ = ("data", "status")

    def __init__(self, status: str, data: bytes) -> None:
        self.status, self.data = status, data


class Execution:
    """One run, from its journal to now."""

    def __init__(self, definition: WorkflowDefinition, facts: RunFacts, *, on_foreign: Callable[[], None] | None = None) -> None:
        self.definition = definition
        self.facts = facts
        self.loop = RunLoop(on_foreign=on_foreign)
        self.loop.execution = self
        self.loop.armed = self._timer_armed  # type: ignore[method-assign]
        self.loop.abandon_timer = self._timer_abandoned
        self.seed = b""
        self.started_at = 0
        self.replaying = True  # recorded entries are being fed: logs are silent
        self.at_end = False  # the last recorded entry is being fed, or was: what comes now is new
        self.operations: dict[str, Operation] = {}
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
        self._abandoned: set[str] = set()
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
            return
        try:
            _FEEDERS[entry.kind](self, entry)
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
            return Ended("succeeded", self.definition.schema.encode(main.result(), where="result"))
        except Exception as problem:  # noqa: BLE001 - whatever a value's own code raises: the result cannot be stored
            return Ended("failed", encode_error(problem))

    def _operation(self, entry: Entry, kind: Kind) -> Operation | None:
        """The open operation that an entry names; None if it was abandoned."""
        operation = self.operations.get(entry.key)
        if operation is None:
            if entry.key in self._abandoned:
                return None
            raise self._diverged(entry, "the code never asked for it")
        if operation.kind is not kind:
            raise self._diverged(entry, f"the code asked for a {operation.kind} under this key")
        note = entry.note
        if note is not None and note.digest and operation.digest and note.digest != operation.digest:
            if kind is not Kind.STEP or operation.request.definition.protected:
                raise self._diverged(entry, "the code asked for it with other arguments", operation)
            if not self.drifts or self.drifts[-1].key != entry.key:
                self.drifts.append(Drift(entry.key, note.arguments, operation.arguments))
        return operation

    def _diverged(self, entry: Entry, reason: str, operation: Operation | None = None) -> Diverged:
        error = Diverged(
            f"the journal's entry {entry.sequence} is {entry.kind} {entry.key}, but {reason}",
            run=self.facts.id,
            step=entry.key,
            hint="roll the code back, guard the change with patched(), or name the old step in aliases=",
        )
        error.recorded = [f"{entry.sequence} {entry.kind} {entry.key} {_text(entry.note.arguments if entry.note else b'')}".rstrip()]
        open_now = [operation] if operation is not None else list(self.operations.values())
        error.asked = [f"{each.kind} {each.key} {_text(each.arguments)}".rstrip() for each in open_now]
        error.asked += [f"{Kind.TIMER} {key}" for key in self.timers]
        error.where = self.where()
        return error

    def _feed_step(self, entry: Entry) -> None:
        operation = self._operation(entry, Kind.STEP)
        if operation is None:
            return
        self._complete(operation)
        if operation.done():
            return
        if entry.failed:
            operation.set_exception(_catchable(decode_error(entry.value or b"")))
            return
        operation.set_result(operation.request.definition.schema.decode(entry.value or b"null"))

    def _feed_attempt(self, entry: Entry) -> None:
        operation = self._operation(entry, Kind.STEP)
        if operation is not None and entry.note is not None:
            operation.attempts = entry.note.attempt
            operation.retry_at = entry.note.retry_at
            operation.begun = None

    def _feed_begun(self, entry: Entry) -> None:
        operation = self._operation(entry, Kind.STEP)
        if operation is not None and entry.note is not None:
            operation.begun = (entry.note.worker, entry.note.claim)

    def _feed_timer(self, entry: Entry) -> None:
        timer = self.timers.pop(entry.key, None)
        if timer is not None:
            self.loop.fire(timer)
        elif entry.key not in self._abandoned:
            raise self._diverged(entry, "the code never set it")

    def _feed_signal(self, entry: Entry) -> None:
        note = entry.note
        assert note is not None
        mail = Mail(note.name, entry.value or b"null", note.by, note.subject, entry.time)
        for index, (names, waiter) in enumerate(self.receivers):
            if mail.name in names and not waiter.done():
                del self.receivers[index]
                waiter.set_result(mail)
                return
        self.mail.append(mail)

    def _feed_resolved(self, entry: Entry) -> None:
        wait = self.waits.get(entry.key)
        note = entry.note
        assert note is not None
        if wait is None:
            if entry.key in self._abandoned:
                return
            raise self._diverged(entry, "the code never opened it")
        if wait.done:
            return
        request: PromiseRequest = wait.value
        timer = self.timers.pop(entry.key, None)
        if timer is not None:
            timer.cancel()
        if note.name == "expired":
            if request.has_default:
                wait.resolve(request.default, by="default")
            else:
                wait.resolve(None, TimeoutError(f"nobody answered {request.question or request.name!r} in time"))
        elif note.name == "cancelled":
            wait.resolve(None, asyncio.CancelledError())
        elif entry.failed:
            wait.resolve(None, _catchable(decode_error(entry.value or b"")), by=note.by)
        else:
            wait.resolve(request.schema.decode(entry.value or b"null"), by=note.by)

    def _feed_child(self, entry: Entry) -> None:
        operation = self._operation(entry, Kind.CHILD)
        if operation is None:
            return
        self._complete(operation)
        if operation.done():
            return
        if entry.failed:
            error = _catchable(decode_error(entry.value or b""))
            self.waits[entry.key].resolve(None, error)
            operation.set_exception(error)
            operation.exception()  # the wait carries it too: whoever awaits the child alone is not told twice
        else:
            operation.set_result(self.waits[entry.key])

    def _feed_child_ended(self, entry: Entry) -> None:
        wait = self.waits.get(entry.key)
        if wait is None:
            if entry.key in self._abandoned:
                return
            raise self._diverged(entry, "the code never started it")
        if wait.done:
            return
        request: ChildRequest = wait.value
        if not entry.failed:
            wait.resolve(request.schema.decode(entry.value or b"null"))
        else:
            wait.resolve(None, _catchable(decode_error(entry.value or b"")))

    def _feed_command(self, entry: Entry) -> None:
        operation = self._operation(entry, Kind(entry.kind))
        if operation is None:
            return
        self._complete(operation)
        if not operation.done():
            if entry.failed:
                operation.set_exception(_catchable(decode_error(entry.value or b"")))
            else:
                operation.set_result(None)

    def _feed_patched(self, entry: Entry) -> None:
        operation = self.operations.get(entry.key)
        if operation is not None:  # a patch that the code no longer asks for has nothing to protect
            self._complete(operation)
            if not operation.done():
                operation.set_result(None)

    def _feed_cancel(self, entry: Entry) -> None:
        self._end("cancel")

    def _feed_expired(self, entry: Entry) -> None:
        """The run's own timeout or deadline was reached, or the grace for unwinding is over."""
        note = entry.note
        assert note is not None
        if note.name != "grace":
            self._end(note.name)
        elif self.ending == "cancel":
            self.ended = Ended("cancelled", encode_error(RunCancelled("the run was cancelled", run=self.facts.id)))
        else:
            self.ended = Ended("failed", encode_error(TimeoutError(f"the run's {self.ending} was reached")))

    def _end(self, why: str) -> None:
        if not self.ending and self._main is not None:
            self.ending = why
            self._main.cancel()

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
        if definition.identity is None:
            operation.arguments, operation.digest = describe_arguments(call.args, call.kwargs)
            if not definition.record_args:
                operation.arguments = b""
        else:
            operation.arguments, operation.digest = describe_arguments((definition.identity(*call.args, **call.kwargs),), {})
        operation.context = contextvars.copy_context()
        self._issue(operation)
        return operation.__await__()

    def command(self, kind: Kind, name: str, request: Any, *, describe: tuple[Any, ...] = (), key: str = "") -> Operation:
        """Ask for a command: a change outside, recorded together with it."""
        operation = Operation(self, kind, key or self.loop.scope().key(name), name, request)
        operation.arguments, operation.digest = describe_arguments(describe, {})
        if not self.loop.dead:
            self._issue(operation)
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

    def _complete(self, operation: Operation) -> None:
        self.operations.pop(operation.key, None)
        for key in operation.other_keys:
            self.operations.pop(key, None)

    def abandon(self, operation: Operation) -> None:
        """The code no longer waits for an operation: its outcome, should it still come, only moves time."""
        if self.loop.dead or operation.kind is not Kind.STEP:
            return
        self._abandoned.add(operation.key)
        self.dropped.append(operation.key)
        self._complete(operation)

    def abandon_child(self, wait: Wait) -> None:
        """The code no longer waits for an attached child that it awaited directly: it is to be cancelled."""
        if not self.loop.dead and not wait.done:
            self.orphans.append(wait.id)

    # ── timers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _timer_armed(self, timer: Timer) -> None:
        self.timers[timer.key] = timer

    def _timer_abandoned(self, timer: Timer) -> None:
        if self.timers.get(timer.key) is timer:
            del self.timers[timer.key]
            self._abandoned.add(timer.key)

    def next_timer(self) -> Timer | None:
        """The timer that is due first."""
        return self.loop.next_timer()

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> list[Operation]:
        """The operations asked for since the last call that still stand."""
        issued, self._issued = self._issued, []
        return [operation for operation in issued if operation.key in self.operations]

    @property
    def stuck(self) -> bool:
        """Whether the code waits for something that nothing can ever bring."""
        if self.ended is not None or self.operations or self.timers or self.receivers:
            return False
        return not any(wait.waiters for wait in self.waits.values() if not wait.done)

    def where(self) -> str:
        """Where the code stands: `file:line in function` of the innermost frame of each unfinished task."""
        places = []
        for task in self.loop.unfinished():
            frames = task.get_stack(limit=12)
            user = [frame for frame in frames if not frame.f_globals.get("__name__", "").startswith(("perdure.core", "asyncio"))]
            if user:
                frame = user[-1]
                places.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        return "; ".join(dict.fromkeys(places[:5]))

    def drop(self) -> list[str]:
        """Close everything; answer with the names of tasks that resist."""
        resisting = self.loop.drop()
        self.operations.clear()
        self.timers.clear()
        self.waits.clear()
        self.receivers.clear()
        self._issued.clear()
        return resisting


def _nothing() -> None:
    """What a promise's timer calls: its entry does the work."""


def _catchable(error: BaseException) -> BaseException:
    """What a step or child raised, as something that may be raised into workflow code.

    Control-flow exceptions would end the task or the loop instead of reaching an `except` clause; they come as `StepError`.
    """
    if isinstance(error, asyncio.CancelledError | StopIteration | StopAsyncIteration | GeneratorExit | SystemExit | KeyboardInterrupt):
        return StepError(f"{type(error).__name__}: {error}".rstrip(": "), type_name=type(error).__name__)
    return error


def _text(data: bytes) -> str:
    text = data.decode(errors="replace")
    return text if len(text) <= 200 else text[:200] + "…"


_FEEDERS: dict[str, Callable[[Execution, Entry], None]] = {
    Kind.STEP: Execution._feed_step,
    Kind.ATTEMPT: Execution._feed_attempt,
    Kind.BEGUN: Execution._feed_begun,
    Kind.TIMER: Execution._feed_timer,
    Kind.SIGNAL: Execution._feed_signal,
    Kind.OPENED: Execution._feed_command,
    Kind.RESOLVED: Execution._feed_resolved,
    Kind.CHILD: Execution._feed_child,
    Kind.CHILD_ENDED: Execution._feed_child_ended,
    Kind.SENT: Execution._feed_command,
    Kind.REPLIED: Execution._feed_command,
    Kind.PUBLISHED: Execution._feed_command,
    Kind.PATCHED: Execution._feed_patched,
    Kind.CANCEL: Execution._feed_cancel,
    Kind.EXPIRED: Execution._feed_expired,
}


def current() -> Execution | None:
    """The execution whose code is running now, or None outside of any run."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - must not raise outside of any loop
    return loop.execution if type(loop) is RunLoop else None
