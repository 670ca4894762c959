"""A worker: claims due runs, gives each a driver, feeds them what others leave for them, parks and drains them.

Claiming, polling and parking are level-triggered: a hint makes the worker look, and what it sees in the store decides. So a
lost hint costs time, never a run.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.core.entry import JOURNAL_FORMAT, Entry, Kind, Note
from perdure.core.errors import StoreError
from perdure.core.payload import references, unpack
from perdure.stores.base import Claim

from .driver import Driver
from .dues import Dues
from .holdings import Holdings
from .inbox import Inbox
from .loading import load_journals
from .resting import Resting
from .suspects import LAST_CHANCE, Suspects

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.core.definition import WorkflowDefinition
    from perdure.stores.base import Advance, Cancel, End, Outcome, Park
    from perdure.stores.rows import Claimed, PromiseRow

    from .clock import Alarm
    from .process import Process

__all__ = ["Registry", "Worker"]

logger = logging.getLogger("perdure.worker")

CLAIMED_AT_ONCE = 256
CLAIM_AGAIN = 500_000  # µs after a claim that could not be written
LOSS_PAUSE = 2_000_000


class Registry:
    """The workflows that a worker knows, by name. The app fills it."""

    def names(self) -> list[str]:
        """All names, former ones included."""
        raise NotImplementedError

    def versions(self) -> dict[str, str]:
        """The declared versions of those that have one, by name: a run that began under another version is not for us."""
        raise NotImplementedError

    def workflow(self, name: str) -> WorkflowDefinition | None:
        """The workflow of a name."""
        raise NotImplementedError


class Worker:
    """The runs of one process."""

    def __init__(self, process: Process, registry: Registry) -> None:
        self.process = process
        self.registry = registry
        self.clock = process.clock
        self.loop = process.loop
        self.options = process.options
        self.committer = process.committer
        self.number = process.number
        self.build = process.build
        self.pool = ThreadPoolExecutor(process.options.threads, thread_name_prefix="perdure-step")
        self.drivers: dict[int, Driver] = {}
        self.stubs: dict[str, Any] = {}  # bodies that stand in for steps, in tests
        self.isolate: Callable[[int], Awaitable[None]] | None = None  # runs one run in a process of its own until it leaves
        self.only = 0  # the one run that an isolated worker may claim
        self.draining = False
        self._losses: dict[int, int] = {}  # run: when it was last lost
        self.suspects = Suspects(self)
        self.holdings = Holdings(self)
        self._claiming = False
        self._claim_again = False
        self._later: Alarm | None = None  # a claim that failed is tried again then
        self._stopped = False
        self.inbox = Inbox(self)
        self.dues = Dues(self.clock, self._is_due)
        self.resting = Resting(self)
        self._driving = _Driving()
        self._empty: asyncio.Event = asyncio.Event()
        self.on_opened: list[Callable[[str, PromiseRow], None]] = []  # a promise or ask is open
        self.on_settled: list[Callable[[], None]] = []  # a run of ours moved
        process.on_change.append(self.look)
        process.on_change.append(self.suspects.look)  # another process may have made the takeover that left them
        process.on_written.append(self.inbox.look_if_busy)
        process.on_floor.append(self.inbox.look_if_busy)
        process.on_floor.append(self.holdings.look)
        process.on_due.append(self.dues.add)
        process.on_fenced.append(self.stop_at_once)
        process.on_pulse.append(self.suspects.look)
        process.describe = self._driving.describe

    def succeed(self, former: Worker) -> None:
        """Go on for a worker that was fenced, with what was set up on it; its runs are others' now."""
        self.stubs = former.stubs
        self.isolate = former.isolate
        self.only = former.only
        self.resting.unevictable = former.resting.unevictable
        self.on_opened = former.on_opened

    # ── looking for work ────────────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Somebody may have left something: messages for runs of ours, or runs to claim."""
        self.inbox.look_if_busy()
        self.take()

    def take(self) -> None:
        """Claim what is due, as far as there is room."""
        if self.draining or self.process.fenced:
            return
        if self._claiming:
            self._claim_again = True
            return
        room = self.room
        if room <= 0:
            return
        self._claiming = True
        change = Claim(
            at=self.clock.now(),
            limit=min(room, CLAIMED_AT_ONCE),
            build=self.build,
            workflows=self.registry.names(),
            versions=self.registry.versions(),
            started=self.started_note(),
            most_crashes=LAST_CHANCE if self.isolate is None else 0,
            only=self.only,
        )
        self.committer.submit(change, lambda outcome: self._claimed(change, outcome))

    @property
    def room(self) -> int:
        """How many more runs may be in memory."""
        return self.options.residents - len(self.drivers)

    def _claim_later(self) -> None:
        if self._later is None:
            self._later = self.clock.call_later(CLAIM_AGAIN, self._claim_now)

    def _claim_now(self) -> None:
        self._later = None
        self.take()

    def started_note(self) -> Note:
        """What the first entry of a new run says: its seed, and what began it."""
        return Note(seed=os.urandom(16), python=platform.python_version(), format=JOURNAL_FORMAT)

    def _claimed(self, change: Claim, outcome: Outcome) -> None:
        self._claiming = False
        again, self._claim_again = self._claim_again, False
        if self._stopped:  # leaving the store frees what came so late
            return
        claimed: list[Claimed] = outcome if isinstance(outcome, list) else []  # type: ignore[assignment]
        if isinstance(outcome, Exception):  # the store is away for now: no hint will come for what is due already
            self._claim_later()
            return
        load = []
        for each in claimed:
            try:
                driver = self.adopt(each, change)
            except Exception as error:
                # A fault of ours may not leave a run claimed and forgotten.
                logger.exception("run %s could not be taken up", each.run.id)
                self.drivers[each.run.number].block(error)
                continue
            if driver is not None:
                load.append((driver, each.messages))
            if self.draining:  # it was asked for before the drain began
                self.drivers[each.run.number].hand_back()
        if load:
            load_journals(self, load)
        if again or len(claimed) == change.limit:
            self.take()
        elif claimed and self.dues.exhausted:
            self.dues.exhausted = False
            self.process.beat()

    def adopt(self, claimed: Claimed, change: Claim) -> Driver | None:
        """Give a claimed run its driver; the driver is returned if its journal has to be read before it can go on."""
        row = claimed.run
        definition = self.registry.workflow(row.workflow)
        if definition is None:  # it was redefined away between asking and getting
            logger.error("claimed run %s of a workflow that is not known any more", row.id)
            return None
        old = self.drivers.pop(row.number, None)
        if old is not None:
            old.drop()
        driver = Driver(self, row, definition)
        self.drivers[row.number] = driver
        if row.claim == 1 and row.sequence == 1 and not claimed.messages and not references(row.input):
            driver.facts.input = unpack(row.input)
            note = msgspec.structs.replace(change.started, version=row.version)
            driver.load([Entry(1, Kind.STARTED, "", row.started_at, None, False, note)], [])
            return None
        return driver

    @property
    def quiet(self) -> bool:
        """Whether nothing goes on: no claim, no poll, and every run rests."""
        return (
            not (self._claiming or self.inbox.looking)
            and self.holdings.quiet
            and all(driver.quiet for driver in self.drivers.values())
        )

    def _is_due(self) -> None:
        self.take()
        self.suspects.look()  # what is due may be a suspect, which take() leaves alone

    # ── what drivers tell ───────────────────────────────────────────────────────────────────────────────────────────

    def driving(self, driver: Driver) -> _Driving:
        """Remember whose code runs, for the watchdog."""
        self._driving.driver = driver
        return self._driving

    def ended(self, driver: Driver, end: End) -> None:
        """A run has its outcome."""
        row = driver.row
        row.status, row.result, row.failed, row.ended_at, row.owner = end.status, end.value, end.failed, end.at, 0
        logger.debug("run ended: %s", end.status, extra=driver.extra())
        self._leave(driver)
        self.process.observers.ended([row])
        self.moved()
        if row.parent or driver.had_children:
            self.look()

    def parked(self, driver: Driver, park: Park) -> None:
        """A run was let go."""
        self._leave(driver)
        if park.status == "blocked":
            driver.row.status, driver.row.blocked = park.status, park.blocked
            self.process.observers.ended([driver.row])
        elif park.wake_at is not None:
            self.dues.add(park.wake_at)
        self.moved()

    def opened(self, driver: Driver, row: PromiseRow) -> None:
        """A run opened a promise: it is durable now."""
        for told in self.on_opened:
            told(driver.id, row)

    def moved(self) -> None:
        """Tell those who watch runs that something changed."""
        for told in self.on_settled:
            told()

    def lost(self, driver: Driver, reason: str) -> None:
        """A run is not ours under its claim, or not as we thought: forget it, and look whether it is still ours."""
        self._leave(driver)
        store, process = self.process.store, self.process

        def read() -> Any:
            rows = store.runs_by_number([driver.number])
            return (rows[0], store.messages_for(driver.number)) if rows else None

        def done(found: Any, error: BaseException | None) -> None:
            if process.fenced:
                return
            process.changed()  # who waits for it here was to be told by its driver: now the store tells them
            # A run that was ended from outside (replaced) is no trouble; one that another process has may be.
            level = logging.DEBUG if found is not None and found[0].ended_at else logging.WARNING
            logger.log(
                level, "run %s left this worker: %s", driver.id, reason or "another process owns it", extra=driver.extra()
            )
            if found is None:
                return
            row, messages = found
            definition = self.registry.workflow(row.workflow)
            if row.owner == self.number and row.claim == driver.claim and not row.ended_at and definition is not None:
                again = Driver(self, row, definition)
                self.drivers[row.number] = again
                load_journals(self, [(again, messages)])

        # A second loss in a row is no race: give the cause time to go away instead of spinning on it.
        again_so_soon = self._losses.get(driver.number, 0) > self.clock.now() - LOSS_PAUSE
        self._losses[driver.number] = self.clock.now()
        if again_so_soon:
            self.clock.call_later(LOSS_PAUSE, lambda: process.reads.submit(read, done))
        else:
            process.reads.submit(read, done)

    def left(self, advance: Advance) -> None:
        """What a run of ours left for others, its last words too: perhaps for runs of ours, or for who waits here."""
        for uid, value in advance.replies:
            self.process.observers.replied(uid, value)
        if advance.sends:
            self.inbox.look_if_busy()
        if advance.sends or advance.children:
            self.take()

    def cancel_child(self, change: Cancel) -> None:
        """The code of a run gave up on a child."""

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, StoreError):  # nobody else would ask for it again
                self.clock.call_later(CLAIM_AGAIN, lambda: self.cancel_child(change))
            else:
                self.look()

        self.committer.submit(change, done)

    def _leave(self, driver: Driver) -> None:
        if self.drivers.get(driver.number) is driver:
            del self.drivers[driver.number]
        self.resting.forget(driver)
        driver.drop()
        self.suspects.cleared(driver)
        if not self.drivers:
            self._empty.set()
        elif self.room == 1:
            self.take()
            self.suspects.look()

    # ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def drain(self, bound: int) -> None:
        """Stop claiming, let attempts end within `bound` µs, hand the runs back. Parked runs never delay it."""
        self.draining = True
        for driver in list(self.drivers.values()):
            driver.hand_back()
        if bound and self.drivers and not self.process.fenced:
            self._empty.clear()
            alarm = self.clock.call_later(bound, self._empty.set)
            await self._empty.wait()
            alarm.cancel()
        left = len(self.drivers)
        if left:
            logger.warning("%d runs did not finish their steps in time and are handed back as they are", left)
        self.stop_at_once()

    def stop_at_once(self) -> None:
        """Drop every run: they are handed back, or were taken."""
        self.draining = self._stopped = True
        for driver in list(self.drivers.values()):
            self._leave(driver)
        self.resting.stop()
        self.dues.stop()
        if self._later is not None:
            self._later.cancel()
        self._empty.set()
        self.pool.shutdown(wait=False, cancel_futures=True)

    # ── what drivers ask ────────────────────────────────────────────────────────────────────────────────────────────

    def identity(self, run: int) -> bytes:
        """Bytes that are unique for a run number of this database: the source of its ids and idempotency keys."""
        return hashlib.blake2b(f"{self.process.store.uid}/{run}".encode(), digest_size=32).digest()

    def link(self, promise: str) -> str:
        """The address at which a promise can be answered."""
        if not self.options.public_url:
            return f"perdure:{promise}"
        address = f"{self.options.public_url.rstrip('/')}/v1/promises/{promise}"
        if not self.options.secret:
            return address
        return f"{address}?signature={hmac.new(self.options.secret.encode(), promise.encode(), 'sha256').hexdigest()[:32]}"

    async def proven_dead(self, worker: int) -> bool:
        """Whether a worker's process is known to have ended, so that nothing of it can still be under way."""
        row = await self.process.read(lambda: self.process.store.worker(worker))
        return row is not None and row.end == "dead"


class _Driving:
    """Marks whose code runs at the moment. One object for all: it is entered for every entry that is fed."""

    driver: Driver | None = None

    def __enter__(self) -> None:
        """The driver was set by `Worker.driving`."""

    def __exit__(self, *error: object) -> None:
        self.driver = None

    def describe(self) -> str:
        """For the watchdog."""
        driver = self.driver
        return f" by the code of run {driver.id} (workflow {driver.row.workflow})" if driver is not None else ""
