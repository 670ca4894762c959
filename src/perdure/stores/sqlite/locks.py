"""Proof of life: each worker of a file database holds an OS lock on a file of its own beside it.

The kernel drops such a lock when the process dies, however it dies. So a worker file that can be locked belongs to a dead
worker, and this is known at once and without a query. This module may know files and locks; it may not know the database.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from pathlib import Path

__all__ = ["WorkerLocks"]

_WINDOWS = os.name == "nt"

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        # flock, not lockf: a POSIX lock is dropped as soon as the process closes any other descriptor of the file.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


class WorkerLocks:
    """The locks of all workers of one database: our own, which we hold, and the others', which we try."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[int, int] = {}  # worker → descriptor
        self._guard = threading.Lock()
        _all.add(self)

    def take(self, worker: int) -> None:
        """Hold the lock of a worker of this process.

        The file is locked under a temporary name first and renamed then: nobody may ever see it without its lock.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(worker)
        made = path if _WINDOWS else path.with_suffix(".new")  # Windows cannot rename an open file
        descriptor = os.open(made, os.O_RDWR | os.O_CREAT, 0o644)
        with self._guard:
            if not _try_lock(descriptor):  # a file system without locks: the lease alone has to do
                made.unlink()
                os.close(descriptor)
                return
            if made != path:
                made.replace(path)
            self._held[worker] = descriptor

    def drop(self, worker: int) -> None:
        """Give up the lock of a worker whose row has ended, and remove its file."""
        with self._guard:
            descriptor = self._held.pop(worker, None)
        if descriptor is None:
            return
        if _WINDOWS:  # which cannot remove an open file either
            os.close(descriptor)
            self.remove(worker)
        else:
            self.remove(worker)
            os.close(descriptor)

    def remove(self, worker: int) -> None:
        """Remove the file of a worker whose row has ended."""
        with contextlib.suppress(OSError):
            self._path(worker).unlink()

    def dead(self) -> list[int]:
        """Workers whose file nobody holds a lock on any more. The files stay until the rows have ended."""
        try:
            files = list(self.folder.iterdir())
        except OSError:
            return []
        workers = sorted(int(file.stem) for file in files if file.suffix == ".lock" and file.stem.isdigit())
        return [worker for worker in workers if worker not in self._held and self._is_free(worker)]

    def close(self) -> None:
        """Give up all locks and leave the files: whoever looks next knows that these workers are gone."""
        with self._guard:
            for descriptor in self._held.values():
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self._held.clear()

    def _path(self, worker: int) -> Path:
        return self.folder / f"{worker}.lock"

    def _is_free(self, worker: int) -> bool:
        try:
            descriptor = os.open(self._path(worker), os.O_RDWR)
        except OSError:
            return False
        try:
            # Under the lock the file must still be there: a worker that left removed it first.
            return _try_lock(descriptor) and self._path(worker).exists()
        finally:
            os.close(descriptor)

    def forget_in_child(self) -> None:
        """A forked child shares the lock through its copy of the descriptor: close it, so that only the parent holds it."""
        self._guard = threading.Lock()
        self.close()


_all: weakref.WeakSet[WorkerLocks] = weakref.WeakSet()


def _after_fork() -> None:
    for locks in list(_all):
        locks.forget_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
