"""Fetching what was left for the runs of a worker. One look at a time; what it finds goes to the runs' drivers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from perdure.core.errors import NotRestorable
from perdure.core.payload import unpack

if TYPE_CHECKING:
    from perdure.stores.rows import Message

    from .worker import Worker

__all__ = ["Inbox", "unpacked"]

logger = logging.getLogger("perdure.worker")


class Inbox:
    """Everything that was left for runs of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.looking = False
        self._again = False
        self._last_message = 0

    def look_if_busy(self) -> None:
        """Fetch messages if there are runs that may have some."""
        if self._worker.drivers:
            self.look()

    def look(self) -> None:
        """Fetch what was left for runs of ours."""
        if self.looking:
            self._again = True
            return
        self.looking = True
        after, store = self._last_message, self._worker.process.store

        def read() -> list[tuple[Message, bytes | NotRestorable | None]]:
            return [(message, self._readable(message)) for message in store.messages(self._worker.number, after)]

        self._worker.process.reads.submit(read, self._found)

    def _readable(self, message: Message) -> bytes | NotRestorable | None:
        """A message's value, or why it cannot be read: that concerns its run alone, the others get theirs."""
        try:
            return unpacked(self._worker, message)
        except NotRestorable as error:
            return error

    def _found(self, found: list[tuple[Message, bytes | NotRestorable | None]] | None, error: BaseException | None) -> None:
        self.looking = False
        if found is None:
            logger.warning("messages could not be read, trying again: %s", error)
            self._worker.clock.call_later(500_000, self.look)
            return
        for message, data in found:
            self._last_message = max(self._last_message, message.number)
            driver = self._worker.drivers.get(message.run)
            if driver is None:
                continue
            if isinstance(data, NotRestorable):
                driver.block(data)
            else:
                driver.deliver(message, data, counted=True)
        if self._again:
            self._again = False
            self.look()
            return
        for driver in [driver for driver in self._worker.drivers.values() if driver.asked_for_messages]:
            driver.polled()


def unpacked(worker: Worker, message: Message) -> bytes | None:
    """A message's value as JSON. Runs on the reading line. Raises `NotRestorable`."""
    return None if message.value is None else unpack(message.value, worker.process.store.blobs)
