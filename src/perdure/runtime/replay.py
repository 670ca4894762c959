"""Replaying a run's journal: when it is claimed, and, in the hardest test mode, before every entry.

This module feeds what is recorded. What is new is the driver's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from perdure.core.entry import Kind
from perdure.core.errors import Drifted
from perdure.core.execution import Execution
from perdure.core.payload import readable

if TYPE_CHECKING:
    from perdure.core.entry import Entry
    from perdure.stores.rows import Message

    from .driver import Driver

__all__ = ["DRIFT", "drift_error", "keep_drifts", "new_execution", "rebuild", "replay"]

logger = logging.getLogger("perdure.run")

DRIFT = "~drift"
"""The published key that holds what a run drifted by when it was last replayed with a drift."""
DRIFTS_KEPT, DRIFT_LENGTH = 20, 500
REPLAY_SLICE = 2_000
"""Entries replayed before other runs get their turn."""


def new_execution(driver: Driver, entries: list[Entry]) -> Execution:
    """A fresh execution for a journal."""
    execution = Execution(driver.definition, driver.facts, on_foreign=driver.foreign_call)
    execution.loop.unhandled = driver.unhandled
    driver.had_children = driver.had_children or any(entry.kind == Kind.CHILD for entry in entries)
    execution.patches_recorded = frozenset(entry.key for entry in entries if entry.kind == Kind.PATCHED)
    return execution


def replay(
    driver: Driver, execution: Execution, entries: list[Entry], start: int, messages: list[tuple[Message, bytes | None]]
) -> None:
    """Feed a journal, a slice at a time, then let the run go live."""
    if driver.gone:  # between two slices
        driver.forget(execution)
        return
    # The first claim of a run feeds its first entry live: nothing of what its code does now has been done before.
    execution.replaying = driver.row.claim > 1 or len(entries) > 1
    end = min(start + REPLAY_SLICE, len(entries))
    with driver.worker.driving(driver):
        try:
            for index in range(start, end):
                entry = entries[index]
                execution.at_end = index == len(entries) - 1
                if index == 0:
                    execution.begin(entry)
                else:
                    execution.feed(entry)
                driver.note_ending(entry)
        except Exception as error:  # noqa: BLE001 - whatever stops a replay blocks the run, never the worker
            driver.sequence, driver.time = entries[-1].sequence, entries[-1].time
            driver.execution = execution
            driver.block(error)
            driver.deliver_all(messages)
            return
    if end < len(entries):
        driver.worker.loop.call_soon(replay, driver, execution, entries, end, messages)
        return
    driver.sequence, driver.time = entries[-1].sequence, entries[-1].time
    driver.execution = execution
    driver.go_live(messages)


def rebuild(driver: Driver) -> bool:
    """Drop the execution and replay the journal under the running attempts: the test of determinism."""
    assert driver.execution is not None and driver.journal is not None
    entries = driver.journal
    taken = {change for change, taken in driver.execution.patches.items() if taken}  # perhaps not recorded yet
    asked = {operation.key for operation in driver.execution.take()}  # by entries before this one, and not collected yet
    driver.forget(driver.execution)
    driver.execution = execution = new_execution(driver, entries)
    execution.patches_recorded |= taken
    with driver.worker.driving(driver):
        try:
            execution.begin(entries[0])
            for entry in entries[1:]:
                execution.feed(entry)
            execution.at_end = True
        except Exception as error:  # noqa: BLE001 - as for a replay
            driver.block(error)
            return False
    execution.replaying = False
    if execution.drifts and driver.worker.options.replay_at_park:
        driver.block(drift_error(driver, execution))
        return False
    execution.keep_asked(asked)
    return True


def keep_drifts(driver: Driver, execution: Execution) -> None:
    """Keep what drifted where people see it. The run goes on with its recorded results."""
    told = [text[:DRIFT_LENGTH] for text in map(str, execution.drifts[:DRIFTS_KEPT])]
    logger.info("run drifted: %s", told[0], extra=driver.extra())
    driver.steps.publish(DRIFT, told)


def drift_error(driver: Driver, execution: Execution) -> Drifted:
    """The error of a test whose replay asked for a step with other arguments."""
    drift = execution.drifts[0]
    error = Drifted(
        f"replayed, {drift}",
        run=driver.id,
        step=drift.key,
        hint="take clocks, random numbers and ids from now(), rng() and uuid4(), or from a step",
    )
    error.recorded = [f"{each.key} {readable(each.recorded)}".rstrip() for each in execution.drifts]
    error.asked = [f"{each.key} {each.asked.decode(errors='replace')[:200]}".rstrip() for each in execution.drifts]
    error.where = execution.where()
    return error
