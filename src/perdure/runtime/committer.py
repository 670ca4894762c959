"""The committer: every durable change of a process goes through it, many changes to one transaction.

While one batch is being written the next one gathers; so the slower the disk, the larger the batch. What a batch could not
be written for is decided here: changes of runs are kept and tried again until they are written (their bodies never run
again for a failed write), changes of callers outside fail with the store's error, because the caller can be told.
The committer never dies. It knows changes and outcomes, not runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from perdure.core.errors import StoreError
from perdure.stores.base import Advance, Batch, Fenced, Lost, Unsettled

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.stores.base import Change, Outcome, Store

    from .clock import Clock
    from .line import Line

__all__ = ["Committer"]

logger = logging.getLogger("perdure.committer")

LARGEST_BATCH = 512
FIRST_PAUSE = 50_000  # µs before a failed batch is tried again, doubled up to LONGEST_PAUSE
LONGEST_PAUSE = 2_000_000


class Committer:
    """Group commit for one worker row."""

    def __init__(
        self, store: Store, worker: int, line: Line, clock: Clock, *, lease: int, on_fenced: Callable[[], None]
    ) -> None:
        self.commits = 0
        self.changes = 0
        self._store = store
        self._worker = worker
        self._line = line
        self._clock = clock
        self._lease = lease
        self._on_fenced = on_fenced
        self._loop = asyncio.get_running_loop()
        self._pending: deque[tuple[Change, Callable[[Outcome], None]]] = deque()
        self._writing: list[tuple[Change, Callable[[Outcome], None]]] = []
        self._number = 0
        self._pause = 0
        self._scheduled = False
        self._fenced = False
        self._sent = False  # the batch is under way, not waiting to be tried again
        self._unsettled = False  # the batch may have been written already
        self.pausing = False  # nothing is under way: a batch waits to be tried again
        self._idle: list[asyncio.Future[None]] = []

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting to be written."""
        return not self._pending and not self._writing

    def submit(self, change: Change, done: Callable[[Outcome], None]) -> None:
        """Have a change written; `done` gets its outcome, on the loop's thread."""
        if self._fenced:
            self._loop.call_soon(done, Lost("fenced"))
            return
        self._pending.append((change, done))
        if not self._scheduled and not self._writing:
            self._scheduled = True
            self._loop.call_soon(self._write)

    def write(self, change: Change) -> asyncio.Future[Any]:
        """Have a change written; the future has its outcome, raised if it is an exception. `Fenced`: it was not written."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(outcome: Outcome) -> None:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            elif isinstance(outcome, Lost):
                future.set_exception(Fenced("this process lost its place in the store: nothing was written"))
            else:
                future.set_result(outcome)

        self.submit(change, done)
        return future

    def abandon(self) -> None:
        """Write nothing more and tell nobody, as a killed process does."""
        self._fenced = True
        self._pending.clear()
        if not self._sent:
            self._writing = []

    async def settle(self) -> None:
        """Wait until everything submitted so far, and what follows from it, is written."""
        while not self.idle and not self._fenced:
            future: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(future)
            await future

    def _write(self) -> None:
        self._scheduled = False
        if self._writing or not self._pending:
            return
        pending = self._pending
        if len(pending) <= LARGEST_BATCH:
            self._writing = list(pending)
            pending.clear()
        else:
            self._writing = [pending.popleft() for _ in range(LARGEST_BATCH)]
        self._number += 1
        self._send()

    def _send(self) -> None:
        self.pausing = False
        if not self._writing:  # the worker was fenced while it waited
            return
        self._sent = True
        now = self._clock.now()
        batch = Batch(
            worker=self._worker,
            number=self._number,
            lease_until=now + self._lease,
            at=now,
            changes=[change for change, _ in self._writing],
        )
        self._line.submit(lambda: self._store.commit(batch), self._written)

    def _written(self, outcomes: list[Outcome] | None, error: BaseException | None) -> None:
        self._sent, self._unsettled = False, isinstance(error, Unsettled)
        if error is not None:
            self._failed(error)
            return
        assert outcomes is not None
        self._pause = 0
        self.commits += 1
        written, self._writing = self._writing, []
        self.changes += len(written)
        for (_, done), outcome in zip(written, outcomes, strict=True):
            _tell(done, outcome)
        self._continue()

    def _continue(self) -> None:
        if self._pending:
            self._write()
        elif not self._writing and self._idle:
            waiting, self._idle = self._idle, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, Fenced):
            self.fence()
            return
        problem = error if isinstance(error, StoreError) else StoreError(f"{type(error).__name__}: {error}")
        if self._unsettled:
            # Nobody can be told anything yet, and no other batch may come in between: its number settles it.
            self._pause_longer(problem)
            self.pausing = True
            self._clock.call_later(self._pause, self._send)
            return
        kept: list[tuple[Change, Callable[[Outcome], None]]] = []
        told: list[tuple[Change, Callable[[Outcome], None]]] = []
        for item in self._writing:
            # A run's own changes wait for better times; whoever else asks is told now.
            (kept if isinstance(item[0], Advance) else told).append(item)
        self._writing = kept
        for _, done in told:
            _tell(done, problem)
        self._pause_longer(problem)
        if kept:
            self.pausing = True
            self._clock.call_later(self._pause, self._retry)
        else:
            self._clock.call_later(self._pause, self._continue)

    def _pause_longer(self, problem: StoreError) -> None:
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        logger.warning("a batch could not be written, trying again: %s", problem.message, extra={"perdure_code": problem.code})

    def _retry(self) -> None:
        """Write again what was kept, and what came meanwhile with it: who asks from outside is to be told if it fails again."""
        room = LARGEST_BATCH - len(self._writing)
        self._writing += [self._pending.popleft() for _ in range(min(room, len(self._pending)))]
        self._number += 1
        self._send()

    def fence(self) -> None:
        """The worker's row has ended: write nothing more. What is under way right now comes back by itself, refused or not."""
        self._fenced = True
        lost = list(self._pending)
        self._pending.clear()
        if not self._sent and not self._unsettled:
            lost, self._writing = [*self._writing, *lost], []
        self._on_fenced()
        for _, done in lost:
            _tell(done, Lost("fenced"))
        self._continue()


def _tell(done: Callable[[Outcome], None], outcome: Outcome) -> None:
    try:
        done(outcome)
    except Exception:
        logger.exception("a commit's outcome could not be handled")
