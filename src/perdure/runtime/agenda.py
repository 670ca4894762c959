"""When something of a run is due next, and how long it was active: its alarm and its own clocks.

The run's `timeout` counts the time in which it does not rest; its `deadline` is wall time. This module may know times, not
what happens at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .clock import Alarm
    from .driver import Driver

__all__ = ["Agenda"]


class Agenda:
    """The times of one run. All are µs since the epoch; 0 means never."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._clock = driver.worker.clock
        self.resting_since = 0  # nothing is pending and nothing runs
        self.grace_ends = 0  # a run that was ended must have unwound by then
        self._active_since = self._clock.now()
        self._alarm: Alarm | None = None
        self._alarm_at = 0

    def next_wake(self) -> int:
        """When something of this run is due next."""
        driver = self._driver
        moments = list(driver.steps.retries.values())
        if driver.execution is not None:
            timer = driver.execution.next_timer()
            if timer is not None:
                moments.append(timer.deadline)
        run_end = self.run_end()
        if run_end is not None:
            moments.append(run_end[0])
        return min(moments, default=0)

    def run_end(self) -> tuple[int, str] | None:
        """When the run as a whole is over, and why: `grace`, `deadline` or `timeout`."""
        driver = self._driver
        if self.grace_ends:
            return self.grace_ends, "grace"
        if not (driver.row.deadline_at or driver.definition.timeout):
            return None
        moments = []
        if driver.row.deadline_at:
            moments.append((driver.row.deadline_at, "deadline"))
        if driver.definition.timeout and not self.resting_since:
            moments.append((self._active_since + driver.definition.timeout - driver.row.active, "timeout"))
        return min(moments, default=None)

    def rest(self) -> bool:
        """The run rests from now on; False if it did already."""
        self.account()
        if self.resting_since:
            return False
        self.resting_since = self._clock.now()
        return True

    def stir(self) -> None:
        """Something happens after a rest: the run's own clock goes on."""
        if self.resting_since:
            self.resting_since = 0
            self._active_since = self._clock.now()

    def account(self) -> None:
        """Add the time since the run last rested to the time for which its `timeout` counts."""
        now = self._clock.now()
        if not self.resting_since:
            self._driver.row.active += max(0, now - self._active_since)
        self._active_since = now

    def set_alarm(self) -> None:
        """Wake the run when something is due next."""
        when = self.next_wake()
        if when == self._alarm_at:
            return
        self.cancel_alarm()
        self._alarm_at = when
        self._alarm = self._clock.call_at(when, self._ring) if when else None

    def cancel_alarm(self) -> None:
        """Do not wake the run."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm_at, self._alarm = 0, None
        self._driver.wake()
