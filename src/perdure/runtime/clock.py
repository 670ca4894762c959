"""Where the runtime gets the time from. Everything that waits does so through a `Clock`, so tests can bring their own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["Alarm", "Clock", "SystemClock", "within"]


class Alarm(Protocol):
    """Something that will ring, and can be stopped from doing so."""

    def cancel(self) -> None:
        """Do not ring."""
        ...


class Clock(Protocol):
    """The time in µs since the epoch, and alarms at such times."""

    def now(self) -> int:
        """The time now."""
        ...

    def call_at(self, when: int, callback: Callable[[], None]) -> Alarm:
        """Call `callback` on the loop's thread at `when` or soon after."""
        ...

    def call_later(self, delay: int, callback: Callable[[], None]) -> Alarm:
        """Call `callback` after `delay` µs."""
        ...


class SystemClock:
    """The machine's clock, with alarms on an asyncio loop."""

    LONGEST = 86_400.0  # a day: event loops refuse far-away timers, and the wall clock may be set meanwhile

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> int:
        """The time now."""
        return time.time_ns() // 1000

    def call_at(self, when: int, callback: Callable[[], None]) -> Alarm:
        """Call `callback` at `when`."""
        return self.call_later(when - self.now(), callback)

    def call_later(self, delay: int, callback: Callable[[], None]) -> Alarm:
        """Call `callback` after `delay` µs."""
        return self._loop.call_later(min(max(delay, 0) / 1_000_000, self.LONGEST), callback)


@contextlib.asynccontextmanager
async def within(clock: Clock, length: int | None, what: str) -> AsyncIterator[None]:
    """Like `asyncio.timeout`, by a clock: `TimeoutError(what)` when the block takes longer than `length` µs (None: no limit)."""
    if length is None:
        yield
        return
    loop, end = asyncio.get_running_loop(), clock.now() + length
    limit = asyncio.timeout(None)
    alarm: Alarm

    def ring() -> None:
        nonlocal alarm
        if clock.now() < end:  # a clock may ring early when the time is far away
            alarm = clock.call_at(end, ring)
        else:
            limit.reschedule(loop.time())

    try:
        async with limit:
            alarm = clock.call_at(end, ring)
            try:
                yield
            finally:
                alarm.cancel()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(what) from error
