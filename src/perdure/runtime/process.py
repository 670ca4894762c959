"""One start of a process with a store: its worker row and lease, its lines to the store, its committer, its watch.

Every app has one, whether it hosts a worker or only starts and asks. What it sees of others (a changed file, a dead worker,
an expired lease) it passes on; notifications are hints, so whoever is told looks for themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.core.errors import StoreError
from perdure.core.payload import references, unpack
from perdure.core.status import Status
from perdure.stores.base import Fenced, Takeover
from perdure.stores.rows import WorkerRow

from .committer import Committer
from .lease import LeaseKeeper
from .line import InlineLine, ThreadLine, call
from .observers import Observers

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.core.entry import Entry
    from perdure.stores.base import Pulse, Store

    from .clock import Alarm, Clock
    from .line import Line
    from .options import WorkerOptions

__all__ = ["Process"]

T = TypeVar("T")
SETTLE_SECONDS = 30
"""How long a closing process waits for a store that does not take what is left."""

BEATS_PER_LOOK = 12
"""Renewals of the lease between two looks for runs that nobody may have noticed: an idle worker asks little."""

logger = logging.getLogger("perdure.process")


class Process:
    """A process's place in the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        options: WorkerOptions,
        *,
        role: str,
        build: str,
        version: str,
        workflows: list[str],
        threads: bool = True,
        before: Process | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.options = options
        self.role = role
        self.build = build
        self.version = version
        self.workflows = workflows
        self.threads = threads  # False: no threads and no housekeeping, as tests and simulations want it
        self.loop = asyncio.get_running_loop()
        self.observers: Observers = before.observers if before is not None else Observers()
        self._before = before  # a fenced one, whose open store and lines go on in this one: nobody who reads notices
        self.number = 0
        self.fenced = False
        self.on_change: list[Callable[[], None]] = []  # somebody else may have committed something
        self.on_written: list[Callable[[], None]] = []  # this process committed something, and claimed what it brought
        self.on_due: list[Callable[[int], None]] = []  # a run that nobody owns is due at this time
        self.on_floor: list[Callable[[], None]] = []  # now and then: look for what no hint told
        self.on_pulse: list[Callable[[], None]] = []  # now and then, and after each takeover
        self.on_fenced: list[Callable[[], None]] = []
        self.describe: Callable[[], str] = str
        self._keeper: LeaseKeeper | None = None
        self._watching: Alarm | None = None
        self._observing = False
        self._observe_again = False
        self._taking_over: set[int] = set()
        self._looked = 0
        self._beats = 0

    async def open(self) -> None:
        """Open the store, enter the worker row, start to watch."""
        before, self._before = self._before, None
        self.writes: Line = before.writes if before is not None else self._line("perdure-write")
        self.reads: Line = before.reads if before is not None else self._line("perdure-read")
        try:
            await call(self.writes, self.store.open)
            now = self.clock.now()
            row = WorkerRow(
                number=0,
                name=f"{socket.gethostname()}:{os.getpid()}",
                host=socket.gethostname(),
                pid=os.getpid(),
                build=self.build,
                version=self.version,
                role=self.role,
                workflows=self.workflows,
                started_at=now,
                seen_at=now,
                lease_until=now + self.options.lease,
            )
            self.number = await call(self.writes, lambda: self.store.enter(row))
        except BaseException:
            if before is None:
                self._close_store()
            raise
        self.committer = Committer(
            self.store, self.number, self.writes, self.clock, lease=self.options.lease, on_fenced=self._on_fenced
        )
        if self.threads:
            self._keeper = LeaseKeeper(self.options.lease, self.beat, self._describe)
            self._keeper.start()
            self._watch()
            self.look_for_dead()
        self.beat()

    def _line(self, name: str) -> Line:
        return ThreadLine(self.loop, name) if self.threads else InlineLine(self.loop)

    async def close(self) -> None:
        """Leave, and close the store."""
        await self.retire()
        self._close_store()

    async def retire(self) -> None:
        """Leave: what is still owned is freed, unless this process was fenced. Store and lines stay open for who comes next."""
        if self._keeper is not None:
            self._keeper.stop()
        if self._watching is not None:
            self._watching.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await self.committer.settle()
        now = self.clock.now()
        try:
            await call(self.writes, lambda: self.store.leave(self.number, now))
        except (StoreError, Fenced) as error:
            logger.warning("the worker row could not be ended, others will find the process gone: %s", error)

    def _close_store(self) -> None:
        self.writes.close()
        self.reads.close()
        self.store.close()

    def abandon(self) -> None:
        """Stop without leaving, as a killed process does. For tests and simulations."""
        if self._keeper is not None:
            self._keeper.stop()
        if self._watching is not None:
            self._watching.cancel()
        self.committer.abandon()

    @property
    def quiet(self) -> bool:
        """Whether nothing is being written or looked for; a batch that is to be tried again waits for time only."""
        return (self.committer.idle or self.committer.pausing) and not self._observing

    async def read(self, work: Callable[[], T]) -> T:
        """Run a read of the store off the loop."""
        return await call(self.reads, work)

    async def fetch(self, packed: bytes | None) -> bytes:
        """A stored payload as JSON."""
        if packed is None:
            return b"null"
        if not references(packed):
            return unpack(packed, self.store.blobs)  # it is all there: no need to leave the loop
        return await call(self.reads, lambda: unpack(packed, self.store.blobs))

    async def clock_passes(self, length: int) -> None:
        """Wait for a length of time on this process's clock."""
        passed = asyncio.Event()
        self.clock.call_later(length, passed.set)
        await passed.wait()

    def unpacked(self, entries: list[Entry]) -> list[Entry]:
        """Entries with their values as JSON. Runs on the reading line."""
        for entry in entries:
            if entry.value is not None:
                entry.value = unpack(entry.value, self.store.blobs)
        return entries

    # ── watching others ─────────────────────────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        self._watching = self.clock.call_later(self.options.watch, self._watch)
        assert self._keeper is not None
        self._keeper.tick()
        if self.store.changed():
            self.changed()
        self._looked += 1
        if self._looked % 8 == 0:
            self.look_for_dead()

    def look_for_dead(self) -> None:
        """Take over from processes that are known to have ended."""
        for worker in self.store.dead_workers():
            self.take_over(worker, proven=True)

    def _describe(self) -> str:
        return self.describe()  # set after the keeper was made

    def changed(self) -> None:
        """Somebody, perhaps another process, may have committed something."""
        self._observe()
        for told in self.on_change:
            told()

    def written(self, *, ending: bool) -> None:
        """This process committed something that others here may wait for; claims went with it in the same transaction.

        `ending`: it may have ended runs.
        """
        if ending:
            self._observe()
        for told in self.on_written:
            told()

    def beat(self) -> None:
        """Renew the lease and look round. Called from any thread."""
        now = self.clock.now()
        self.writes.submit(lambda: self.store.heartbeat(self.number, now, now + self.options.lease), self._beaten)

    def _beaten(self, pulse: Pulse | None, error: BaseException | None) -> None:
        if error is not None or pulse is None:
            logger.warning("the lease could not be renewed: %s", error)
            return
        if not pulse.alive:
            self.committer.fence()
            return
        for worker in pulse.expired:
            self.take_over(worker, proven=False)
        if pulse.next_due is not None:
            for tell_due in self.on_due:
                tell_due(pulse.next_due)
        if self._beats % BEATS_PER_LOOK == 0:
            for look in self.on_pulse:
                look()
        self._beats += 1
        # The floor under all hints: whatever was missed is found here. What is due was just told.
        self._observe()
        for told in self.on_floor:
            told()

    def take_over(self, worker: int, *, proven: bool) -> None:
        """Free the runs of a worker that is gone."""
        if worker == self.number or worker in self._taking_over:
            return
        self._taking_over.add(worker)

        def done(outcome: Any) -> None:
            self._taking_over.discard(worker)
            if isinstance(outcome, list) and outcome:
                logger.warning(
                    "took over %d %s of worker %d",
                    len(outcome),
                    "run" if len(outcome) == 1 else "runs",
                    worker,
                    extra={"perdure_worker": worker},
                )
                for look in self.on_pulse:
                    look()
                self.changed()

        self.committer.submit(Takeover(worker=worker, proven=proven, at=self.clock.now()), done)

    def _on_fenced(self) -> None:
        if not self.fenced:
            self.fenced = True
            logger.warning(
                "this worker was fenced: it was silent for longer than its lease, and another process took its runs over",
                extra={"perdure_worker": self.number},
            )
            for told in self.on_fenced:
                told()

    # ── observers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _observe(self) -> None:
        if self._observing:
            self._observe_again = True
            return
        runs, uids = self.observers.runs, self.observers.uids
        if not runs and not uids:
            return
        self._observing = True

        def look() -> Any:
            replies = {uid: value for uid in uids if (value := self.store.reply(uid)) is not None}
            return self.store.runs_by_number(runs) if runs else [], replies

        self.reads.submit(look, self._observed)

    def _observed(self, found: Any, error: BaseException | None) -> None:
        self._observing = False
        if error is None:
            rows, replies = found
            self.observers.ended(row for row in rows if row.ended_at or row.status == Status.BLOCKED)
            for uid, value in replies.items():
                self.observers.replied(uid, value)
        if self._observe_again:
            self._observe_again = False
            self._observe()
