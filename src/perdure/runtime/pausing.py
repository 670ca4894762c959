"""Pausing one run that a worker owns: its attempts end and are recorded, nothing is fed and nothing starts, then it is set aside.

A request to pause stays in the inbox until the run is set aside, so that neither a crash nor a drain in between loses it.
This module decides whether a run halts; what halting means is its driver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.stores.base import Park

if TYPE_CHECKING:
    from perdure.stores.base import Advance

    from .driver import Driver

__all__ = ["Pausing"]


class Pausing:
    """The requests to pause of one run."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.requests: list[int] = []  # their inbox rows

    def ask(self, number: int) -> None:
        """Somebody wants it paused. One that is told to cancel is to end in bounded time: it is not paused any more."""
        driver = self._driver
        self.requests.append(number)
        if driver.row.cancel_at:
            self.end()
        elif driver.halting is None or driver.halting.status != "blocked":
            driver.halting = Park(status="paused")

    def end(self) -> None:
        """It is not to be paused any more: what was recorded meanwhile is fed."""
        driver = self._driver
        driver.consumed.extend(self.requests)
        self.requests.clear()
        if driver.halting is None or driver.halting.status != "paused" or driver.execution is None:
            return
        driver.halting = None
        driver.feed_recorded()
        if driver.worker.draining:
            driver.hand_back()

    def set_aside(self, advance: Advance, park: Park) -> None:
        """The run is let go of: if it is set aside, no crash can set it going again, and the requests are dealt with."""
        if park.status in ("paused", "blocked"):
            advance.consumed.extend(self.requests)
