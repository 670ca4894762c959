"""What makes a file a perdure database, and how it becomes one: refusals first, then migrations under the write lock.

A file that is not ours, damaged or newer is refused before anything of it is changed. This module may know the headers of
SQLite files and the migrations; it may not know what tables mean.
"""

from __future__ import annotations

import os
import secrets
import struct
from importlib import resources
from pathlib import Path

import apsw

from perdure.core.errors import StoreCorrupt, StoreNewer, StoreUnavailable

from .connection import Connection

__all__ = ["APPLICATION", "VERSION", "look_at", "migrate", "migrations"]

APPLICATION = 0x50524455
"""SQLite's `application_id` of a perdure database: "PRDU"."""

_HEADER = struct.Struct(
    ">16s2sBB40xI4xI28xBxxH"
)  # magic, page size, write and read version, user_version, application_id, page


PAGE_SIZE = 8192
"""Bytes. Entries with a payload of 1 KiB leave a quarter of a 4 KiB page unused, and next to nothing of this: 179 instead of
374 bytes per step beyond its payload (`python -m benchmarks steps`); 16 KiB save no more."""

_PATIENCE = 1_000
"""How often switching to WAL is tried again; each time somebody else had the file meanwhile."""


def migrations() -> list[str]:
    """The texts of all migrations, oldest first; the n-th one leads to version n."""
    folder = resources.files(__package__).joinpath("migrations")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files]


_MIGRATIONS = migrations()
VERSION = len(_MIGRATIONS)
"""The version of the schema that this code reads and writes."""


def look_at(path: str) -> None:
    """Refuse a file that is no perdure database, by its first bytes alone: no lock, no -wal file, no change.

    Only for a file that no SQLite connection of this process has open: closing a file drops all POSIX locks that the
    process holds on it. What cannot be told from the header is looked at again under the write lock by `migrate`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        folder = Path(path).parent
        if not folder.is_dir():
            raise StoreUnavailable(f"{path} cannot be made: there is no folder {folder}", hint=f"mkdir -p {folder}") from None
        if not os.access(folder, os.W_OK):
            raise StoreUnavailable(
                f"{path} cannot be made: no permission to write in {folder}",
                hint="choose another path, or change its permissions",
            ) from None
        return
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be opened: {error.strerror}", hint="check the path and its permissions"
        ) from error
    try:
        header = os.read(descriptor, _HEADER.size)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}", hint="check the path") from error
    finally:
        os.close(descriptor)
    if not header:
        return
    if len(header) < _HEADER.size or not header.startswith(b"SQLite format 3\0"):
        raise _foreign(path, "is not an SQLite database")
    _, _, _, _, version, application, _, cells = _HEADER.unpack(header)
    if application == 0 and cells == 0:
        return  # still empty, or made a moment ago and all in its -wal file
    _refuse(path, application, version)


def _foreign(path: str, what: str) -> StoreCorrupt:
    return StoreCorrupt(f"{path} {what}; it was not touched", hint="name another file, or restore a backup of this one")


def _refuse(path: str, application: int, version: int) -> None:
    """Raise unless a database with these marks is one that this code may write."""
    if application != APPLICATION:
        raise _foreign(path, "is another program's SQLite database")
    if version > VERSION:
        raise StoreNewer(
            f"{path} has schema version {version}, written by a newer perdure; this one knows {VERSION}; it was not touched",
            hint="pip install --upgrade perdure",
        )


def _marks(connection: Connection) -> tuple[int, int, int]:
    """The application, the schema version and the number of tables of an open database."""
    application = int(connection.script("PRAGMA application_id")[0][0])
    version = int(connection.script("PRAGMA user_version")[0][0])
    tables = int(connection.script("SELECT count(*) FROM sqlite_schema")[0][0])
    return application, version, tables


def migrate(connection: Connection) -> None:
    """Bring an open database to this code's version, by any number of processes at once.

    The write lock of SQLite itself is the lock: it is taken before the version is read. A database that is up to date is
    only read. The schema is made in rollback mode and switched to WAL afterwards, so that the marks stand in the main
    file's header, where `look_at` finds them.
    """
    connection.script("BEGIN")  # one look: between two of them another process may have made the database
    try:
        application, version, tables = _marks(connection)
    finally:
        connection.roll_back()
    if application or tables:
        _refuse(connection.path, application, version)
    if application != APPLICATION or version < VERSION:
        connection.script(f"PRAGMA page_size = {PAGE_SIZE}")  # holds for an empty file only
        with connection.transaction():
            _migrate_locked(connection)
    _use_wal(connection)


def _migrate_locked(connection: Connection) -> None:
    application, version, tables = _marks(connection)
    if application or tables:
        _refuse(connection.path, application, version)
    for number, text in enumerate(_MIGRATIONS[version:], start=version + 1):
        connection.script(text)
        connection.script(f"PRAGMA user_version = {number}")
    if not application:
        connection.script(f"PRAGMA application_id = {APPLICATION}")
        connection.change("write_fact", ("uid", secrets.token_hex(16)))


def _use_wal(connection: Connection) -> None:
    """Switch to WAL; it stays so for ever. Databases in memory have no journal to speak of."""
    if connection.path == ":memory:":
        return
    mode = _switched(connection)
    if mode != "wal":
        raise StoreUnavailable(
            f"{connection.path} cannot use write-ahead logging (mode {mode})",
            hint="put the database on a local disk: WAL needs shared memory, which network file systems do not have",
        )


def _switched(connection: Connection) -> str:
    """The journal mode after asking for WAL.

    SQLite does not wait for others here, not even for one that only looks at the file. Waiting for the whole file in between
    keeps to the busy timeout; whoever gets through leaves WAL behind for all.
    """
    for _ in range(_PATIENCE):
        try:
            return str(connection.script("PRAGMA journal_mode = WAL")[0][0])
        except apsw.BusyError:
            connection.script("BEGIN EXCLUSIVE; ROLLBACK")
    return str(connection.script("PRAGMA journal_mode = WAL")[0][0])
