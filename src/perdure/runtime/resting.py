"""The runs of one worker that rest in memory: shown as waiting soon, evicted after their residency, at once when crowded.

This module decides when a run that rests may go. What resting is, and how a run is let go of, is its driver's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .clock import Alarm
    from .driver import Driver
    from .worker import Worker

__all__ = ["Resting"]

SHOW_AFTER = 100_000
"""µs of rest after which a run is shown as waiting."""


class Resting:
    """Who rests, and since when is known by the runs themselves."""

    def __init__(self, worker: Worker) -> None:
        self.unevictable: set[str] = set()  # workflows whose coroutines resist being closed
        self._worker = worker
        self._drivers: dict[int, Driver] = {}
        self._sweeping: Alarm | None = None

    def add(self, driver: Driver) -> None:
        """A run rests."""
        if self._may_go(driver) and (not self._worker.options.residency or self._crowded):
            driver.park(evict=True)
            return
        self._drivers[driver.number] = driver
        if self._sweeping is None:
            self._sweeping = self._worker.clock.call_later(SHOW_AFTER, self._sweep)

    def forget(self, driver: Driver) -> None:
        """A run left this worker."""
        self._drivers.pop(driver.number, None)

    def stop(self) -> None:
        """Sweep no more."""
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _may_go(self, driver: Driver) -> bool:
        return driver.row.workflow not in self.unevictable

    @property
    def _crowded(self) -> bool:
        return len(self._worker.drivers) > self._worker.options.residents * 3 // 4

    def _sweep(self) -> None:
        self._sweeping = None
        now = self._worker.clock.now()
        crowded = self._crowded
        for number, driver in list(self._drivers.items()):
            rested = now - driver.agenda.resting_since if driver.agenda.resting_since and not driver.gone else -1
            if rested < 0:
                del self._drivers[number]
            elif (rested >= self._worker.options.residency or crowded) and self._may_go(driver):
                driver.park(evict=True)
            elif rested >= SHOW_AFTER:
                driver.park(evict=False)
        if self._drivers:
            self._sweeping = self._worker.clock.call_later(SHOW_AFTER, self._sweep)
