"""What each kind of entry does to an execution when it is fed: one function per kind, and the table of them.

Rules of feeding:

1. An entry that names an open operation of its kind completes it.
2. One that names an operation that was asked for and abandoned, or was still open at the function's end, only moves time.
3. One that names nothing that was ever asked for, or another kind of thing, is divergence.
4. Commands and protected steps must agree with the recorded digest of their arguments; for other steps the recorded result
   stands and the difference is kept as drift.
5. A command is committed before anything that the code asked for after it can start, end or fire. So an entry of something
   that was asked for after a command which has no entry yet shows a command that the journal never had: divergence.

This module may resolve what code waits for; it may not run the loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .codec import decode_error, encode_error
from .entry import Kind
from .errors import Diverged, RunCancelled, StepError
from .mail import Mail
from .outcome import Drift, Ended
from .payload import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from .entry import Entry
    from .execution import Execution
    from .operation import ChildRequest, Operation, PromiseRequest
    from .tasks import Timer

__all__ = ["FEEDERS", "after_end"]


def _operation(execution: Execution, entry: Entry, kind: Kind) -> Operation | None:
    """The open operation that an entry names; None if it was abandoned."""
    operation = execution.operations.get(entry.key)
    if operation is None:
        if entry.key in execution.abandoned:
            return None
        raise _diverged(execution, entry, "the code never asked for it")
    if operation.kind is not kind:
        raise _diverged(execution, entry, f"the code asked for a {operation.kind} under this key")
    if execution.commands:
        _in_order(execution, entry, operation)
    note = entry.note
    if note is not None and note.digest and operation.digest and note.digest != operation.digest:
        if kind is not Kind.STEP or operation.request.definition.protected:
            raise _diverged(execution, entry, "the code asked for it with other arguments", operation)
        if not execution.drifts or execution.drifts[-1].key != entry.key:
            execution.drifts.append(Drift(entry.key, note.arguments, operation.arguments, operation.request.definition.fn))
    return operation


def _in_order(execution: Execution, entry: Entry, asked: Operation | Timer) -> None:
    """Check that no command which the code issued earlier is still without an entry."""
    first = next(iter(execution.commands.values()))
    if first.number < asked.number:
        raise _diverged(execution, entry, f"the code asked for {first.kind} {first.key} before it, which the journal lacks")


def after_end(execution: Execution, entry: Entry) -> None:
    """Check an entry that follows the function's end: what it names must have been asked for before the end.

    Raises `Diverged`: the code ended where the recorded one went on.
    """
    key, kind = entry.key, entry.kind
    if kind in _OF_STEPS or kind in _OF_COMMANDS:
        known = key in execution.operations or key in execution.abandoned
    elif kind == Kind.TIMER:
        known = key in execution.timers or key in execution.abandoned
    elif kind in (Kind.RESOLVED, Kind.CHILD_ENDED):
        known = key in execution.waits
    else:  # what comes from outside may come at any time
        return
    if not known:
        raise _diverged(execution, entry, "the code has ended and never asked for it")


def _diverged(execution: Execution, entry: Entry, reason: str, operation: Operation | None = None) -> Diverged:
    error = Diverged(
        f"the journal's entry {entry.sequence} is {entry.kind} {entry.key}, but {reason}",
        run=execution.facts.id,
        step=entry.key,
        hint="roll the code back, guard the change with patched(), or name the old step in aliases=",
    )
    error.recorded = [
        f"{entry.sequence} {entry.kind} {entry.key} {readable(entry.note.arguments) if entry.note else ''}".rstrip()
    ]
    open_now = [operation] if operation is not None else list(dict.fromkeys(execution.operations.values()))
    error.asked = [f"{each.kind} {each.key} {_text(each.arguments)}".rstrip() for each in open_now]
    error.asked += [f"{Kind.TIMER} {key}" for key in execution.timers]
    error.where = execution.where()
    return error


def _feed_step(execution: Execution, entry: Entry) -> None:
    operation = _operation(execution, entry, Kind.STEP)
    if operation is None:
        return
    execution.complete(operation)
    if operation.done():
        return
    if entry.failed:
        operation.set_exception(_catchable(decode_error(entry.value or b"")))
        return
    operation.set_result(operation.request.definition.schema.decode(entry.value or b"null"))


def _feed_attempt(execution: Execution, entry: Entry) -> None:
    operation = _operation(execution, entry, Kind.STEP)
    if operation is not None and entry.note is not None:
        operation.attempts = entry.note.attempt
        operation.retry_at = entry.note.retry_at
        operation.begun = None


def _feed_begun(execution: Execution, entry: Entry) -> None:
    operation = _operation(execution, entry, Kind.STEP)
    if operation is not None and entry.note is not None:
        operation.begun = (entry.note.worker, entry.note.claim)


def _feed_timer(execution: Execution, entry: Entry) -> None:
    timer = execution.timers.pop(entry.key, None)
    if timer is not None:
        if execution.commands:
            _in_order(execution, entry, timer)
        execution.loop.fire(timer)
    elif entry.key not in execution.abandoned:
        raise _diverged(execution, entry, "the code never set it")


def _feed_signal(execution: Execution, entry: Entry) -> None:
    note = entry.note
    assert note is not None
    mail = Mail(note.name, entry.value or b"null", note.by, note.subject, entry.time)
    for index, (names, waiter) in enumerate(execution.receivers):
        if mail.name in names and not waiter.done():
            del execution.receivers[index]
            waiter.set_result(mail)
            return
    execution.mail.append(mail)


def _feed_resolved(execution: Execution, entry: Entry) -> None:
    wait = execution.waits.get(entry.key)
    note = entry.note
    assert note is not None
    if wait is None:
        if entry.key in execution.abandoned:
            return
        raise _diverged(execution, entry, "the code never opened it")
    if entry.key in execution.commands:
        raise _diverged(execution, entry, "the journal lacks that it was opened")
    if wait.done:
        return
    request: PromiseRequest = wait.value
    timer = execution.timers.pop(entry.key, None)
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


def _feed_child(execution: Execution, entry: Entry) -> None:
    operation = _operation(execution, entry, Kind.CHILD)
    if operation is None:
        return
    execution.complete(operation)
    if operation.done():
        return
    if entry.failed:
        error = _catchable(decode_error(entry.value or b""))
        execution.waits[entry.key].resolve(None, error)
        operation.set_exception(error)
        operation.exception()  # the wait carries it too: whoever awaits the child alone is not told twice
    else:
        if entry.note is not None and entry.note.subject:
            execution.waits[entry.key].id = entry.note.subject  # another one if the first was taken
        operation.set_result(execution.waits[entry.key])


def _feed_child_ended(execution: Execution, entry: Entry) -> None:
    wait = execution.waits.get(entry.key)
    if wait is None:
        if entry.key in execution.abandoned:
            return
        raise _diverged(execution, entry, "the code never started it")
    if entry.key in execution.commands:
        raise _diverged(execution, entry, "the journal lacks that it was started")
    if wait.done:
        return
    request: ChildRequest = wait.value
    if not entry.failed:
        wait.resolve(request.schema.decode(entry.value or b"null"))
    elif entry.value is None:  # it was cancelled before it began, or while it was blocked: no code of its was there to say so
        wait.resolve(None, RunCancelled("the run was cancelled", run=request.id))
    else:
        wait.resolve(None, _catchable(decode_error(entry.value or b"")))


def _feed_command(execution: Execution, entry: Entry) -> None:
    operation = _operation(execution, entry, Kind(entry.kind))
    if operation is None:
        return
    execution.complete(operation)
    if not operation.done():
        if entry.failed:
            operation.set_exception(_catchable(decode_error(entry.value or b"")))
        else:
            operation.set_result(None)


def _feed_patched(execution: Execution, entry: Entry) -> None:
    operation = execution.operations.get(entry.key)
    if operation is not None:  # a patch that the code no longer asks for has nothing to protect
        execution.complete(operation)
        if not operation.done():
            operation.set_result(None)


def _feed_cancel(execution: Execution, entry: Entry) -> None:
    execution.end("cancel")


def _feed_expired(execution: Execution, entry: Entry) -> None:
    """The run's own timeout or deadline was reached, or the grace for unwinding is over."""
    note = entry.note
    assert note is not None
    if note.name != "grace":
        execution.end(note.name)
    elif execution.ending == "cancel":
        execution.ended = Ended("cancelled", encode_error(RunCancelled("the run was cancelled", run=execution.facts.id)))
    else:
        execution.ended = Ended("failed", encode_error(TimeoutError(f"the run's {execution.ending} was reached")))


def _catchable(error: BaseException) -> BaseException:
    """What a step or child raised, as something that may be raised into workflow code.

    Control-flow exceptions would end the task or the loop instead of reaching an `except` clause; they come as `StepError`.
    """
    if isinstance(
        error, asyncio.CancelledError | StopIteration | StopAsyncIteration | GeneratorExit | SystemExit | KeyboardInterrupt
    ):
        return StepError(f"{type(error).__name__}: {error}".rstrip(": "), type_name=type(error).__name__)
    return error


def _text(data: bytes) -> str:
    text = data.decode(errors="replace")
    return text if len(text) <= 200 else text[:200] + "…"


_OF_STEPS = frozenset({Kind.STEP, Kind.ATTEMPT, Kind.BEGUN})
_OF_COMMANDS = frozenset({Kind.OPENED, Kind.CHILD, Kind.SENT, Kind.REPLIED, Kind.PUBLISHED})

FEEDERS: dict[str, Callable[[Execution, Entry], None]] = {
    Kind.STEP: _feed_step,
    Kind.ATTEMPT: _feed_attempt,
    Kind.BEGUN: _feed_begun,
    Kind.TIMER: _feed_timer,
    Kind.SIGNAL: _feed_signal,
    Kind.OPENED: _feed_command,
    Kind.RESOLVED: _feed_resolved,
    Kind.CHILD: _feed_child,
    Kind.CHILD_ENDED: _feed_child_ended,
    Kind.SENT: _feed_command,
    Kind.REPLIED: _feed_command,
    Kind.PUBLISHED: _feed_command,
    Kind.PATCHED: _feed_patched,
    Kind.CANCEL: _feed_cancel,
    Kind.EXPIRED: _feed_expired,
}
