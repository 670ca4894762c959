"""Looking a database over: what is wrong with it, and how big it is. Slow on purpose: it reads everything."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import apsw
import msgspec

from perdure.core.entry import Note
from perdure.core.payload import indexes, references

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
    found += _damaged_notes(connection)
    pieces = _Pieces(connection)
    for place, packed in connection.rows("check_payloads"):
        found += pieces.missing(place, packed)
    return found


def _damaged_notes(connection: Connection) -> Iterable[str]:
    pieces = _Pieces(connection)
    for number, packed in connection.rows("check_notes"):
        place = f"entry {number & 0xFFFFFFFF} of run {number >> 32}"
        try:
            note = msgspec.msgpack.decode(packed, type=Note)
        except msgspec.MsgspecError as error:
            yield f"the note of {place} cannot be read: {error}"
        else:
            yield from pieces.missing(f"the arguments of {place}", note.arguments)


class _Pieces:
    """Follows what payloads name, each piece once: indexes name further pieces."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[bytes, bool] = {}

    def missing(self, place: str, packed: bytes) -> Iterable[str]:
        """The pieces that this payload needs and that do not exist, and what cannot be read, as sentences."""
        try:
            named, nested = references(packed), set(indexes(packed))
        except Exception as error:  # noqa: BLE001 (whatever a damaged payload makes its reader raise)
            yield f"{place} cannot be read: {error}"
            return
        for address in named:
            if address in self._known:
                if not self._known[address]:
                    yield f"{place} names the piece {address.hex()}, which does not exist"
                continue
            row = self._connection.row("blob", (address,))
            self._known[address] = row is not None
            if row is None:
                yield f"{place} names the piece {address.hex()}, which does not exist"
            elif address in nested:
                yield from self.missing(f"the index {address.hex()}", row[0])


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
