"""What people are shown of runs, journals and the inbox: plain, read-only values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from perdure.core.payload import unpack
from perdure.core.status import Status
from perdure.runtime.replay import DRIFT
from perdure.runtime.steps import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perdure.core.entry import Entry
    from perdure.stores.base import Store
    from perdure.stores.rows import PromiseRow, PublishedRow, RunRow, WorkerRow

__all__ = ["Blockage", "HistoryEntry", "OpenPromise", "Page", "RunInfo", "WorkerInfo", "drifts_of", "is_shown", "moment"]

T = TypeVar("T")


def moment(microseconds: int | None) -> datetime | None:
    """A stored time as an aware datetime; None for never."""
    if not microseconds:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a long list: iterate over it, or take its `items`. `next` asks for the following page; None when this is the
    last.
    """

    items: list[T]
    next: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def is_shown(row: PublishedRow) -> bool:
    """Whether the run's own code published this. Other rows hold what perdure keeps beside it."""
    return row.key != DRIFT and not row.key.startswith(PROGRESS)


def drifts_of(store: Store, run: int) -> list[str]:
    """What a run was last found to have drifted by. Runs on the reading line."""
    kept = [each.value for each in store.published(run) if each.key == DRIFT]
    return [text for packed in kept for text in msgspec.json.decode(unpack(packed, store.blobs), type=list[str])]


@dataclass(frozen=True, slots=True)
class Blockage:
    """Why a run is blocked: both sides of a divergence, or the call that was refused, and the place in the code."""

    code: str
    reason: str
    hint: str
    recorded: list[str]
    asked: list[str]
    where: str
    build: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as it stands."""

    id: str
    workflow: str
    status: Status
    tags: list[str]
    created_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    wakes_at: datetime | None
    cancel_requested_at: datetime | None
    entries: int
    recoveries: int
    worker: int
    version: str
    blocked: Blockage | None = None
    drifts: list[str] = field(default_factory=list)  # arguments that changed under recorded results; where one run is shown
    number: int = field(default=0, repr=False)

    @classmethod
    def of(cls, row: RunRow, drifts: Iterable[str] = ()) -> RunInfo:
        """The public view of a stored run, and of its `drifts_of`."""
        status = Status(row.status)
        blocked = None
        if row.blocked is not None and status is Status.BLOCKED:
            b = row.blocked
            blocked = Blockage(b.code, b.reason, b.hint, b.recorded, b.asked, b.where, b.build, moment(b.at))
        return cls(
            id=row.id,
            workflow=row.workflow,
            status=status,
            tags=row.tags,
            created_at=moment(row.created_at),
            started_at=moment(row.started_at),
            ended_at=moment(row.ended_at),
            wakes_at=moment(row.due_at) if status in (Status.WAITING, Status.DELAYED) else None,
            cancel_requested_at=moment(row.cancel_at),
            entries=row.sequence,
            recoveries=row.recoveries,
            worker=row.owner,
            version=row.version,
            blocked=blocked,
            drifts=list(drifts),
            number=row.number,
        )


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry of a run's journal, its values as JSON data."""

    sequence: int
    kind: str
    key: str
    at: datetime | None
    value: Any
    failed: bool
    attempt: int
    arguments: Any
    name: str
    by: str
    subject: str
    deadline: datetime | None
    retry_at: datetime | None
    began_at: datetime | None

    @classmethod
    def of(cls, entry: Entry, arguments: bytes | None) -> HistoryEntry:
        """The public view of an entry whose value is unpacked already."""
        note = entry.note
        return cls(
            sequence=entry.sequence,
            kind=str(entry.kind),
            key=entry.key,
            at=moment(entry.time),
            value=_data(entry.value),
            failed=entry.failed,
            attempt=note.attempt if note else 0,
            arguments=_data(arguments),
            name=note.name if note else "",
            by=note.by if note else "",
            subject=note.subject if note else "",
            deadline=moment(note.deadline) if note else None,
            retry_at=moment(note.retry_at) if note else None,
            began_at=moment(note.began) if note else None,
        )


def _data(json: bytes | None) -> Any:
    return msgspec.json.decode(json) if json else None


@dataclass(frozen=True, slots=True)
class OpenPromise:
    """A promise or ask: in the inbox while `state` is open."""

    id: str
    kind: str
    name: str
    question: str
    to: str
    state: str
    run: str
    workflow: str
    schema: dict[str, Any]
    opened_at: datetime | None
    deadline: datetime | None
    resolved_at: datetime | None
    by: str
    problem: str

    @classmethod
    def of(cls, row: PromiseRow) -> OpenPromise:
        """The public view of a stored promise."""
        return cls(
            id=row.id,
            kind=row.kind,
            name=row.name,
            question=row.question,
            to=row.to,
            state=row.state,
            run=row.run_id,
            workflow=row.workflow,
            schema=msgspec.json.decode(row.schema) if row.schema else {},
            opened_at=moment(row.opened_at),
            deadline=moment(row.deadline),
            resolved_at=moment(row.resolved_at),
            by=row.by,
            problem=row.problem,
        )


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One start of a process with an app."""

    number: int
    name: str
    role: str
    version: str
    build: str
    runs: int
    started_at: datetime | None
    seen_at: datetime | None
    ended_at: datetime | None
    end: str

    @classmethod
    def of(cls, row: WorkerRow) -> WorkerInfo:
        """The public view of a stored worker."""
        return cls(
            number=row.number,
            name=row.name,
            role=row.role,
            version=row.version,
            build=row.build,
            runs=row.runs,
            started_at=moment(row.started_at),
            seen_at=moment(row.seen_at),
            ended_at=moment(row.ended_at),
            end=row.end,
        )
