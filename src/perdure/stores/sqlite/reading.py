"""Rows of the tables as the structs of the contract. This module may not ask the database anything."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.entry import Entry, Note
from perdure.stores.rows import Blocked, Message, PromiseRow, RunRow, WorkerRow

__all__ = ["entry_of", "message_of", "note_bytes", "promise_of", "run_of", "worker_of"]

_decode_note = msgspec.msgpack.Decoder(Note).decode
_encode_note = msgspec.msgpack.Encoder().encode
_decode_names = msgspec.json.Decoder(list[str]).decode
_decode_blocked = msgspec.json.Decoder(Blocked).decode

_SEQUENCE = (1 << 32) - 1


def note_bytes(note: Note | None) -> bytes | None:
    """A note as it is stored."""
    return None if note is None else _encode_note(note)


def entry_of(row: tuple[Any, ...]) -> Entry:
    """A row of `entry_columns`."""
    number, kind, key, time, value, failed, note = row
    return Entry(number & _SEQUENCE, kind, key, time, value, failed == 1, None if note is None else _decode_note(note))


def run_of(row: tuple[Any, ...]) -> RunRow:
    """A row of `run_columns`."""
    tags, blocked, builds = row[7], row[27], row[28]
    return RunRow(
        number=row[0],
        id=row[1],
        workflow=row[2],
        status=row[3],
        version=row[4],
        input=row[5],
        digest=row[6],
        tags=_decode_names(tags) if tags else [],
        priority=row[8],
        created_at=row[9],
        started_at=row[10],
        ended_at=row[11],
        due_at=row[12],
        deadline_at=row[13],
        active=row[14],
        owner=row[15],
        claim=row[16],
        sequence=row[17],
        inbox=row[18],
        crashes=row[19],
        recoveries=row[20],
        cancel_at=row[21],
        parent=row[22],
        parent_key=row[23],
        detached=row[24] == 1,
        result=row[25],
        failed=row[26] == 1,
        blocked=_decode_blocked(blocked) if blocked else None,
        blocked_builds=_decode_names(builds) if builds else [],
    )


def message_of(row: tuple[Any, ...]) -> Message:
    """A row of `message_columns`."""
    number, run, kind, name, key, value, failed, by, uid, at = row
    return Message(
        number=number, run=run, kind=kind, name=name, key=key, value=value, failed=failed == 1, by=by, uid=uid, at=at
    )


def promise_of(row: tuple[Any, ...]) -> PromiseRow:
    """A row of `promise_columns`."""
    return PromiseRow(
        id=row[0],
        run=row[1],
        key=row[2],
        kind=row[3],
        name=row[4],
        question=row[5],
        to=row[6],
        schema=row[7],
        state=row[8],
        opened_at=row[9],
        deadline=row[10],
        resolved_at=row[11],
        by=row[12],
        problem=row[13],
        run_id=row[14],
        workflow=row[15],
    )


def worker_of(row: tuple[Any, ...]) -> WorkerRow:
    """A row of `worker_columns`."""
    return WorkerRow(
        number=row[0],
        name=row[1],
        host=row[2],
        pid=row[3],
        build=row[4],
        version=row[5],
        role=row[6],
        workflows=msgspec.json.decode(row[7]),
        started_at=row[8],
        seen_at=row[9],
        lease_until=row[10],
        ended_at=row[11],
        end=row[12],
        runs=row[13],
    )
