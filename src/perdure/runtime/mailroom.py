"""What a message in a run's inbox becomes: the entry that will record it, or nothing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from perdure.core.entry import Entry, Kind, Note
from perdure.core.errors import NotRestorable
from perdure.stores.rows import InboxKind

from .arrival import Arrival

if TYPE_CHECKING:
    from perdure.core.operation import PromiseRequest
    from perdure.stores.rows import Message

    from .driver import Driver

__all__ = ["arrival_of"]

logger = logging.getLogger("perdure.run")


def arrival_of(driver: Driver, message: Message, data: bytes | None) -> Arrival | None:
    """The arrival for a message; None if it is dealt with without an entry."""
    at = min(message.at, driver.now())
    match message.kind:
        case InboxKind.SIGNAL:
            note = Note(name=message.name, by=message.by, subject=message.uid)
            entry = Entry(0, Kind.SIGNAL, "", 0, message.value, message.failed, note)
            return Arrival(at, entry, data, consumed=message.number)
        case InboxKind.RESOLVED:
            return _resolved(driver, message, data, at)
        case InboxKind.CHILD_ENDED:
            note = Note(name=message.name, subject=message.uid)
            entry = Entry(0, Kind.CHILD_ENDED, message.key, 0, message.value, message.failed, note)
            return Arrival(at, entry, data, consumed=message.number)
        case InboxKind.CANCEL:
            entry = Entry(0, Kind.CANCEL, "", 0, None, note=Note(by=message.by, name=message.name))
            return Arrival(at, entry, None, consumed=message.number)
        case _:
            logger.warning("a message of unknown kind %r was left alone", message.kind, extra=driver.extra())
            return None


def _resolved(driver: Driver, message: Message, data: bytes | None, at: int) -> Arrival | None:
    """An answer. One that its schema turns out not to accept is sent back: the promise is open again, with the problem shown."""
    wait = driver.execution.waits.get(message.key) if driver.execution is not None else None
    if wait is not None and not wait.done and not message.failed and message.name == "answered":
        request: PromiseRequest = wait.value
        try:
            request.schema.decode(data or b"null")
        except NotRestorable as error:
            driver.reopened.append((wait.id, error.message))
            return None
    entry = Entry(0, Kind.RESOLVED, message.key, 0, message.value, message.failed, Note(name=message.name, by=message.by))
    # The store accepted it before the deadline, so it comes before the deadline's timer whatever stands in front of it.
    return Arrival(at, entry, data, consumed=message.number, first=True)
