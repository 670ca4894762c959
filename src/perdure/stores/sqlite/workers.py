"""Worker rows: entering, leases, and the fence that ends a row and frees its runs in one transaction.

This module may not decide who is dead: it is told.
"""

from __future__ import annotations

import msgspec

from perdure.stores.base import Pulse, Takeover
from perdure.stores.rows import WorkerRow

from .connection import Connection
from .transaction import Transaction

__all__ = ["enter", "heartbeat", "leave", "takeover"]


def enter(connection: Connection, worker: WorkerRow) -> int:
    """Insert a worker's row; its number, never given before."""
    return connection.insert(
        "add_worker",
        (
            worker.name,
            worker.host,
            worker.pid,
            worker.build,
            worker.version,
            worker.role,
            msgspec.json.encode(worker.workflows).decode(),
            worker.started_at,
            worker.seen_at or worker.started_at,
            worker.lease_until,
        ),
    )


def leave(connection: Connection, worker: int, at: int) -> None:
    """End a worker's row and hand its runs back."""
    _end(connection, worker, at, "closed")
    connection.change("hand_back_runs", (worker, at))


def heartbeat(connection: Connection, worker: int, at: int, lease_until: int) -> Pulse:
    """Renew a lease and look round. A fenced worker learns that and nothing else."""
    row = connection.row("heartbeat", (worker, at, lease_until))
    if row is None:
        return Pulse(alive=False, expired=[], next_due=None)
    return Pulse(alive=True, expired=sorted(msgspec.json.decode(row[0])), next_due=row[1])


def takeover(transaction: Transaction, change: Takeover) -> list[int]:
    """Write a `Takeover`. Runs of a row that had ended before are freed too: the loop converges whatever happened."""
    connection = transaction.connection
    row = connection.row("worker_lease", (change.worker,))
    if row is not None:
        ended_at, lease_until = row
        if not ended_at:
            if not change.proven and lease_until >= change.at:
                return []
            _end(connection, change.worker, change.at, "dead" if change.proven else "expired")
    freed = sorted(number for (number,) in connection.rows("free_runs", (change.worker, change.at)))
    for number in freed:
        transaction.held.pop(number, None)
    return freed


def _end(connection: Connection, worker: int, at: int, how: str) -> None:
    """Fence a worker. A client's row is not kept: it owned no run, so nothing ever names it, and its number is not reused."""
    if not connection.change("forget_client", (worker,)):
        connection.change("end_worker", (worker, at, how))
