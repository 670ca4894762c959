"""The settings of one worker, all resolved: lengths in µs, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.core.duration import SECOND

__all__ = ["WorkerOptions"]


@dataclass(slots=True)
class WorkerOptions:
    """How a worker behaves. The defaults are the documented ones."""

    lease: int = 10 * SECOND  # how long a silent worker is believed to live
    residency: int = 5 * SECOND  # how long a waiting run stays in memory
    cancel_grace: int = 30 * SECOND  # how long a cancelled run may unwind
    drain: int = 30 * SECOND  # how long a closing worker lets attempts finish
    payload_cap: int = 16 * 1024 * 1024  # the largest value, in bytes of JSON
    threads: int = 16  # for `def` steps
    residents: int = 2_000  # runs in memory at once
    watch: int = SECOND // 20  # between two looks at what other processes did
    replay_every_await: bool = False  # evict and replay before every entry: a test of determinism
    replay_at_park: bool = False  # drift under unchanged code is an error
    public_url: str = ""
    secret: str = ""

    def cap(self, *, failed: bool) -> int:
        """The largest outcome, in bytes of JSON. An error is bounded by how it is written: a small cap must not hide it."""
        return max(self.payload_cap, ERROR_CAP) if failed else self.payload_cap


ERROR_CAP = 1024 * 1024
