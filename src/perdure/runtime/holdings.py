"""Whether the runs in this worker's hands are still its own.

A run can be taken from a living worker: by a start that replaces it, or by others who took this process for dead. The store
refuses whatever the worker writes for it then. But a run in a long step writes nothing, so the worker also looks now and then,
to stop bodies that work for nobody and to tell those who wait for the run here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.stores.rows import RunRow

    from .driver import Driver
    from .worker import Worker

__all__ = ["Holdings"]


class Holdings:
    """What one worker believes to hold, compared with what the store says."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._looking = False
        self._look_again = False

    @property
    def quiet(self) -> bool:
        """Whether nothing is being looked for."""
        return not self._looking

    def look(self) -> None:
        """Compare, and let go of what others took. Only runs with attempts under way: those that rest write when they wake."""
        if self._looking:
            self._look_again = True
            return
        held = [driver for driver in self._worker.drivers.values() if driver.steps.running]
        if not held:
            return
        self._looking = True
        store = self._worker.process.store
        numbers = [driver.number for driver in held]
        self._worker.process.reads.submit(
            lambda: store.runs_by_number(numbers), lambda rows, error: self._looked(held, rows, error)
        )

    def _looked(self, held: list[Driver], rows: list[RunRow] | None, error: BaseException | None) -> None:
        self._looking = False
        if rows is not None and error is None:
            claims = {row.number: row.claim for row in rows if row.owner == self._worker.number}
            for driver in held:
                if not driver.gone and claims.get(driver.number) != driver.claim:
                    self._worker.lost(driver, "the store says that it is not its own any more")
        if self._look_again:
            self._look_again = False
            self.look()
