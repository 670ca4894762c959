"""Who owns a run: claiming due runs, and pausing and resuming those that nobody owns.

This module may not know how a run came to be or how it ends.
"""

from __future__ import annotations

import msgspec

from perdure.core.entry import Kind
from perdure.core.errors import RunEnded, UnknownRun
from perdure.core.status import Status
from perdure.stores.base import Claim, Pause, Resume
from perdure.stores.refusals import run_ended, unknown_run
from perdure.stores.rows import Claimed, InboxKind, Message

from .inbox import RunState, leave, state_of
from .reading import message_of, note_bytes, run_of
from .transaction import Transaction, numbers

__all__ = ["claim", "pause", "resume"]


def claim(transaction: Transaction, change: Claim) -> list[Claimed]:
    """Write a `Claim`. The write lock is held since before the due runs were read: nobody else can take them."""
    if change.limit <= 0:
        return []
    connection = transaction.connection
    found = connection.rows(
        "claimable_run" if change.only else "claimable_runs",
        {
            "at": max(change.at, transaction.at),  # what this very batch has woken is due at its time
            "limit": change.limit,
            "build": change.build,
            "workflows": None if change.workflows is None else msgspec.json.encode(change.workflows).decode(),
            "versions": None if change.versions is None else msgspec.json.encode(change.versions).decode(),
            "least": change.least_crashes,
            "most": change.most_crashes,
            "only": change.only,
        },
    )
    if not found:
        return []
    order = [row[0] for row in found]
    listed = numbers(order)
    connection.change("take_runs", (transaction.worker, change.at, listed))
    _begin_journals(transaction, change, [(number, version) for number, started_at, version in found if not started_at])
    claimed = {row[0]: Claimed(run=run_of(row)) for row in connection.rows("runs_by_number", (listed,))}
    for row in connection.rows("messages_of_runs", (listed,)):
        claimed[row[1]].messages.append(message_of(row))
    return [claimed[number] for number in order]


def _begin_journals(transaction: Transaction, change: Claim, fresh: list[tuple[int, str]]) -> None:
    """Write the first entry of runs that nobody claimed before."""
    notes = {
        version: note_bytes(msgspec.structs.replace(change.started, version=version))
        for version in {version for _, version in fresh}
    }
    transaction.entries += [
        (number << 32 | 1, Kind.STARTED, "", change.at, None, 0, notes[version]) for number, version in fresh
    ]
    transaction.flush()


def pause(transaction: Transaction, change: Pause) -> str | UnknownRun | RunEnded:
    """Write a `Pause`: the status before."""
    run = _live(transaction, change.run_id, "be paused")
    if not isinstance(run, RunState):
        return run
    if run.owner:
        _tell_owner(transaction, run, InboxKind.PAUSE, change.by, change.at)
    else:
        transaction.connection.change("pause_run", (run.number,))
    return run.status


def resume(transaction: Transaction, change: Resume) -> str | UnknownRun | RunEnded:
    """Write a `Resume`: the status before. A run that is not set aside is left as it is."""
    run = _live(transaction, change.run_id, "be resumed")
    if not isinstance(run, RunState):
        return run
    if run.owner:
        _tell_owner(transaction, run, InboxKind.RESUME, change.by, change.at)
        return run.status
    transaction.connection.change("forget_pauses", (run.number,))  # left for an owner who is gone
    if run.status in (Status.PAUSED, Status.BLOCKED):
        transaction.connection.change("resume_run", (run.number, transaction.at))
    return run.status


def _live(transaction: Transaction, run_id: str, what: str) -> RunState | UnknownRun | RunEnded:
    run = state_of(transaction, run_id)
    if run is None:
        return unknown_run(run_id)
    if run.ended_at:
        return run_ended(run_id, run.status, f"cannot {what}")
    return run


def _tell_owner(transaction: Transaction, run: RunState, kind: str, by: str, at: int) -> None:
    leave(transaction, run.number, Message(number=0, run=run.number, kind=kind, by=by, at=at))
