"""Writing a batch: one transaction, its fence, its number, and what to do when something goes wrong in it.

A batch is written straight through first. If one of its changes cannot be written, the whole is undone and written again
with a mark before each change, so that only the guilty one is left out: still one transaction under one number. This
module may not know any particular change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.core.errors import StoreError
from perdure.stores.base import (
    Advance,
    Answer,
    Batch,
    Cancel,
    Change,
    Claim,
    Fenced,
    Outcome,
    Pause,
    Resume,
    Send,
    Start,
    Takeover,
    Unsettled,
)

from .advances import advance
from .cancels import cancel
from .claims import claim, pause, resume
from .connection import Connection, is_general, translated
from .inbox import send
from .promises import answer
from .starts import start
from .transaction import Transaction
from .workers import takeover

__all__ = ["BatchWriter"]

_WRITE: dict[type[Change], Callable[[Transaction, Any], Outcome]] = {
    Advance: advance,
    Answer: answer,
    Cancel: cancel,
    Claim: claim,
    Pause: pause,
    Resume: resume,
    Send: send,
    Start: start,
    Takeover: takeover,
}


class _Written(Exception):
    """The batch was committed by an earlier attempt whose outcome was unknown."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        super().__init__()
        self.outcomes = outcomes


class BatchWriter:
    """Writes batches on one connection. Used under the connection's lock."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._doubt: tuple[int, int, list[Outcome]] | None = None  # worker, batch, its outcomes if it was written

    def write(self, batch: Batch) -> list[Outcome]:
        """Write a batch; raises when nothing of it was written, or `Unsettled` when that cannot be known yet."""
        try:
            try:
                return self._attempt(batch, guarded=False)
            except Exception as error:
                if isinstance(error, (Fenced, _Written)) or is_general(error) or self._doubts(batch):
                    raise
            return self._attempt(batch, guarded=True)
        except _Written as written:
            return written.outcomes
        except Exception as error:
            if self._doubts(batch) and not isinstance(error, Fenced):
                raise Unsettled(f"it is not known whether batch {batch.number} was written: {error}") from error
            raise

    def _doubts(self, batch: Batch) -> bool:
        return self._doubt is not None and self._doubt[:2] == (batch.worker, batch.number)

    def _attempt(self, batch: Batch, *, guarded: bool) -> list[Outcome]:
        connection = self._connection
        connection.do("begin")
        try:
            if not connection.change("enter_batch", (batch.number, batch.lease_until, batch.at, batch.worker)):
                self._explain(batch)
            self._doubt = None  # whatever was in doubt before was not written, or its worker is gone
            transaction = Transaction(connection, batch)
            outcomes = _write_guarded(transaction, batch.changes) if guarded else _write(transaction, batch.changes)
        except BaseException:
            connection.roll_back()
            raise
        self._commit(batch, outcomes)
        return outcomes

    def _explain(self, batch: Batch) -> None:
        """Why this batch may not be written: its worker was fenced, or it was written before."""
        row = self._connection.row("worker_batch", (batch.worker,))
        doubt, self._doubt = self._doubt if self._doubts(batch) else None, None
        if doubt is not None and row is not None and row[0] == batch.number:
            raise _Written(doubt[2])  # even if the worker was fenced since: this much it had written before
        if row is None or row[1]:
            raise Fenced(f"worker {batch.worker} has ended" if row else f"there is no worker {batch.worker}")
        raise StoreError(f"batch {batch.number} of worker {batch.worker} comes after its batch {row[0]}")

    def _commit(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """Commit; after an error, the batch's number in the worker's row says whether it happened."""
        connection = self._connection
        self._doubt = (batch.worker, batch.number, outcomes)
        try:
            connection.do("commit")
        except Exception:
            connection.roll_back()
            row = connection.row("worker_batch", (batch.worker,))
            if row is not None and row[0] == batch.number:
                self._doubt = None
                return
            self._doubt = None
            raise
        self._doubt = None


def _write(transaction: Transaction, changes: list[Change]) -> list[Outcome]:
    """All changes in order. Entries of advances are gathered until somebody could read them."""
    outcomes: list[Outcome] = []
    for change in changes:
        if type(change) is Advance:
            outcomes.append(advance(transaction, change))
        else:
            transaction.flush()
            outcomes.append(_WRITE[type(change)](transaction, change))
    transaction.flush()
    return outcomes


def _write_guarded(transaction: Transaction, changes: list[Change]) -> list[Outcome]:
    """The same with a mark before each change; one that cannot be written has its error as its outcome."""
    connection = transaction.connection
    outcomes: list[Outcome] = []
    for change in changes:
        held = dict(transaction.held)
        connection.do("mark")
        try:
            outcome = _WRITE[type(change)](transaction, change)
            transaction.flush()
        except Exception as error:
            if is_general(error):
                raise
            connection.do("undo")
            transaction.held = held
            transaction.entries.clear()
            outcome = translated(error, connection.path)
        connection.do("keep")
        outcomes.append(outcome)
    return outcomes
