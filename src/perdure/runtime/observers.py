"""Who waits for what to show up in the store: results of runs, replies to messages.

Awaiting only observes: an observer that goes away changes nothing. What this process itself ends is told at once; what
others end is found by looking when the store changed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.stores.rows import RunRow

__all__ = ["Observers"]


class Observers:
    """Futures by run number and by message uid."""

    def __init__(self) -> None:
        self._ends: defaultdict[int, list[asyncio.Future[RunRow]]] = defaultdict(list)
        self._replies: defaultdict[str, list[asyncio.Future[bytes]]] = defaultdict(list)
        self._closed: BaseException | None = None

    def close(self, error: BaseException) -> None:
        """Nothing will be seen from here any more: who waits, or comes to wait, gets the error."""
        self._closed = error
        waiting: list[asyncio.Future[Any]] = []
        for futures in self._ends.values():
            waiting += futures
        for replies in self._replies.values():
            waiting += replies
        for future in waiting:
            if not future.done():
                future.set_exception(error)

    def _future(self) -> asyncio.Future[Any]:
        if self._closed is not None:
            raise self._closed
        return asyncio.get_running_loop().create_future()

    @property
    def runs(self) -> list[int]:
        """Numbers of the runs whose end somebody waits for."""
        return list(self._ends)

    @property
    def uids(self) -> list[str]:
        """Messages whose reply somebody waits for."""
        return list(self._replies)

    async def end(self, run: int) -> RunRow:
        """Wait until a run has ended, and get its row."""
        future: asyncio.Future[RunRow] = self._future()
        self._ends[run].append(future)
        try:
            return await future
        finally:
            _remove(self._ends, run, future)

    async def reply(self, uid: str) -> bytes:
        """Wait for the reply to a message, and get its packed value."""
        future: asyncio.Future[bytes] = self._future()
        self._replies[uid].append(future)
        try:
            return await future
        finally:
            _remove(self._replies, uid, future)

    def ended(self, rows: Iterable[RunRow]) -> None:
        """Tell those who wait for these runs."""
        for row in rows:
            for future in self._ends.get(row.number, ()):
                if not future.done():
                    future.set_result(row)

    def replied(self, uid: str, value: bytes) -> None:
        """Tell those who wait for this reply."""
        for future in self._replies.get(uid, ()):
            if not future.done():
                future.set_result(value)


def _remove(waiting: defaultdict[Any, list[Any]], key: Any, future: Any) -> None:
    futures = waiting.get(key)
    if futures is not None and future in futures:
        futures.remove(future)
        if not futures:
            del waiting[key]
