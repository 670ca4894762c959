"""The gate: what stands outside of runs goes through it to reach them. Starts, messages, answers, reads, observations.

Every open app has one. It writes through the committer and tells the worker of this process, if there is one, to look.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from perdure.core.codec import natural_encode
from perdure.core.errors import RunEnded, StoreError, WrongContext
from perdure.core.payload import pack, unpack
from perdure.core.status import Status
from perdure.listing import HistoryEntry
from perdure.stores.base import Answer, Cancel, Fenced, Send, Start
from perdure.stores.refusals import unknown_run
from perdure.stores.rows import InboxKind, Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.core.codec import Schema
    from perdure.registry import Definitions
    from perdure.runtime.process import Process
    from perdure.runtime.worker import Worker
    from perdure.stores.base import Change, Started, Store
    from perdure.stores.rows import RunRow

__all__ = ["Gate"]

T = TypeVar("T")


class Gate:
    """One open app's way to the store."""

    def __init__(self, process: Process, worker: Worker | None, definitions: Definitions) -> None:
        self._definitions = definitions
        self._changes: list[asyncio.Future[None]] = []
        self._writing = 0
        self._entries: list[asyncio.Future[None]] = []  # who waits until a fenced process has entered anew
        self._closed = False
        self.connect(process, worker)

    def connect(self, process: Process, worker: Worker | None) -> None:
        """Go through this process and worker: at first, and when a process that was fenced has entered anew."""
        self.process = process
        self.worker = worker
        process.on_change.append(self._wake_watchers)
        process.on_written.append(self._wake_watchers)
        if worker is not None:
            worker.on_settled.append(self._wake_watchers)
        _wake(self._entries)

    def disconnect(self) -> None:
        """The app closes: whoever still waits to write is told."""
        _wake(self._entries)

    def close(self) -> None:
        """The app has closed: whoever still waits, or asks by a handle that was kept, is told."""
        self._closed = True
        self.process.observers.close(_closed_error())
        _wake(self._changes)

    @property
    def quiet(self) -> bool:
        """Whether nothing goes on here: for tests that let time pass only then."""
        return (not self._writing or self.delayed) and self.process.quiet and (self.worker is None or self.worker.quiet)

    @property
    def delayed(self) -> bool:
        """Whether somebody waits here for a store that is to be tried again."""
        return bool(self._writing) and self.process.committer.pausing

    @property
    def store(self) -> Store:
        """For reads, on the reading line."""
        return self.process.store

    def now(self) -> int:
        """The time, µs since the epoch."""
        return self.process.clock.now()

    async def read(self, work: Callable[[], T]) -> T:
        """Run a read of the store off the loop."""
        self._must_be_open()
        return await self.process.read(work)

    async def fetch(self, packed: bytes | None) -> bytes:
        """A stored payload as JSON."""
        self._must_be_open()
        return await self.process.fetch(packed)

    async def write(self, change: Change) -> Any:
        """Have a change written, and let the worker here look at what it brings."""
        self._must_be_open()
        self._writing += 1
        try:
            outcome = await self._written(change)
        finally:
            self._writing -= 1
        if not isinstance(change, Start):
            self.process.written(ending=isinstance(change, Cancel))
        elif change.if_exists in ("replace", "retry_failed"):
            self.process.written(ending=True)
            if self.worker is not None:
                self.worker.holdings.look()  # it may have replaced a run of ours
        return outcome

    def _must_be_open(self) -> None:
        if self._closed:
            raise _closed_error()

    async def _written(self, change: Change) -> Any:
        while True:
            process = self.process
            writing = process.committer.write(change)
            if self.worker is not None:
                # Asked for in the same breath, so that the claim is in the same transaction as what there is to claim.
                self.worker.take()
            try:
                # A caller who stops waiting must not undo what is being written.
                return await asyncio.shield(writing)
            except Fenced:
                await self._entered_after(process)

    async def _entered_after(self, process: Process) -> None:
        """Wait until the app has entered the store anew after this process was fenced: who calls from outside need not know."""
        if process.fenced and self.process is process:
            entered: asyncio.Future[None] = process.loop.create_future()
            self._entries.append(entered)
            await entered
        if self.process is process:
            raise StoreError("this process lost its place in the store: nothing was written", hint="open the App again")

    # ── starting ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, change: Start) -> Started:
        """Create a run."""
        return await self.write(change)  # type: ignore[no-any-return]

    async def served(self, workflow: str) -> set[str]:
        """The workflows that workers on this store run, or, if this one is not among them, have ever run.

        What this process defines says nothing here: a client runs none of it, and a worker has registered it like any other.
        """
        served: set[str] = set()
        for live_only in (True, False):  # there may be many that have ended: they are looked at only if they matter
            for row in await self.read(partial(self.store.workers, live_only=live_only)):
                served.update(row.workflows)
            if workflow in served:
                break
        return served

    def packed_input(self, change: Start, data: bytes) -> Start:
        """Give a start its arguments."""
        change.input, change.blobs = pack(data, cap=self.process.options.payload_cap, where=f"arguments of {change.workflow}")
        change.digest = hashlib.blake2b(data, digest_size=16).digest()
        return change

    def signal(self, name: str, value: Any, uid: str, by: str = "") -> tuple[Message, list[Any]]:
        """A message and the blobs of its value."""
        packed, blobs = pack(
            natural_encode(value, where=f"message {name}"), cap=self.process.options.payload_cap, where=f"message {name}"
        )
        message = Message(number=0, run=0, kind=InboxKind.SIGNAL, name=name, value=packed, by=by, uid=uid, at=self.now())
        return message, blobs

    async def send(self, run_id: str, name: str, value: Any, *, uid: str = "") -> None:
        """Leave a message for a run."""
        message, blobs = self.signal(name, value, uid)
        await self.write(Send(run_id=run_id, message=message, blobs=blobs))

    async def request(self, run_id: str, name: str, value: Any, uid: str) -> Any:
        """Leave a message and wait for its reply; a run that ends without replying is `RunEnded`."""
        reply = asyncio.ensure_future(self.process.observers.reply(uid))
        try:
            await self.send(run_id, name, value, uid=uid)
            row = await self.read(lambda: self.store.run(run_id))
            if row is None:
                raise unknown_run(run_id)
            self.process.changed()  # the reply may have come before we waited
            end = asyncio.ensure_future(self.settled(row))
            try:
                await asyncio.wait([reply, end], return_when=asyncio.FIRST_COMPLETED)
            finally:
                end.cancel()
            if not reply.done():
                packed = await self.read(lambda: self.store.reply(uid))
                if packed is None:
                    raise RunEnded(
                        f"the run ended without replying to {name!r}",
                        run=run_id,
                        hint=f"perdure runs show {run_id} shows its outcome",
                    )
                return msgspec.json.decode(await self.fetch(packed))
            return msgspec.json.decode(await self.fetch(reply.result()))
        finally:
            reply.cancel()

    async def answer(self, id: str, state: str, data: bytes, *, failed: bool, by: str, uid: str = "") -> None:
        """Resolve a promise."""
        packed, blobs = pack(data, cap=self.process.options.payload_cap, where=f"answer to {id}")
        await self.write(Answer(id=id, state=state, value=packed, failed=failed, by=by, at=self.now(), uid=uid, blobs=blobs))

    # ── observing ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def settled(self, row: RunRow) -> RunRow:
        """Wait until a run has ended or is blocked, and give its row then."""
        if row.ended_at or row.status == Status.BLOCKED:
            return row
        if self.is_here(row.number):
            return await self.process.observers.end(row.number)
        waiting = asyncio.ensure_future(self.process.observers.end(row.number))
        await asyncio.sleep(0)  # it waits now; what ended before is seen by looking once more
        try:
            rows = await self.read(lambda: self.store.runs_by_number([row.number]))
            if rows and (rows[0].ended_at or rows[0].status == Status.BLOCKED):
                return rows[0]
            return await waiting
        finally:
            waiting.cancel()

    def is_here(self, run: int) -> bool:
        """Whether the worker of this process drives a run: then its end is told here, and nothing has to be read."""
        return self.worker is not None and run in self.worker.drivers

    async def changed(self) -> None:
        """Wait until something may have changed in the store."""
        future: asyncio.Future[None] = self.process.loop.create_future()
        self._changes.append(future)
        await future

    def _wake_watchers(self) -> None:
        _wake(self._changes)

    async def history(self, run: int, after: int, limit: int) -> list[HistoryEntry]:
        """A journal as people see it."""

        def read() -> list[HistoryEntry]:
            entries = self.process.unpacked(self.store.journal(run, after, limit))
            arguments = [
                unpack(entry.note.arguments, self.store.blobs) if entry.note and entry.note.arguments else None
                for entry in entries
            ]
            return [HistoryEntry.of(entry, each) for entry, each in zip(entries, arguments, strict=True)]

        return await self.read(read)

    def result_schema(self, workflow: str) -> Schema[Any] | None:
        """How the results of a workflow are restored, if it is known here."""
        definition = self._definitions.workflow(workflow)
        return definition.schema if definition is not None else None


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    """Wake whoever waits; those who wait again are not among them."""
    futures = waiting[:]
    waiting.clear()
    for future in futures:
        if not future.done():
            future.set_result(None)


def _closed_error() -> WrongContext:
    return WrongContext("this App was closed", hint="open it again, and get the run anew: app.handle(id)")
