"""Writing what a run's owner wants written: the hot path, and everything that goes with an entry in one transaction.

An advance that only adds entries costs no statement of its own: its rows join those of its neighbours. This module may
not know what entries mean.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.entry import Entry
from perdure.core.errors import RunEnded, StoreError
from perdure.core.status import ENDED, Status
from perdure.stores.base import Advance, Conflict, End, Lost, Park

from .cancels import cancel_children, notify_parent, tidy_up
from .inbox import RunState, send
from .promises import close_promises, expire_promises, open_promises, reopen_promises
from .reading import note_bytes
from .starts import start_child
from .transaction import Held, Transaction, numbers

__all__ = ["advance"]

_PARKED = frozenset({Status.WAITING, Status.QUEUED, Status.PAUSED, Status.BLOCKED})
_OWNED = frozenset({Status.RUNNING, Status.WAITING})


def advance(transaction: Transaction, change: Advance) -> Lost | Conflict | None:
    """Write an `Advance`, if its run is still held under exactly this claim with exactly this last entry."""
    run = change.run
    held = transaction.held.get(run)
    if held is None:
        return Lost("the run is not this worker's")
    claim, sequence, crashes = held
    if claim != change.claim:
        return Lost(f"the run is held under claim {claim}, not {change.claim}")
    if sequence != change.sequence:
        return Lost(f"the journal's last entry is {sequence}, not {change.sequence}")
    rows = _rows(run, sequence, change.entries)
    if _is_more_than_entries(change):
        conflict = _write_all(transaction, change)
        if conflict is not None:
            return conflict
    if change.blobs:
        transaction.keep_blobs(change.blobs)
    if change.progress and crashes:
        transaction.connection.change("clear_crashes", (run,))
        crashes = 0
    transaction.entries += rows
    if change.park is None and change.end is None:
        transaction.held[run] = Held(claim, sequence + len(rows), crashes)
    else:
        transaction.held.pop(run, None)
    return None


def _rows(run: int, sequence: int, entries: list[Entry]) -> list[tuple[Any, ...]]:
    """The entries as rows. They must follow the journal's last one without a gap."""
    rows = []
    place = run << 32
    for entry in entries:
        sequence += 1
        if entry.sequence != sequence:
            raise StoreError(f"entry {entry.sequence} of run number {run} does not follow entry {sequence - 1}")
        note = entry.note
        rows.append(
            (
                place | sequence,
                entry.kind,
                entry.key,
                entry.time,
                entry.value,
                1 if entry.failed else 0,
                note_bytes(note) if note is not None else None,
            )
        )
    return rows


def _is_more_than_entries(change: Advance) -> bool:
    return bool(
        change.park
        or change.end
        or change.status
        or change.consumed
        or change.opened
        or change.expired
        or change.closed
        or change.reopened
        or change.children
        or change.sends
        or change.replies
        or change.published
    )


def _write_all(transaction: Transaction, change: Advance) -> Conflict | None:
    """Write what goes with the entries; a conflict undoes all of it."""
    connection = transaction.connection
    park = change.park
    builds: str | None = None
    if park is not None:
        # Looked at first: a message that this very change leaves for its own run must not count as one it has not seen.
        inbox, builds = connection.row("parking_facts", (change.run,)) or (0, None)
        if inbox > park.inbox:
            return Conflict("inbox", inbox, detail=f"{inbox} messages were left, {park.inbox} seen")
    may_conflict = change.consumed or change.expired or change.children or change.sends
    if may_conflict:
        connection.do("mark_part")
    conflict = _write_parts(transaction, change)
    if may_conflict:
        if conflict is not None:
            connection.do("undo_part")
        connection.do("keep_part")
    if conflict is None:
        if park is not None:
            _park(transaction, change, park, builds)
        elif change.end is not None:
            _end(transaction, change, change.end)
        elif change.status:
            if change.status not in _OWNED:
                raise StoreError(f"an owned run is running or waiting, not {change.status}")
            connection.change("set_status", (change.run, change.status, change.wake_at))
    return conflict


def _write_parts(transaction: Transaction, change: Advance) -> Conflict | None:
    connection = transaction.connection
    run, at = change.run, change.at or transaction.at
    if change.consumed:
        taken = connection.change("consume", (run, numbers(change.consumed)))
        if taken != len(change.consumed):
            return Conflict("consumed", detail=f"{taken} of {len(change.consumed)} messages were there")
    reopen_promises(transaction, run, change.reopened)  # before they expire: one whose time is over may do so at once
    conflict = expire_promises(transaction, run, change.expired, at)
    if conflict is not None:
        return conflict
    close_promises(transaction, run, change.closed, at)
    open_promises(transaction, run, change.opened, at)
    for index, child in enumerate(change.children):
        conflict = start_child(transaction, child, run, index)
        if conflict is not None:
            return conflict
    for index, message in enumerate(change.sends):
        outcome = send(transaction, message)
        if not isinstance(outcome, int):
            return Conflict("send", index, outcome.message, ended=isinstance(outcome, RunEnded))
    for uid, value in change.replies:
        connection.change("add_reply", (uid, run, value, at))
    for key, value in change.published:
        connection.change("publish", (run, key, value, at))
    return None


def _park(transaction: Transaction, change: Advance, park: Park, builds: str | None) -> None:
    """Let go of a run. When it is due next depends on what it waits for."""
    if park.status not in _PARKED:
        raise StoreError(f"a run is parked as waiting, queued, paused or blocked, not {park.status}")
    at = change.at or transaction.at
    due_at = park.wake_at
    blocked = park.blocked
    if park.status == Status.QUEUED and due_at is None:
        due_at = at
    elif park.status == Status.PAUSED:
        due_at = None
    elif park.status == Status.BLOCKED:
        # Blocked for one build: any other may try at once. Blocked without naming a build: a person has to decide.
        due_at = at if blocked is not None and blocked.build else None
    if blocked is not None and blocked.build:
        refused = msgspec.json.decode(builds, type=list[str]) if builds else []
        if blocked.build not in refused:
            builds = msgspec.json.encode([*refused, blocked.build]).decode()
    transaction.connection.change(
        "park_run",
        {
            "run": change.run,
            "status": park.status,
            "inbox": park.inbox,
            "active": park.active,
            "at": at,
            "due_at": due_at,
            "blocked": None if blocked is None else msgspec.json.encode(blocked).decode(),
            "builds": builds,
        },
    )


def _end(transaction: Transaction, change: Advance, end: End) -> None:
    """Give a run its final outcome and tell those whom it concerns."""
    if end.status not in ENDED:
        raise StoreError(f"a run ends as succeeded, failed or cancelled, not {end.status}")
    connection = transaction.connection
    row = connection.row("state_by_number", (change.run,))
    assert row is not None
    run = RunState._make(row)
    connection.change("end_run", (run.number, end.status, end.at, int(end.failed), end.active))
    if end.value is not None:
        connection.change("set_result", (run.number, end.value))
    tidy_up(transaction, run.number)
    cancel_children(transaction, run.number, run.id, "its parent has ended")
    notify_parent(transaction, run, end.status, end.value, failed=end.failed)
