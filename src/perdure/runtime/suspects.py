"""Runs that were running when their worker died: one of them may have killed it.

They go on a few at a time, so that the next death leaves few to suspect; those that saw several deaths without getting on get
a last chance in a process of their own; those whose process died there too are claimed only to be set aside as poison.
So one run that kills its process does not condemn the thousands beside it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from perdure.stores.base import Claim

from .loading import load_journals

if TYPE_CHECKING:
    import asyncio

    from perdure.stores.base import Outcome
    from perdure.stores.rows import Suspect

    from .driver import Driver
    from .worker import Worker

__all__ = ["LAST_CHANCE", "Suspects"]

logger = logging.getLogger("perdure.worker")

LAST_CHANCE = 2
"""Deaths of its worker without progress after which a run goes on alone in a process of its own; one more blocks it."""

ISOLATED_AT_ONCE = 2
SUSPECTS_AT_ONCE = 16


class Suspects:
    """The suspects of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._held: set[int] = set()  # claimed here and not cleared yet
        self._isolating: dict[int, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Runs that were running when their worker died and got nowhere since: one of them may have killed it.

        They go on a few at a time, so that the next death leaves few to suspect; those that saw several deaths get a last
        chance in a process of their own; those that died there too are set aside.
        """
        store = self._worker.process.store
        if not self._worker.draining and not self._worker.only and len(self._held) < SUSPECTS_AT_ONCE:
            self._worker.process.reads.submit(lambda: store.suspects(1), self._suspected)

    def _suspected(self, found: list[Suspect] | None, error: BaseException | None) -> None:
        if error is not None or not found or self._worker.draining:
            return
        for suspect in found:
            if suspect.crashes > LAST_CHANCE or (suspect.crashes == LAST_CHANCE and self._worker.isolate is None):
                self._claim(1, only=suspect.number)
            elif suspect.crashes == LAST_CHANCE:
                if suspect.number not in self._isolating and len(self._isolating) < ISOLATED_AT_ONCE:
                    self._isolating[suspect.number] = self._worker.loop.create_task(self._isolate(suspect))
            elif (room := min(SUSPECTS_AT_ONCE - len(self._held), self._worker.room)) > 0:
                self._claim(room)
                return

    def _claim(self, limit: int, *, only: int = 0) -> None:
        change = Claim(
            at=self._worker.clock.now(),
            limit=limit,
            build=self._worker.build,
            started=self._worker.started_note(),
            workflows=self._worker.registry.names(),
            versions=self._worker.registry.versions(),
            only=only,
            least_crashes=1,
        )
        if not only:
            change.most_crashes = LAST_CHANCE - 1
        self._worker.committer.submit(change, partial(self._claimed, change))

    def _claimed(self, change: Claim, outcome: Outcome) -> None:
        for each in outcome if isinstance(outcome, list) else []:
            driver = self._worker.adopt(each, change)  # type: ignore[arg-type]
            self._held.add(each.run.number)  # type: ignore[union-attr]
            if driver is not None:
                load_journals(self._worker, [(driver, each.messages)])  # type: ignore[union-attr]

    def cleared(self, driver: Driver) -> None:
        """A suspect got on, or left: there is room for another."""
        if driver.number in self._held:
            self._held.discard(driver.number)
            self.look()

    async def _isolate(self, suspect: Suspect) -> None:
        assert self._worker.isolate is not None
        logger.warning("run %s ended its worker %d times: it goes on in a process of its own", suspect.id, suspect.crashes)
        try:
            await self._worker.isolate(suspect.number)
        except Exception:
            logger.exception("run %s could not be isolated", suspect.id)
        finally:
            del self._isolating[suspect.number]
        self._worker.process.look_for_dead()
        self.look()
        self._worker.take()
