"""Opening a database: refusals, schema, the connections, and the files that this process has open.

This module may not know what is in the tables.
"""

from __future__ import annotations

import collections
import os
import threading
from pathlib import Path

from perdure.core.errors import StoreUnavailable

from .connection import Connection, translating
from .schema import look_at, migrate

__all__ = ["Opened", "open_database"]

# Files that SQLite connections of this process have open, by device and inode. Such a file was looked at when it was opened
# first; opening and closing it once more by ourselves would drop the locks that SQLite holds on it.
_open_files: collections.Counter[tuple[int, int]] = collections.Counter()
_guard = threading.Lock()

# Files that were open in the parent when this process was forked. SQLite keeps what locks a process holds in its own memory,
# which the child has inherited without the locks: a connection opened there would work on a file it has not locked.
_inherited: set[tuple[int, int]] = set()


class Opened:
    """The connections of one store: one that writes and one that reads. In memory they are the same."""

    def __init__(self, writer: Connection, reader: Connection, identity: tuple[int, int] | None) -> None:
        self.writer = writer
        self.reader = reader
        self._identity = identity

    def close(self) -> None:
        """Close both."""
        with _guard:
            if self.reader is not self.writer:
                self.reader.close()
            self.writer.close()
            _count(self._identity, -1)


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _count(identity: tuple[int, int] | None, change: int) -> None:
    if identity is not None:
        _open_files[identity] += change
        if _open_files[identity] <= 0:
            del _open_files[identity]


def open_database(path: str, busy_timeout: float) -> Opened:
    """Open, make or migrate the database at `path`. What cannot be opened is left as it was."""
    if path == ":memory:":
        connection = Connection(path, busy_timeout)
        migrate(connection)
        return Opened(connection, connection, None)
    with _guard, translating(path):
        identity = _identity_of(path)
        if identity in _inherited:
            raise StoreUnavailable(
                f"{path} was open when this process was forked from its parent, so SQLite cannot lock it safely here",
                hint="open it only after the fork, or start processes by spawn",
            )
        if identity not in _open_files:
            look_at(path)
        writer = Connection(path, busy_timeout)
        try:
            migrate(writer)
            writer.prepare(read_only=False)
            reader = Connection(path, busy_timeout)
        except BaseException:
            writer.close()
            raise
        try:
            reader.prepare(read_only=True)
        except BaseException:
            reader.close()
            writer.close()
            raise
        identity = _identity_of(path)
        _count(identity, 1)
        return Opened(writer, reader, identity)


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    _inherited.update(_open_files)
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
