"""One SQLite connection: opened with the right pragmas, asked by the names of queries, its errors in perdure's words.

This module may know apsw and SQLite. It may not know tables.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from perdure.core.errors import (
    PerdureError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)

from .queries import QUERIES

__all__ = ["Bindings", "Connection", "is_general", "translated", "translating"]

Bindings = Sequence[Any] | Mapping[str, Any]

# No mmap: with it a failing disk kills the process (SIGBUS) instead of raising an error that can be retried.
# The checkpoint is rarer than by default: each one costs the committer two more fsyncs.
_PRAGMAS = """
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = OFF;
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -16000;
PRAGMA wal_autocheckpoint = 2000;
PRAGMA journal_size_limit = 67108864;
"""

_UNREACHABLE = (apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError, apsw.AuthError, apsw.ConnectionClosedError)
_DAMAGED = (apsw.CorruptError, apsw.NotADBError)
_OF_ONE_VALUE = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError, apsw.RangeError, apsw.SQLError)


def is_general(error: BaseException) -> bool:
    """Whether an error is about the database or the moment (locked, full, unreachable), not about the change that met it."""
    return isinstance(error, MemoryError) or (isinstance(error, apsw.Error) and not isinstance(error, _OF_ONE_VALUE))


def translated(error: Exception, path: str) -> Exception:
    """The error as a `StoreError` that names the database; perdure's own are left as they are."""
    if isinstance(error, PerdureError):
        return error
    reason = f"{path}: {error}"
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        translation: StoreError = StoreBusy(
            f"{path} is locked by another process: {error}",
            hint="look for a process that was stopped or hangs inside a transaction on this file",
        )
    elif isinstance(error, apsw.FullError):
        translation = StoreFull(reason, hint="make room on the disk; nothing that was written is lost")
    elif isinstance(error, _DAMAGED):
        translation = StoreCorrupt(reason, hint="restore a backup, or try `sqlite3 FILE .recover`")
    elif isinstance(error, _UNREACHABLE):
        translation = StoreUnavailable(f"{reason}{_access_of(path)}", hint="check the path and its permissions")
    elif isinstance(error, (UnicodeError, OverflowError, TypeError, ValueError, *_OF_ONE_VALUE)):
        translation = StoreError(f"{path} cannot take this value: {error}")
    else:
        translation = StoreError(f"{path}: {type(error).__name__}: {error}")
    translation.__cause__ = error
    return translation


def _access_of(path: str) -> str:
    """What the file system says about a path that SQLite could not use, as the end of a sentence."""
    file = Path(path)
    if not file.parent.is_dir():
        return f" (there is no folder {file.parent})"
    if file.is_dir():
        return " (it is a folder)"
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        return " (no permission to read and write the file)"
    if not os.access(file.parent, os.W_OK):
        return f" (no permission to write in {file.parent}, where SQLite keeps its -wal file)"
    return ""


@contextlib.contextmanager
def translating(path: str) -> Iterator[None]:
    """Raise what goes wrong inside as a `StoreError` that names the database."""
    try:
        yield
    except apsw.Error as error:
        raise translated(error, path) from error


class Connection:
    """A connection that knows queries by name. Used by one thread at a time; who uses it holds the lock."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self.path = path
        self._raw = apsw.Connection(path)
        self._raw.set_busy_timeout(int(busy_timeout * 1000))
        # Plans never depend on bound values. Without this, SQLite compiles a statement anew each time another value is
        # bound where a value might matter: 20 µs instead of 1 for finding a run by its id.
        self._raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)

    def prepare(self, *, read_only: bool) -> None:
        """Set the pragmas. Apart from opening, since a file that is refused must not be touched by them."""
        self.script(_PRAGMAS + ("PRAGMA query_only = ON;" if read_only else ""))

    def script(self, text: str) -> list[tuple[Any, ...]]:
        """Run statements given as text: migrations and pragmas."""
        return self._raw.execute(text).fetchall()

    def rows(self, query: str, bindings: Bindings = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._raw.execute(QUERIES[query], bindings).fetchall()

    def rows_where(self, query: str, conditions: Sequence[str], bindings: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """All rows of a query that has room for conditions, themselves named."""
        text = " AND ".join(QUERIES[condition] for condition in conditions) or "TRUE"
        return self._raw.execute(QUERIES[query].replace("{conditions}", text), bindings).fetchall()

    def row(self, query: str, bindings: Bindings = ()) -> tuple[Any, ...] | None:
        """The first row of a query, if there is one."""
        found = self._raw.execute(QUERIES[query], bindings).fetchall()
        return found[0] if found else None

    def change(self, query: str, bindings: Bindings = ()) -> int:
        """Run a statement that writes; how many rows it changed."""
        self._raw.execute(QUERIES[query], bindings)
        return self._raw.changes()

    def insert(self, query: str, bindings: Bindings = ()) -> int:
        """Insert a row; its number."""
        self._raw.execute(QUERIES[query], bindings)
        return self._raw.last_insert_rowid()

    def many(self, query: str, rows: Sequence[Bindings]) -> None:
        """Run a statement that writes once per row of bindings."""
        self._raw.executemany(QUERIES[query], rows)

    def do(self, query: str) -> None:
        """Run a statement without parameters or rows."""
        self._raw.execute(QUERIES[query])

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._raw.in_transaction

    def roll_back(self) -> None:
        """Undo the open transaction, if the error that led here has not undone it already."""
        if self._raw.in_transaction:
            self.do("rollback")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A write transaction: committed at the end, undone by any exception."""
        self.do("begin")
        try:
            yield
            self.do("commit")
        except BaseException:
            self.roll_back()
            raise

    def others_committed(self) -> int:
        """A number that changes when another connection has committed, and only then."""
        row = self.row("look_for_others")
        return int(row[0]) if row else 0

    def close(self) -> None:
        """Close it."""
        self._raw.close()

    def abandon(self) -> None:
        """Make sure that this connection, inherited by a forked child, is never closed there.

        SQLite forbids even closing it: the child does not hold the locks that the connection believes in, and might remove
        a -wal file that the parent is using.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._raw))
