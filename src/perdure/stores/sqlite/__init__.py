"""The SQLite store: one file, any number of processes of one machine."""

from .store import SqliteStore

__all__ = ["SqliteStore"]
