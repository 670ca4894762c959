"""Messages for runs: the only thing that anybody but its owner writes for a live run.

Leaving a message and waking the run are one act here, so that no wake-up is lost. This module may not know what a message
means to its run.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.core.errors import RunEnded, UnknownRun
from perdure.stores.base import Send
from perdure.stores.refusals import run_ended, unknown_run
from perdure.stores.rows import Message

from .transaction import Transaction

__all__ = ["RunState", "leave", "send", "send_to", "state_of"]


class RunState(NamedTuple):
    """The facts that decide whether a run may be changed from outside: one row of the `state_*` queries."""

    number: int
    id: str
    status: str
    owner: int
    started_at: int
    cancel_at: int
    ended_at: int
    parent: int
    parent_key: str


def state_of(transaction: Transaction, run_id: str) -> RunState | None:
    """A run's state by id."""
    row = transaction.connection.row("state_by_id", (run_id,))
    return None if row is None else RunState._make(row)


def leave(transaction: Transaction, run: int, message: Message) -> int:
    """Leave a message for a live run and wake it. The message's number, or 0 if its uid was left before."""
    connection = transaction.connection
    if message.uid and not connection.change("mark_delivered", (run, message.uid)):
        return 0
    number = connection.insert(
        "add_message",
        (
            run,
            message.kind,
            message.name,
            message.key,
            message.value,
            int(message.failed),
            message.by,
            message.uid,
            message.at or transaction.at,
        ),
    )
    connection.change("wake_run", (run, transaction.at))
    return number


def send_to(transaction: Transaction, run: RunState, message: Message) -> int | RunEnded:
    """Leave a message for a run that may have ended. One that it got while it lived is still known, so it is no error."""
    if run.ended_at:
        if message.uid and transaction.connection.row("was_delivered", (run.number, message.uid)):
            return 0
        return run_ended(run.id, run.status, "receives nothing more")
    return leave(transaction, run.number, message)


def send(transaction: Transaction, change: Send) -> int | UnknownRun | RunEnded:
    """Write a `Send`."""
    run = state_of(transaction, change.run_id)
    if run is None:
        return unknown_run(change.run_id)
    transaction.keep_blobs(change.blobs)
    return send_to(transaction, run, change.message)
