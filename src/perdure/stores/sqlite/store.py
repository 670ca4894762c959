"""The SQLite store: the verbs of the contract, each a few lines over the modules that know.

Theory of operation. A file has two connections: the writer's, used under its lock by whoever writes (the committer, the
lease's thread), and the reader's. SQLite admits one writer per file, so the write lock of a batch, taken before anything
is read, makes each batch serial with all others of all processes: what is checked in it stays true until it commits. In
memory there is one connection and one lock for all.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.core.entry import Entry
from perdure.core.errors import StoreCorrupt, StoreUnavailable
from perdure.stores.base import Batch, Filter, Outcome, Pulse, Store, Takeover
from perdure.stores.rows import Message, PromiseRow, PublishedRow, RunRow, Suspect, WorkerRow

from . import checks, workers
from .batch import BatchWriter
from .connection import Connection, translating
from .lists import list_promises, list_runs
from .locks import WorkerLocks
from .opening import Opened, open_database
from .reading import entry_of, message_of, promise_of, run_of, worker_of
from .transaction import numbers
from .watch import Watch

__all__ = ["SqliteStore"]

_NO_LIMIT = -1  # what SQLite takes for none


class SqliteStore:
    """A store in one SQLite file, or in memory with the path `:memory:`."""

    def __init__(self, path: str, *, busy_timeout: float = 30.0) -> None:
        self.path = path if path == ":memory:" else str(Path(path).resolve())
        self.uid = ""
        self._busy_timeout = busy_timeout
        self._opened: Opened | None = None
        self._write_lock = threading.Lock()
        self._read_lock = self._write_lock if path == ":memory:" else threading.Lock()
        self._locks = None if path == ":memory:" else WorkerLocks(Path(self.path + "-workers"))

    # ── opening and closing ─────────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        """Connect; make or migrate the schema."""
        if self._opened is not None:
            return
        opened = open_database(self.path, self._busy_timeout)
        with translating(self.path):
            uid = opened.reader.row("read_fact", ("uid",))
            if uid is None:
                opened.close()
                raise StoreCorrupt(f"{self.path} has lost its identity", hint="restore a backup")
            self.uid = uid[0]
            self._batches = BatchWriter(opened.writer)
            self._watch = Watch(self.path, opened.writer)
        self._opened = opened
        _stores.add(self)

    def close(self) -> None:
        """Give up every connection and lock."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._write_lock)
            if self._read_lock is not self._write_lock:
                stack.enter_context(self._read_lock)
            opened, self._opened = self._opened, None
            if self._locks is not None:
                self._locks.close()
            if opened is not None:
                with contextlib.suppress(Exception):
                    opened.close()

    def abandon_in_child(self) -> None:
        """A forked child may not use its parent's connections, nor close them: it has to open a store of its own."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.writer.abandon()
            opened.reader.abandon()
        self._write_lock = threading.Lock()
        self._read_lock = self._write_lock if self.path == ":memory:" else threading.Lock()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._write_lock, translating(self.path):
            yield self._connections().writer

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._read_lock, translating(self.path):
            yield self._connections().reader

    def _connections(self) -> Opened:
        if self._opened is None:
            raise StoreUnavailable(
                f"{self.path} is not open in this process", hint="open the store first; after a fork, open it anew"
            )
        return self._opened

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, worker: WorkerRow) -> int:
        """Insert a worker's row and take the lock that proves this process alive."""
        with self._writing() as connection:
            with connection.transaction():
                number = workers.enter(connection, worker)
            if self._locks is not None:
                try:
                    self._locks.take(number)
                except OSError as error:
                    raise StoreUnavailable(
                        f"{self._locks.folder} cannot be used for the locks of workers: {error.strerror}",
                        hint="it must be a folder in which this process may write",
                    ) from error
            return number

    def leave(self, worker: int, at: int) -> None:
        """End a worker's row, hand its runs back, drop its lock."""
        with self._writing() as connection:
            with connection.transaction():
                workers.leave(connection, worker, at)
            if self._locks is not None:
                self._locks.drop(worker)

    def heartbeat(self, worker: int, at: int, lease_until: int) -> Pulse:
        """Renew the lease and look round."""
        with self._writing() as connection, connection.transaction():
            return workers.heartbeat(connection, worker, at, lease_until)

    def dead_workers(self) -> list[int]:
        """Workers whose process is proven dead. No query: only their lock files are tried."""
        return [] if self._locks is None else self._locks.dead()

    def workers(self, *, live_only: bool = True) -> list[WorkerRow]:
        """Worker rows with the number of runs each owns."""
        with self._reading() as connection:
            return [worker_of(row) for row in connection.rows("live_workers" if live_only else "workers")]

    def worker(self, number: int) -> WorkerRow | None:
        """One worker row."""
        with self._reading() as connection:
            row = connection.row("worker", (number,))
            return None if row is None else worker_of(row)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, batch: Batch) -> list[Outcome]:
        """Write a batch; one outcome per change."""
        with self._writing() as connection:
            outcomes = self._batches.write(batch)
            # A batch sees what others committed before it: keep that for `changed`, which finds the connection busy often.
            self._watch.look(connection)
        if self._locks is not None:
            for change in batch.changes:
                if type(change) is Takeover and change.proven:
                    self._locks.remove(change.worker)
        return outcomes

    def changed(self) -> bool:
        """Whether another process may have committed since the last call. While nothing happens this is two stats."""
        if self._opened is None or not self._watch.file_changed():
            return self._opened is not None and self._watch.take_news()
        if self._write_lock.acquire(blocking=False):
            try:
                with translating(self.path):
                    self._watch.look(self._connections().writer)
            finally:
                self._write_lock.release()
        else:
            self._watch.look_later()
        return self._watch.take_news()

    # ── journals ────────────────────────────────────────────────────────────────────────────────────────────────────

    def journal(self, run: int, after: int = 0, limit: int = 0) -> list[Entry]:
        """A run's entries in order."""
        with self._reading() as connection:
            rows = connection.rows("journal", (run << 32 | after, (run + 1 << 32) - 1, limit or _NO_LIMIT))
        return list(map(entry_of, rows))

    def journals(self, runs: list[int]) -> dict[int, list[Entry]]:
        """The whole journals of several runs."""
        journals: dict[int, list[Entry]] = {run: [] for run in runs}
        with self._reading() as connection:
            rows = connection.rows("journals", (numbers(journals),))
        for row in rows:
            journals[row[0] >> 32].append(entry_of(row))
        return journals

    def blobs(self, addresses: list[bytes]) -> dict[bytes, bytes]:
        """Content-addressed pieces by address."""
        found: dict[bytes, bytes] = {}
        with self._reading() as connection:
            for address in addresses:
                row = connection.row("blob", (address,))
                if row is not None:
                    found[address] = row[0]
        return found

    # ── runs and their inboxes ──────────────────────────────────────────────────────────────────────────────────────

    def messages(self, worker: int, after: int) -> list[Message]:
        """New inbox rows of all runs that a worker owns."""
        with self._reading() as connection:
            return [message_of(row) for row in connection.rows("messages_of_worker", (worker, after))]

    def messages_for(self, run: int) -> list[Message]:
        """The inbox of one run."""
        with self._reading() as connection:
            return [message_of(row) for row in connection.rows("messages_of_runs", (numbers([run]),))]

    def run(self, id: str) -> RunRow | None:
        """A run by id."""
        with self._reading() as connection:
            row = connection.row("run_by_id", (id,))
            return None if row is None else run_of(row)

    def runs_by_number(self, numbers_: list[int]) -> list[RunRow]:
        """Runs by number, those that exist."""
        with self._reading() as connection:
            return [run_of(row) for row in connection.rows("runs_by_number", (numbers(numbers_),))]

    def children(self, run: int) -> list[RunRow]:
        """The child runs of a run, oldest first."""
        with self._reading() as connection:
            return [run_of(row) for row in connection.rows("children", (run,))]

    def suspects(self, least_crashes: int, limit: int = 16) -> list[Suspect]:
        """Due runs with at least so many crashes."""
        with self._reading() as connection:
            return [Suspect(*row) for row in connection.rows("suspects", (least_crashes, limit))]

    def list_runs(self, filter: Filter) -> list[RunRow]:
        """A page of runs, newest first."""
        with self._reading() as connection:
            return list_runs(connection, filter)

    def count_runs(self) -> dict[str, int]:
        """How many runs there are, per status."""
        with self._reading() as connection:
            return dict(connection.rows("count_runs"))

    def published(self, run: int) -> list[PublishedRow]:
        """What a run has published."""
        with self._reading() as connection:
            return [PublishedRow(key=key, value=value, at=at) for key, value, at in connection.rows("published", (run,))]

    def reply(self, uid: str) -> bytes | None:
        """The reply to a message, if it was replied to."""
        with self._reading() as connection:
            row = connection.row("reply", (uid,))
            return None if row is None else bytes(row[0])

    # ── promises ────────────────────────────────────────────────────────────────────────────────────────────────────

    def promises(
        self, *, open_only: bool = True, run: int = 0, kind: str = "", to: str = "", after: str = "", limit: int = 100
    ) -> list[PromiseRow]:
        """A page of promises and asks, oldest first."""
        with self._reading() as connection:
            return list_promises(connection, open_only=open_only, run=run, kind=kind, to=to, after=after, limit=limit)

    def promise(self, id: str) -> PromiseRow | None:
        """One promise by id, whatever its state."""
        with self._reading() as connection:
            row = connection.row("promise", (id,))
            return None if row is None else promise_of(row)

    # ── the database itself ─────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> list[str]:
        """What is wrong with the database, one line each."""
        with self._reading() as connection:
            return checks.check(connection)

    def info(self) -> dict[str, object]:
        """Facts for people."""
        with self._reading() as connection:
            return {"path": self.path, "uid": self.uid, **checks.info(connection)}


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.abandon_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

if TYPE_CHECKING:
    _CONFORMS: type[Store] = SqliteStore
