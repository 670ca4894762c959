"""Creating runs, and what happens when the id is taken.

This module may not know who claims a run.
"""

from __future__ import annotations

import msgspec

from perdure.core.errors import DuplicateRun, RunEnded
from perdure.core.status import Status
from perdure.stores.base import Conflict, Start, Started
from perdure.stores.rows import RunRow

from .cancels import cancel_children, end_cancelled, notify_parent
from .inbox import RunState, leave, send_to
from .reading import run_of
from .transaction import Transaction

__all__ = ["start", "start_child"]


def start(transaction: Transaction, change: Start) -> Started | DuplicateRun | RunEnded:
    """Write a `Start`."""
    transaction.keep_blobs(change.blobs)
    existing = _run_by_id(transaction, change.id)
    if existing is None:
        return Started(_create(transaction, change), created=True)
    if _gives_way(change.if_exists, existing):
        _replace(transaction, existing)
        return Started(_create(transaction, change), created=True)
    if change.if_exists == "reject":
        return DuplicateRun(
            f"a run with the id {change.id!r} exists already ({existing.status})",
            run=change.id,
            hint=f"app.handle({change.id!r}) reaches it; if_exists='return' gives it, 'replace' starts anew",
        )
    if existing.workflow != change.workflow or existing.digest != change.digest:
        what = "other arguments" if existing.workflow == change.workflow else f"another workflow, {existing.workflow}"
        return DuplicateRun(
            f"a run with the id {change.id!r} exists already with {what} ({existing.status})",
            run=change.id,
            hint="choose another id, or if_exists='replace'",
        )
    return _returned(transaction, change, existing)


def start_child(transaction: Transaction, change: Start, parent: int, index: int) -> Conflict | None:
    """Start a child of a run that is being advanced. The same child again is no conflict: its parent lost the answer."""
    transaction.keep_blobs(change.blobs)
    existing = _run_by_id(transaction, change.id)
    if existing is not None:
        if existing.parent == parent and existing.parent_key == change.parent_key:
            return None
        return Conflict("child", index, f"the id {change.id!r} is taken by another run of {existing.workflow}")
    if change.parent != parent:
        change = msgspec.structs.replace(change, parent=parent)
    _create(transaction, change)
    return None


def _run_by_id(transaction: Transaction, run_id: str) -> RunRow | None:
    row = transaction.connection.row("run_by_id", (run_id,))
    return None if row is None else run_of(row)


def _state_of(run: RunRow) -> RunState:
    return RunState(
        run.number,
        run.id,
        run.status,
        run.owner,
        run.started_at,
        run.cancel_at,
        run.ended_at,
        run.parent,
        run.parent_key,
    )


def _gives_way(if_exists: str, existing: RunRow) -> bool:
    if if_exists == "retry_failed":
        return existing.status in (Status.FAILED, Status.CANCELLED)
    return if_exists == "replace"


def _replace(transaction: Transaction, existing: RunRow) -> None:
    """Take the id from a run, ending it if it lives. Its number and all keys made of it stay its own."""
    state = _state_of(existing)
    if not state.ended_at:
        end_cancelled(transaction, state)
        cancel_children(transaction, state.number, state.id, "its parent was replaced")
    transaction.connection.change("rename_run", (state.number,))


def _returned(transaction: Transaction, change: Start, existing: RunRow) -> Started | RunEnded:
    """Answer with the run that is there, and give it the messages that came with this start."""
    if not (change.deliver and change.messages):
        return Started(existing, created=False)
    row = transaction.connection.row("state_by_number", (existing.number,))
    assert row is not None
    for message in change.messages:
        outcome = send_to(transaction, RunState._make(row), message)
        if isinstance(outcome, RunEnded):  # nothing was written: an ended run stays so, and so the first one tells it
            return outcome
    return Started(_run_by_id(transaction, change.id) or existing, created=False)


def _create(transaction: Transaction, change: Start) -> RunRow:
    """Insert a run. An attached child of a parent that is told to cancel, or has ended, is born cancelled."""
    connection = transaction.connection
    doomed = bool(change.parent) and not change.detached and _is_doomed(transaction, change.parent)
    due_at = max(change.due_at, change.at)
    status = Status.CANCELLED if doomed else Status.DELAYED if change.due_at > change.at else Status.QUEUED
    run = RunRow(
        number=0,
        id=change.id,
        workflow=change.workflow,
        status=status.value,
        version=change.version,
        input=change.input,
        digest=change.digest,
        tags=list(dict.fromkeys(change.tags)),
        priority=change.priority,
        created_at=change.at,
        ended_at=change.at if doomed else 0,
        due_at=None if doomed else due_at,
        deadline_at=change.deadline_at,
        cancel_at=change.at if doomed else 0,
        parent=change.parent,
        parent_key=change.parent_key,
        detached=change.detached,
        failed=doomed,
    )
    run.number = connection.insert("add_run", _columns(run))
    connection.change("add_run_values", (run.number, run.input))
    for tag in run.tags:
        connection.change("add_tag", (tag, run.number))
    if doomed:
        notify_parent(transaction, _state_of(run), run.status, None, failed=True)
        return run
    for message in change.messages:
        run.inbox += leave(transaction, run.number, message) > 0
    return run


def _columns(run: RunRow) -> tuple[object, ...]:
    """A new run's row in the order of `add_run`."""
    return (
        run.id,
        run.workflow,
        run.status,
        run.version,
        run.digest,
        msgspec.json.encode(run.tags).decode() if run.tags else None,
        run.priority,
        run.created_at,
        run.ended_at,
        run.due_at,
        run.deadline_at,
        run.cancel_at,
        run.parent,
        run.parent_key,
        int(run.detached),
        int(run.failed),
    )


def _is_doomed(transaction: Transaction, parent: int) -> bool:
    row = transaction.connection.row("state_by_number", (parent,))
    if row is None:
        return True
    state = RunState._make(row)
    return bool(state.cancel_at or state.ended_at)
