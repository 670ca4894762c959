"""The times at which runs that nobody owns are known to be due, with an alarm for the earliest.

Hints only: what is not known here is found by the pulse, which tells the earliest of all.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .clock import Alarm, Clock

__all__ = ["Dues"]


class Dues:
    """A heap of known times. `on_due` is called when the earliest has come."""

    def __init__(self, clock: Clock, on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._times: list[int] = []
        self._known: set[int] = set()  # each is kept once: every pulse tells the earliest again
        self._alarm: Alarm | None = None
        self._alarm_at = 0
        self.exhausted = False  # the last known time has come; a pulse tells only the earliest, so what follows is not known

    def add(self, when: int) -> None:
        """A run that nobody owns is due at this time."""
        if when not in self._known:
            self._known.add(when)
            heapq.heappush(self._times, when)
            self._set_alarm()

    def stop(self) -> None:
        """Call no more."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            if not self._times or self._alarm_at <= self._times[0]:
                return
            self._alarm.cancel()
            self._alarm = None
        if self._times:
            self._alarm_at = self._times[0]
            self._alarm = self._clock.call_at(self._alarm_at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock.now()
        while self._times and self._times[0] <= now:
            self._known.discard(heapq.heappop(self._times))
        self.exhausted = not self._times
        self._set_alarm()
        self._on_due()
