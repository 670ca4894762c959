"""Promises and asks: opening them with their run, answering them from outside.

An answer wins against a time-out, a cancellation and another answer by one conditional update. This module may not check
whether an answer fits its question.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.errors import AlreadyResolved, StoreError, UnknownWait
from perdure.stores.base import Answer, Conflict
from perdure.stores.refusals import already_resolved, unknown_wait
from perdure.stores.rows import InboxKind, Message, PromiseRow

from .inbox import leave
from .transaction import Transaction

__all__ = ["answer", "close_promises", "expire_promises", "open_promises", "reopen_promises"]


def answer(transaction: Transaction, change: Answer) -> UnknownWait | AlreadyResolved | StoreError | None:
    """Write an `Answer`."""
    if change.state not in ("answered", "rejected"):
        return StoreError(f"a promise is answered or rejected, not {change.state!r}")
    connection = transaction.connection
    row = connection.row("promise_state", (change.id,))
    if row is None:
        return unknown_wait(change.id)
    run, key, state, deadline, uid, by, run_id = row
    if state != "open":
        if change.uid and change.uid == uid:
            return None  # the same answer again: its first copy won
        return already_resolved(change.id, state, by, run_id)
    if deadline and change.at >= deadline:
        return already_resolved(change.id, "expired", "", run_id)
    transaction.keep_blobs(change.blobs)
    connection.change("resolve_promise", (change.id, change.state, change.at, change.by, change.uid))
    message = Message(
        number=0,
        run=run,
        kind=InboxKind.RESOLVED,
        name=change.state,
        key=key,
        value=change.value,
        failed=change.failed,
        by=change.by,
        at=change.at,
    )
    leave(transaction, run, message)
    return None


def open_promises(transaction: Transaction, run: int, promises: Sequence[PromiseRow], at: int) -> None:
    """Open a run's promises. `run` stands for the owner's claim: the promise's own field is not trusted."""
    for promise in promises:
        transaction.connection.change(
            "open_promise",
            (
                promise.id,
                run,
                promise.key,
                promise.kind,
                promise.name,
                promise.question,
                promise.to,
                promise.schema,
                promise.opened_at or at,
                promise.deadline,
            ),
        )


def expire_promises(transaction: Transaction, run: int, promises: Sequence[str], at: int) -> Conflict | None:
    """Let promises end by their deadline; one that was answered meanwhile is a conflict."""
    for index, promise in enumerate(promises):
        if not transaction.connection.change("close_promise", (promise, run, "expired", at)):
            return Conflict("answered", index, promise)
    return None


def close_promises(transaction: Transaction, run: int, promises: Sequence[str], at: int) -> None:
    """Cancel promises nobody waits for any more. One that was answered meanwhile stays so: its message comes anyway."""
    for promise in promises:
        transaction.connection.change("close_promise", (promise, run, "cancelled", at))


def reopen_promises(transaction: Transaction, run: int, promises: Sequence[tuple[str, str]]) -> None:
    """Open promises again whose answers did not fit, and say why."""
    for promise, problem in promises:
        transaction.connection.change("reopen_promise", (promise, run, problem))
