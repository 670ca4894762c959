"""Ending runs and asking them to end: the final outcome, its consequences for promises, parent and children, cancellation.

One transaction covers a whole family: marking a parent and reading its children cannot be separated by the start of a
child, which looks at the parent's mark under the same write lock.
"""

from __future__ import annotations

from perdure.core.errors import UnknownRun
from perdure.core.status import Status
from perdure.stores.base import Cancel
from perdure.stores.refusals import unknown_run
from perdure.stores.rows import InboxKind, Message

from .inbox import RunState, leave, state_of
from .transaction import Transaction

__all__ = ["cancel", "cancel_children", "end_cancelled", "notify_parent", "tidy_up"]

_NEVER_BEGAN = frozenset({Status.QUEUED, Status.DELAYED, Status.PAUSED})


def cancel(transaction: Transaction, change: Cancel) -> str | UnknownRun:
    """Write a `Cancel`: the run's status before."""
    run = state_of(transaction, change.run_id)
    if run is None:
        return unknown_run(change.run_id)
    if not run.ended_at and not run.cancel_at:
        descendants = _live_descendants(transaction, run.number)
        for member in (run, *descendants):
            _request(transaction, member, change.by, change.reason)
    return run.status


def cancel_children(transaction: Transaction, run: int, by: str, reason: str) -> None:
    """Ask all live attached descendants of a run to end."""
    for member in _live_descendants(transaction, run):
        _request(transaction, member, by, reason)


def _live_descendants(transaction: Transaction, run: int) -> list[RunState]:
    return [RunState._make(row) for row in transaction.connection.rows("live_descendants", (run,))]


def _request(transaction: Transaction, run: RunState, by: str, reason: str) -> None:
    """Record the request for one run. One with nothing to unwind ends here and now."""
    connection = transaction.connection
    connection.change("mark_cancelled", (run.number, transaction.at))
    never_began = run.status in _NEVER_BEGAN and not run.started_at
    if run.owner == 0 and (never_began or run.status == Status.BLOCKED):
        end_cancelled(transaction, run)
        return
    connection.change("cancel_promises", (run.number, transaction.at))
    message = Message(number=0, run=run.number, kind=InboxKind.CANCEL, name=reason, by=by, at=transaction.at)
    leave(transaction, run.number, message)


def end_cancelled(transaction: Transaction, run: RunState) -> None:
    """End a live run as cancelled, whoever owns it: its owner will find that it lost it."""
    transaction.connection.change("end_run", (run.number, Status.CANCELLED, transaction.at, 1, 0))
    transaction.held.pop(run.number, None)
    tidy_up(transaction, run.number)
    notify_parent(transaction, run, Status.CANCELLED, None, failed=True)


def tidy_up(transaction: Transaction, run: int) -> None:
    """Leave nothing open behind a run that has ended."""
    transaction.connection.change("cancel_promises", (run, transaction.at))
    transaction.connection.change("empty_inbox", (run,))


def notify_parent(transaction: Transaction, run: RunState, status: str, value: bytes | None, *, failed: bool) -> None:
    """Tell a run's parent, if it has one and that one lives, how its child ended."""
    if not run.parent:
        return
    row = transaction.connection.row("state_by_number", (run.parent,))
    if row is None or RunState._make(row).ended_at:
        return
    message = Message(
        number=0,
        run=run.parent,
        kind=InboxKind.CHILD_ENDED,
        name=status,
        key=run.parent_key,
        value=value,
        failed=failed,
        by=run.id,
        at=transaction.at,
    )
    leave(transaction, run.parent, message)
