"""A clock that stands still until it is told to move."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.runtime.clock import Alarm

__all__ = ["VirtualClock"]

START = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z: a fixed time, so that tests see the same values every day."""


class _Alarm:
    __slots__ = ("_order", "callback", "cancelled", "when")

    def __init__(self, when: int, order: int, callback: Callable[[], None]) -> None:
        self.when = when
        self._order = order
        self.callback = callback
        self.cancelled = False

    def __lt__(self, other: _Alarm) -> bool:
        return (self.when, self._order) < (other.when, other._order)

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """Time in µs since the epoch that moves only by `jump` and `advance_to`."""

    def __init__(self, start: int = START) -> None:
        self._now = start
        self._alarms: list[_Alarm] = []
        self._made = 0

    def now(self) -> int:
        """The time now."""
        return self._now

    def call_at(self, when: int, callback: Callable[[], None]) -> Alarm:
        """Call `callback` when the clock reaches `when`."""
        self._made += 1
        alarm = _Alarm(max(when, self._now), self._made, callback)
        heapq.heappush(self._alarms, alarm)
        return alarm

    def call_later(self, delay: int, callback: Callable[[], None]) -> Alarm:
        """Call `callback` after `delay` µs."""
        return self.call_at(self._now + delay, callback)

    def next_alarm(self) -> int | None:
        """When the next alarm rings."""
        while self._alarms and self._alarms[0].cancelled:
            heapq.heappop(self._alarms)
        return self._alarms[0].when if self._alarms else None

    def jump(self, limit: int | None = None) -> bool:
        """Move to the next alarm, if there is one by `limit`, and ring all that are due then."""
        when = self.next_alarm()
        if when is None or (limit is not None and when > limit):
            return False
        self._now = max(self._now, when)
        while (due := self.next_alarm()) is not None and due <= self._now:
            heapq.heappop(self._alarms).callback()
        return True

    def advance_to(self, when: int) -> None:
        """Move to a time at or before the next alarm."""
        self._now = max(self._now, when)
