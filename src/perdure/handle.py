"""A handle on a run: observe it, send to it, steer it. Holding or losing one changes nothing about the run."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from perdure.core.codec import decode_error, schema_of
from perdure.core.duration import microseconds, show
from perdure.core.errors import PerdureError, RunBlocked, RunCancelled, RunFailed
from perdure.core.status import Status
from perdure.listing import HistoryEntry, RunInfo, drifts_of, is_shown
from perdure.runtime.clock import within
from perdure.stores.base import Cancel, Pause, Resume
from perdure.stores.refusals import unknown_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from perdure.core.codec import Schema
    from perdure.core.duration import Duration
    from perdure.gate import Gate
    from perdure.stores.rows import RunRow

__all__ = ["Handle"]

R = TypeVar("R")


class Handle(Generic[R]):
    """A run by its id."""

    def __init__(self, gate: Gate, id: str, number: int = 0, schema: Schema[R] | None = None) -> None:
        self._gate = gate
        self._id = id
        self._number = number
        self._schema = schema

    @property
    def id(self) -> str:
        """The run's id."""
        return self._id

    def __repr__(self) -> str:
        return f"<run {self._id}>"

    async def _row(self) -> RunRow:
        """The row of the run that this handle was made for: by number once it is known, since an id may be replaced."""
        store = self._gate.store
        if self._number:
            rows = await self._gate.read(lambda: store.runs_by_number([self._number]))
            row = rows[0] if rows else None
        else:
            row = await self._gate.read(lambda: store.run(self._id))
        if row is None:
            raise unknown_run(self._id)
        self._number = row.number
        return row

    async def info(self) -> RunInfo:
        """The run as it stands. Raises `UnknownRun`."""
        row, store = await self._row(), self._gate.store
        return RunInfo.of(row, await self._gate.read(lambda: drifts_of(store, row.number)))

    async def status(self) -> Status:
        """What the run is doing. Raises `UnknownRun`."""
        return Status((await self._row()).status)

    def _within(self, timeout: Duration | None, what: str) -> AbstractAsyncContextManager[None]:
        """By the app's clock: a test's time is virtual here too."""
        length = None if timeout is None else microseconds(timeout, "timeout")
        return within(self._gate.process.clock, length, f"run {self._id} {what} within {show(length or 0)}; it goes on")

    async def result(self, *, timeout: Duration | None = None) -> R:
        """Wait for the run's end and give its result. Waiting only observes: cancelling it never touches the run.

        Raises `RunFailed` (its `__cause__` is what the workflow raised), `RunCancelled`, `RunBlocked` when the run cannot go on
        without a decision, `TimeoutError` after `timeout`, `UnknownRun`.
        """
        async with self._within(timeout, "did not end"):
            if self._number and self._gate.is_here(self._number):
                row = await self._gate.process.observers.end(self._number)
            else:
                row = await self._gate.settled(await self._row())
        if row.status == Status.BLOCKED:
            reason = row.blocked.reason if row.blocked is not None else "unknown reason"
            raise RunBlocked(
                f"the run is blocked: {reason}",
                run=self._id,
                hint=(row.blocked.hint if row.blocked else "") or f"perdure runs why {self._id}",
            )
        data = await self._gate.fetch(row.result)
        if row.status == Status.SUCCEEDED:
            schema: Schema[Any] = self._schema or self._gate.result_schema(row.workflow) or schema_of(Any)
            return schema.decode(data)  # type: ignore[no-any-return]
        if row.status == Status.CANCELLED:
            raise RunCancelled("the run was cancelled", run=self._id)
        cause = decode_error(data)
        text = cause.message if isinstance(cause, PerdureError) else str(cause)
        raise RunFailed(f"the run failed: {type(cause).__name__}: {text}", run=self._id) from cause

    async def send(self, name: str, value: Any = None, *, id: str | None = None) -> None:
        """Leave a message for the run: it is durable when this returns, and received once.

        The same `id` again is the same message (a redelivered webhook). Raises `UnknownRun`, `RunEnded`, `NotStorable`.
        """
        await self._gate.send(self._id, name, value, uid=id or "")

    async def request(self, name: str, value: Any = None, *, timeout: Duration | None = None, id: str | None = None) -> Any:
        """Send a message and wait for its `.reply`. Raises `TimeoutError` after `timeout`, `UnknownRun`, `RunEnded`."""
        uid = id or f"request-{secrets.token_hex(8)}"
        async with self._within(timeout, f"did not reply to {name!r}"):
            return await self._gate.request(self._id, name, value, uid)

    async def cancel(self, reason: str = "", *, by: str = "") -> Status:
        """Request the run's cancellation, and its attached children's. Gives its status before: an ended one stays as it is."""
        change = Cancel(run_id=self._id, by=by, at=self._gate.now(), reason=reason)
        return Status(await self._gate.write(change))

    async def pause(self, *, by: str = "") -> Status:
        """Pause the run: attempts finish and are recorded, nothing new starts. Gives its status before. Raises `RunEnded`."""
        return Status(await self._gate.write(Pause(run_id=self._id, by=by, at=self._gate.now())))

    async def resume(self, *, by: str = "") -> Status:
        """Resume a paused run, or let a blocked one be tried again. Gives its status before. Raises `RunEnded`."""
        return Status(await self._gate.write(Resume(run_id=self._id, by=by, at=self._gate.now())))

    async def get(self, key: str, default: Any = None) -> Any:
        """The value that the run last published under a key, as JSON data."""
        return (await self.published()).get(key, default)

    async def published(self) -> dict[str, Any]:
        """All values that the run has published."""
        row, store = await self._row(), self._gate.store
        rows = await self._gate.read(lambda: store.published(row.number))
        shown = filter(is_shown, rows)
        return {each.key: msgspec.json.decode(await self._gate.fetch(each.value)) for each in shown}

    async def history(self, *, after: int = 0, limit: int = 0) -> list[HistoryEntry]:
        """The run's journal, from the entry after `after` on; at most `limit` entries (0: all)."""
        row = await self._row()
        return await self._gate.history(row.number, after, limit)

    async def watch(self) -> AsyncIterator[RunInfo]:
        """The run as it stands, again whenever that changes, until it has ended."""
        last = None
        while True:
            row = await self._row()
            seen = (row.status, row.sequence, row.cancel_at)
            if seen != last:
                last = seen
                yield RunInfo.of(row)
            if row.ended_at:
                return
            await self._gate.changed()
