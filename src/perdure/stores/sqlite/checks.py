"""Looking a database over: what is wrong with it, and how big it is. Slow on purpose: it reads everything."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path

import apsw
import msgspec

from perdure.core.entry import Note

from .connection import Connection
from .schema import VERSION

__all__ = ["check", "info"]


def check(connection: Connection) -> list[str]:
    """What is wrong, one line each; nothing more is looked at in a file that is damaged itself."""
    damage = [str(row[0]) for row in connection.rows("check_integrity") if row[0] != "ok"]
    if damage:
        return damage
    found = [
        f"the journal of run {run} has {count} entries but counts to {last}"
        for run, count, last in connection.rows("check_gaps")
    ]
    found += [
        f"{table} has {count} rows of run {run}, which does not exist" for table, run, count in connection.rows("check_orphans")
    ]
    found += [f"run {run_id} {what}" for run_id, what in connection.rows("check_runs")]
    found += _unreadable_notes(connection)
    found += _missing_blobs(connection)
    return found


def _unreadable_notes(connection: Connection) -> Iterable[str]:
    for number, note in connection.rows("check_notes"):
        try:
            msgspec.msgpack.decode(note, type=Note)
        except msgspec.MsgspecError as error:
            yield f"the note of entry {number & 0xFFFFFFFF} of run {number >> 32} cannot be read: {error}"


def _missing_blobs(connection: Connection) -> Iterable[str]:
    references: Callable[[bytes], Iterable[bytes]] = importlib.import_module("perdure.core.payload").references
    known: dict[bytes, bool] = {}
    for place, packed in connection.rows("check_payloads"):
        try:
            addresses = list(references(packed))
        except Exception as error:  # noqa: BLE001 (whatever a damaged payload makes its reader raise)
            yield f"{place} cannot be read: {error}"
            continue
        for address in addresses:
            if address not in known:
                known[address] = connection.row("blob", (address,)) is not None
            if not known[address]:
                yield f"{place} names the piece {address.hex()}, which does not exist"


def info(connection: Connection) -> dict[str, object]:
    """Facts for people."""
    pages, page_size = (int(connection.script(f"PRAGMA {name}")[0][0]) for name in ("page_count", "page_size"))
    counts = {table: f'SELECT count(*) FROM "{table}"' for (table,) in connection.rows("tables")}  # noqa: S608 (our own tables)
    wal = Path(connection.path + "-wal")
    return {
        "store": "sqlite",
        "sqlite": apsw.sqlite_lib_version(),
        "schema": VERSION,
        "bytes": pages * page_size,
        "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        "rows": {table: connection.script(count)[0][0] for table, count in counts.items()},
    }
