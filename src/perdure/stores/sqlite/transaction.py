"""What the changes of one batch share while they are written: the connection, the batch's facts, what its worker holds.

This module may not know any particular change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from perdure.stores.base import Advance, Batch, Blob

from .connection import Connection

__all__ = ["Held", "Transaction", "numbers"]


class Held(NamedTuple):
    """A run that the batch's worker owns, as of now inside the transaction."""

    claim: int
    sequence: int
    crashes: int


def numbers(values: Iterable[int]) -> str:
    """Numbers as the JSON list that the queries take."""
    return "[" + ",".join(map(str, values)) + "]"


class Transaction:
    """One open write transaction of one batch."""

    def __init__(self, connection: Connection, batch: Batch) -> None:
        self.connection = connection
        self.worker = batch.worker
        self.at = batch.at
        self.held = self._holdings(batch)
        self.entries: list[tuple[Any, ...]] = []  # rows that `flush` writes in one go

    def _holdings(self, batch: Batch) -> dict[int, Held]:
        """What the worker holds of the runs it wants to advance: the one check of owner, claim and sequence."""
        wanted = {change.run for change in batch.changes if type(change) is Advance}
        if not wanted:
            return {}
        rows = self.connection.rows("held_runs", (batch.worker, numbers(wanted)))
        return {run: Held(claim, sequence, crashes) for run, claim, sequence, crashes in rows}

    def flush(self) -> None:
        """Write the entries gathered so far. Whoever reads journals in the transaction calls it first."""
        if self.entries:
            rows, self.entries = self.entries, []
            self.connection.many("add_entry", rows)

    def keep_blobs(self, blobs: list[Blob]) -> None:
        """Store content-addressed pieces, or touch those that are there."""
        if blobs:
            self.connection.many("keep_blob", [(blob.address, blob.data, self.at) for blob in blobs])
