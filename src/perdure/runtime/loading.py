"""Reading the journals of claimed runs, off the loop, and giving them to their drivers. What they mean is the drivers'."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from perdure.core.errors import NotRestorable
from perdure.core.payload import unpack

from .inbox import unpacked
from .steps import progress_of

if TYPE_CHECKING:
    from perdure.stores.rows import Message

    from .driver import Driver
    from .worker import Worker

__all__ = ["load_journals"]

logger = logging.getLogger("perdure.worker")


def load_journals(worker: Worker, drivers: list[tuple[Driver, list[Message]]]) -> None:
    """Read journals, and let the drivers replay them."""
    store, process = worker.process.store, worker.process

    def read() -> list[Any]:
        journals = store.journals([driver.number for driver, _ in drivers])
        loaded: list[Any] = []
        for driver, messages in drivers:
            try:
                entries = process.unpacked(journals.get(driver.number, []))
                driver.facts.input = unpack(driver.row.input, store.blobs)
                opened = [(message, unpacked(worker, message)) for message in messages]
                progress = progress_of(store, driver.number) if driver.recoveries else {}
            except NotRestorable as error:
                loaded.append((driver, error, [], {}))
            else:
                loaded.append((driver, entries, opened, progress))
        return loaded

    worker.process.reads.submit(read, lambda loaded, error: _loaded(worker, drivers, loaded, error))


def _loaded(worker: Worker, drivers: list[Any], loaded: list[Any] | None, error: BaseException | None) -> None:
    if loaded is None:
        logger.warning("journals could not be read, trying again: %s", error)
        worker.clock.call_later(500_000, lambda: load_journals(worker, [each for each in drivers if not each[0].gone]))
        return
    for driver, entries, messages, progress in loaded:
        if driver.gone:
            continue
        if isinstance(entries, BaseException):
            driver.block(entries)
        else:
            driver.steps.progress = progress
            driver.load(entries, messages)
