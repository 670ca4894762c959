"""The lease of a worker: renewed from a thread of its own, as long as the event loop is seen to live.

A process whose loop hangs first stops claiming (its loop does nothing at all), and after some leases without a tick it stops
renewing too: others may then take its runs over. A loop that blocks for more than a moment is reported with its stack.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LeaseKeeper"]

logger = logging.getLogger("perdure.watchdog")

HUNG_LEASES = 3
"""Leases without a tick of the loop after which a worker gives itself up."""

BLOCKED_SECONDS = 1.0
"""How long the loop may go without a tick before its stack is logged."""


class LeaseKeeper:
    """Calls `renew` every two thirds of a lease, and watches the loop's ticks.

    Two thirds, because an idle worker should hardly be noticed by its database and commits renew the lease as well.
    """

    def __init__(
        self,
        lease: int,
        renew: Callable[[], None],
        describe: Callable[[], str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = lease / 1_000_000
        self._renew = renew
        self._describe = describe
        self._stop = threading.Event()
        self._monotonic = monotonic
        self._ticked = monotonic()
        self._next_renewal = self._ticked + self._lease * 2 / 3
        self._loop_thread = threading.get_ident()
        self._reported = False
        self._thread = threading.Thread(target=self._run, name="perdure-lease", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def tick(self) -> None:
        """The loop is alive."""
        self._ticked = self._monotonic()
        self._reported = False

    def stop(self) -> None:
        """Renew no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            try:
                self.look()
            except Exception:
                # A worker whose lease nobody renews loses its runs: this thread must not die.
                logger.exception("the lease could not be looked after, trying again")

    def look(self) -> None:
        """Renew the lease if it is time and the loop lives; report a loop that is blocked, once."""
        now = self._monotonic()
        silent = now - self._ticked
        if now >= self._next_renewal and silent < HUNG_LEASES * self._lease:
            self._next_renewal = now + self._lease * 2 / 3
            self._renew()
        if silent > BLOCKED_SECONDS and not self._reported:
            self._reported = True
            self._report(silent)

    def _report(self, silent: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the documented way to another thread's stack
        stack = "".join(traceback.format_stack(frame, limit=8)) if frame is not None else ""
        logger.warning("the event loop has been blocked for %.1f s%s\n%s", silent, self._describe(), stack)
