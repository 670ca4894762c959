"""A cheap hint that another process has committed: the -wal file's stat, and SQLite's own counter when that has changed.

This module may only stat files. It may never open or close one: that would drop the locks that SQLite holds on it.
"""

from __future__ import annotations

from pathlib import Path

from .connection import Connection

__all__ = ["Watch"]


class Watch:
    """Remembers what was seen last."""

    def __init__(self, path: str, connection: Connection) -> None:
        self._files = () if path == ":memory:" else (Path(path + "-wal"), Path(path))
        self._stamp: tuple[int, ...] = ()
        self._again = True
        self._seen = connection.others_committed()
        self._news = False

    def file_changed(self) -> bool:
        """Whether the files look other than at the last call. No query, no lock.

        The file system's clock is coarse, so that two commits may leave the same stamp: after each change the answer is
        yes once more, as git does for its index.
        """
        stamp = _stamp_of(self._files)
        changed = stamp != self._stamp
        again, self._again = self._again, changed
        self._stamp = stamp
        return changed or again

    def look(self, connection: Connection) -> None:
        """Ask the writer's connection, under its lock, whether others have committed: its own commits do not count."""
        if self._files:
            number = connection.others_committed()
            if number != self._seen:
                self._seen = number
                self._news = True

    def look_later(self) -> None:
        """The connection was busy: let the next call look again."""
        self._again = True

    def take_news(self) -> bool:
        """Whether others have committed since the last call."""
        news, self._news = self._news, False
        return news


def _stamp_of(files: tuple[Path, ...]) -> tuple[int, ...]:
    stamp: list[int] = []
    for file in files:
        try:
            found = file.stat()
        except OSError:
            stamp += (0, 0)
        else:
            stamp += (found.st_size, found.st_mtime_ns)
    return tuple(stamp)
