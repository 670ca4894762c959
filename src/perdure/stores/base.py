"""The store contract: what every store does for the runtime, verb by verb, with its guarantees.

Theory of operation. All durable changes travel as *changes* (below) in batches: `commit(batch)` writes a whole batch in
one transaction, in order, and answers each change with its outcome. Reads are separate verbs and see committed state.

Guarantees of `commit`:

1. *All or nothing.* Either every change of the batch that was not turned down is durable when it returns, or it raises
   `StoreError` and nothing of it is. After an unknown outcome (an error while committing) the batch number decides: the
   store looks whether `batch.number` stands in the worker's row. If it cannot even look, it raises `Unsettled`: then the very
   same batch under the very same number has to be sent again, which either writes it or gives the outcomes it had.
2. *Fence.* A batch of a worker whose row has ended raises `Fenced`: nothing is written.
3. *Owner.* An `Advance` is written only if the run is owned by `batch.worker` under exactly `claim` and its journal's last
   entry is exactly `sequence`; otherwise its outcome is `Lost`, and the others are written all the same. One statement
   checks all runs of the batch.
4. *Isolation of faults.* A change that can never be written (a constraint, a value that is too big) has its exception as
   its outcome; the others of its batch are written.
5. *Wake-up.* Every change that leaves something for a run raises its `inbox` counter and, if nobody owns it and it is
   neither paused nor blocked nor still delayed, makes it due now (a cancel makes it due in any case). Parking is
   conditional on the counter, so no wake-up is lost; a run that is parked by the change that leaves it a message is due.
6. Verbs are plain blocking functions that may be called from any one thread at a time per kind: `commit` from the
   committer's thread, reads from another. They take times as arguments; a store reads no clock.

A store may know SQL, rows and changes. It may not know workflows, codecs, event loops or clocks.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure.core.entry import Entry, Note
from perdure.core.errors import StoreError
from perdure.core.payload import Blob

from .rows import Blocked, Claimed, Message, PromiseRow, PublishedRow, RunRow, Suspect, WorkerRow

__all__ = [
    "Advance",
    "Answer",
    "Batch",
    "Blob",
    "Cancel",
    "Change",
    "Claim",
    "Conflict",
    "End",
    "Fenced",
    "Filter",
    "Lost",
    "Outcome",
    "Park",
    "Pause",
    "Pulse",
    "Resume",
    "Send",
    "Start",
    "Started",
    "Store",
    "Takeover",
    "Unsettled",
]


class Fenced(Exception):
    """The worker's row has ended: somebody took its runs over. It must stop at once and write nothing more."""


class Unsettled(StoreError):
    """A batch may or may not have been written, and the store cannot look at the moment. The same batch again settles it."""


# ── changes: what a batch is made of ────────────────────────────────────────────────────────────────────────────────


class Start(msgspec.Struct, kw_only=True):
    """Create a run. Outcome: `Started`, or `DuplicateRun`.

    `if_exists`: `return` answers with the run that is there, if its workflow and digest are the same, else `DuplicateRun`;
    `reject` is always `DuplicateRun`; `replace` cancels a live one at once (ended `cancelled`, its open promises cancelled,
    its owner will find itself `Lost`) and gives the id to the new run (the old row keeps its number and gets the id
    `old~number`); `retry_failed` starts anew in the same manner if the old one failed or was cancelled, else returns it.
    """

    id: str
    workflow: str
    input: bytes
    digest: bytes
    at: int
    version: str = ""
    due_at: int = 0
    deadline_at: int = 0
    if_exists: str = "return"
    tags: list[str] = msgspec.field(default_factory=list)
    priority: int = 0
    parent: int = 0
    parent_key: str = ""
    detached: bool = False
    messages: list[Message] = msgspec.field(default_factory=list)  # start-with-message; `run` is filled by the store
    blobs: list[Blob] = msgspec.field(default_factory=list)
    deliver: bool = True  # also deliver `messages` when an existing run is returned


class Started(msgspec.Struct):
    """The outcome of `Start`: the run as it is now, and whether this change created it."""

    run: RunRow
    created: bool


class Send(msgspec.Struct, kw_only=True):
    """Leave a message in a run's inbox, found by `run_id`. Outcome: the message's number (an int), or `UnknownRun`,
    or `RunEnded`. A message whose `uid` was left for this run before is not left again: the outcome is 0.
    """

    run_id: str
    message: Message
    blobs: list[Blob] = msgspec.field(default_factory=list)


class Answer(msgspec.Struct, kw_only=True):
    """Resolve a promise by id: `state` is `answered` or `rejected`. Outcome: None, `UnknownWait` or `AlreadyResolved`.

    Conditional on the promise being open and `at` being before its deadline. In the same transaction the run gets a
    `resolved` message with the promise's key. The same `uid` again is no error.
    """

    id: str
    state: str
    value: bytes | None
    failed: bool
    by: str
    at: int
    uid: str = ""
    blobs: list[Blob] = msgspec.field(default_factory=list)


class Cancel(msgspec.Struct, kw_only=True):
    """Request cancellation of a run and, recursively, of its live attached children. Outcome: the run's status *before*.

    Recorded once per run (`cancel_at`); each gets one `cancel` message and its open promises become `cancelled`. A queued,
    delayed or paused run that no worker ever claimed (`started_at` 0) ends `cancelled` at once, as does one already ended: not
    touched. A blocked run ends `cancelled` at once too. Ending one here notifies its parent like `End`. `UnknownRun` if none.
    """

    run_id: str
    by: str
    at: int
    reason: str = ""


class Pause(msgspec.Struct, kw_only=True):
    """Pause a run: at once if nobody owns it (status `paused`, not claimed before it is resumed), else by a `pause` message to
    its owner. A delayed run keeps its start time. Outcome: the status before; `UnknownRun`, `RunEnded`.
    """

    run_id: str
    by: str
    at: int


class Resume(msgspec.Struct, kw_only=True):
    """Undo a pause, or let every build try a blocked run again: queued and due now, or delayed until its start time (and a
    `resume` message if it is owned). A `pause` message that an owner who is gone has left is taken away. Outcome: the status before; `UnknownRun`, `RunEnded`.
    """

    run_id: str
    by: str
    at: int


class Claim(msgspec.Struct, kw_only=True):
    """Take due runs that nobody owns: owner set, claim number raised, status `running`, `started_at` set if it is 0.

    Outcome: a list of `Claimed`, at most `limit`, those due longest first (higher `priority` first among equals), only of
    `workflows` (None: all), never one that `build` is blocked for, never a paused one unless its cancellation is requested,
    never one of a version other than `versions` says for its workflow (None: whatever its version).
    `only`: just this run number. Two workers never get the same run.
    A run that was never claimed gets the journal's first entry in the same transaction: `started`, at `at`, with `started`
    as its note (and the run's `version` in it), so that its seed is durable before its code runs.
    """

    at: int
    limit: int
    build: str
    started: Note
    workflows: list[str] | None = None
    versions: dict[str, str] | None = None  # of workflows that declare one; runs without a version fit every one
    only: int = 0
    least_crashes: int = 0  # only runs with at least so many crashes (an isolated worker)
    most_crashes: int = 1_000_000  # only runs with at most so many


class Takeover(msgspec.Struct, kw_only=True):
    """End another worker's row and make its runs claimable. Outcome: the numbers of the runs freed.

    `proven`: the process is known to be dead; else only its lease ran out, and the change does nothing (outcome `[]`) unless
    `lease_until` is still below `at`. Each freed run that was `running` gets `crashes + 1` and `recoveries + 1`, due now.
    """

    worker: int
    proven: bool
    at: int


class Park(msgspec.Struct, kw_only=True):
    """Let go of a run that waits: no owner, due at `wake_at` (None: only by a message), status as given."""

    status: str  # waiting | queued (handed back while draining) | paused | blocked
    wake_at: int | None = None
    inbox: int = 0  # the counter last seen: if the row's is higher, the outcome is Conflict("inbox")
    active: int = 0  # the row's new total; it never goes back
    blocked: Blocked | None = None


class End(msgspec.Struct, kw_only=True):
    """The run's final outcome. Its open promises become `cancelled`, its inbox is emptied, its live attached children get
    their cancellation requested, and its parent, if live, gets a `child_ended` message with this value.
    """

    status: str  # succeeded | failed | cancelled
    value: bytes | None
    failed: bool
    at: int
    active: int = 0


class Advance(msgspec.Struct, kw_only=True):
    """Everything that one run's owner wants written together. Outcome: None, `Lost`, or `Conflict`.

    A `Conflict` writes nothing of this change. Order inside: consume, reopen, expire, close, entries, opened, children, sends,
    replies, published, then park or end.
    """

    run: int
    claim: int
    sequence: int  # the journal's last entry before `entries`
    entries: list[Entry] = msgspec.field(default_factory=list)
    blobs: list[Blob] = msgspec.field(default_factory=list)
    consumed: list[int] = msgspec.field(default_factory=list)  # inbox rows that `entries` record; all must exist
    opened: list[PromiseRow] = msgspec.field(default_factory=list)
    expired: list[str] = msgspec.field(default_factory=list)  # whose deadline is recorded; Conflict("answered") if not open
    closed: list[str] = msgspec.field(default_factory=list)  # open promises nobody waits for any more: become `cancelled`
    reopened: list[tuple[str, str]] = msgspec.field(default_factory=list)  # (promise, problem): its answer was sent back
    children: list[Start] = msgspec.field(default_factory=list)  # Conflict("child", i) if its id is taken by another run
    sends: list[Send] = msgspec.field(default_factory=list)  # Conflict("send", i) if the run is unknown or has ended
    replies: list[tuple[str, bytes]] = msgspec.field(default_factory=list)  # (uid of the message, packed value)
    published: list[tuple[str, bytes]] = msgspec.field(default_factory=list)
    progress: bool = False  # reset `crashes`
    status: str = ""  # a new status while still owned (running, waiting)
    wake_at: int | None = None  # shown with `waiting`
    park: Park | None = None
    end: End | None = None
    at: int = 0


class Lost(msgspec.Struct):
    """The run is not this worker's any more under this claim: drop it, write nothing for it."""

    reason: str = ""


class Conflict(msgspec.Struct):
    """The change did not fit what others committed meanwhile; nothing of it was written."""

    kind: str  # inbox | answered | child | send | consumed
    index: int = 0  # which of the change's children or sends; for `inbox` the counter as it is now
    detail: str = ""  # what is wrong, as a sentence
    ended: bool = False  # of a send: its run is known, but has ended


Change = Start | Send | Answer | Cancel | Pause | Resume | Claim | Takeover | Advance
Outcome = Started | int | str | list[Claimed] | list[int] | Lost | Conflict | Exception | None


class Batch(msgspec.Struct, kw_only=True):
    """One transaction. `number` grows by one per batch of a worker; the commit renews the worker's lease to `lease_until`."""

    worker: int
    number: int
    lease_until: int
    at: int
    changes: list[Change]


# ── reads ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Filter(msgspec.Struct, kw_only=True):
    """Which runs to list. Every set field must hold. Pages go from the newest run to the oldest by `before` (a run number)."""

    statuses: list[str] = msgspec.field(default_factory=list)
    workflow: str = ""
    tags: list[str] = msgspec.field(default_factory=list)
    id_prefix: str = ""
    created_from: int = 0
    created_until: int = 0
    before: int = 0
    limit: int = 50


class Pulse(msgspec.Struct):
    """What one heartbeat brings back."""

    alive: bool  # False: this worker was fenced
    expired: list[int]  # workers whose lease is over, and those that own runs though their row ended or is gone
    next_due: int | None  # the earliest `due_at` of a run that nobody owns and that this worker's build is not blocked for


class Store(Protocol):
    """About twenty verbs. See the module's docstring for what all of them promise."""

    uid: str
    """A random identity of the database, made with it; idempotency keys are derived from it."""

    def open(self) -> None:
        """Connect; create or migrate the schema under a lock (any number of processes at once).

        Raises `StoreNewer` or `StoreCorrupt` without writing, `StoreUnavailable` naming path and reason.
        """
        ...

    def close(self) -> None:
        """Give up every connection and lock. Never raises."""
        ...

    def enter(self, worker: WorkerRow) -> int:
        """Insert a worker row and return its number; on SQLite also take the OS lock that proves this process alive."""
        ...

    def leave(self, worker: int, at: int) -> None:
        """End a worker's row (`closed`), free what it still owns (queued, due now), drop its lock. No crash is counted; runs
        that were `running` count a recovery, so that a step which was cut off begins its next attempt under a new number. The
        row of a process that hosts no worker (`client`) is not kept, here and when it is taken over.
        """
        ...

    def heartbeat(self, worker: int, at: int, lease_until: int) -> Pulse:
        """Renew the lease and look round: one round trip."""
        ...

    def dead_workers(self) -> list[int]:
        """Workers of this machine whose process is proven dead though their row has not ended. Makes no query when nothing
        changed; `[]` where the store cannot know.
        """
        ...

    def changed(self) -> bool:
        """A cheap hint (no query): may another process have committed since the last call? May say yes for nothing."""
        ...

    def commit(self, batch: Batch) -> list[Outcome]:
        """Write a batch; one outcome per change, in order. Raises `Fenced` or `StoreError` when nothing was written."""
        ...

    def journal(self, run: int, after: int = 0, limit: int = 0) -> list[Entry]:
        """A run's entries in order, those with `sequence > after`, at most `limit` (0: all)."""
        ...

    def journals(self, runs: list[int]) -> dict[int, list[Entry]]:
        """The whole journals of several runs in one go."""
        ...

    def blobs(self, addresses: list[bytes]) -> dict[bytes, bytes]:
        """Content-addressed pieces by address. A missing one is not in the answer."""
        ...

    def messages(self, worker: int, after: int) -> list[Message]:
        """Inbox rows with `number > after` of all runs that `worker` owns, oldest first."""
        ...

    def run(self, id: str) -> RunRow | None:
        """A run by id."""
        ...

    def runs_by_number(self, numbers: list[int]) -> list[RunRow]:
        """Runs by number, those that exist."""
        ...

    def children(self, run: int) -> list[RunRow]:
        """The child runs of a run, oldest first."""
        ...

    def suspects(self, least_crashes: int, limit: int = 16) -> list[Suspect]:
        """Runs that are due, that nobody owns, and that have at least so many crashes (one or more), the worst first."""
        ...

    def list_runs(self, filter: Filter) -> list[RunRow]:
        """A page of runs, newest first."""
        ...

    def count_runs(self) -> dict[str, int]:
        """How many runs there are, per status."""
        ...

    def promises(
        self, *, open_only: bool = True, run: int = 0, kind: str = "", to: str = "", after: str = "", limit: int = 100
    ) -> list[PromiseRow]:
        """Promises and asks, oldest first, in pages by the id of the last one seen."""
        ...

    def promise(self, id: str) -> PromiseRow | None:
        """One promise by id, whatever its state."""
        ...

    def published(self, run: int) -> list[PublishedRow]:
        """What a run has published."""
        ...

    def reply(self, uid: str) -> bytes | None:
        """The reply to a message, if it was replied to."""
        ...

    def workers(self, *, live_only: bool = True) -> list[WorkerRow]:
        """Worker rows with the number of runs each owns."""
        ...

    def worker(self, number: int) -> WorkerRow | None:
        """One worker row."""
        ...

    def messages_for(self, run: int) -> list[Message]:
        """The inbox of one run, oldest first."""
        ...

    def check(self) -> list[str]:
        """What is wrong with the database, one line each: integrity, gaps in journals, dangling blobs and rows."""
        ...

    def info(self) -> dict[str, object]:
        """Facts for people: path or address, schema version, size in bytes, rows per table."""
        ...
