"""The states of a run and the moves between them: one table, checked on every write, drawn in the docs from here.

Theory of operation. A run is *live* until it is *ended*; an ended run never moves again. `queued` and `delayed` wait
for a worker, `running` is owned by one, `waiting` has nothing running and is woken by what it waits for. `paused` and
`blocked` are live states that no worker picks up by itself: a person, or for `blocked` another build, moves them on.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ENDED", "LIVE", "MOVES", "Status"]


class Status(StrEnum):
    """What a run is doing, as stored and shown everywhere."""

    DELAYED = "delayed"
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the run has its final outcome."""
        return self in ENDED


ENDED = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})
LIVE = frozenset(Status) - ENDED

_ASIDE = frozenset({Status.PAUSED, Status.BLOCKED})

MOVES: dict[Status, frozenset[Status]] = {
    Status.DELAYED: frozenset({Status.QUEUED, Status.RUNNING, Status.CANCELLED}) | _ASIDE,
    Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED}) | _ASIDE,
    Status.RUNNING: frozenset({Status.WAITING, Status.QUEUED}) | ENDED | _ASIDE,
    Status.WAITING: frozenset({Status.RUNNING, Status.QUEUED}) | ENDED | _ASIDE,
    Status.PAUSED: frozenset({Status.DELAYED, Status.QUEUED, Status.RUNNING, Status.WAITING, Status.CANCELLED, Status.BLOCKED}),
    Status.BLOCKED: frozenset({Status.QUEUED, Status.RUNNING, Status.CANCELLED, Status.PAUSED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}
