"""Replaying a journal only to look: which steps, timers and messages does the code wait for where it stands?

Read-only: recorded entries are fed, nothing that the code asks for is carried out, and the execution is dropped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from perdure.app import App
from perdure.core.entry import Entry, Kind
from perdure.core.errors import PerdureError
from perdure.core.execution import Execution
from perdure.core.facts import RunFacts
from perdure.core.payload import unpack
from perdure.registry import definitions
from perdure.stores.rows import RunRow

__all__ = ["Replayed", "replay_run"]


@dataclass
class Replayed:
    """Where the code stands after its journal. `problem` says why that could not be found out."""

    problem: str = ""
    where: str = ""
    steps: list[str] = field(default_factory=list)
    timers: list[tuple[str, int]] = field(default_factory=list)
    messages: list[tuple[str, ...]] = field(default_factory=list)
    drifts: list[str] = field(default_factory=list)


async def replay_run(app: App, row: RunRow) -> Replayed:
    """Replay one run with the code that is loaded in this process."""
    definition = definitions.workflow(row.workflow)
    if definition is None:
        return Replayed(f"it does not define {row.workflow}")
    store, process = app.gate.store, app.gate.process
    entries = await app.gate.read(lambda: process.unpacked(store.journal(row.number)))
    facts = RunFacts(
        id=row.id,
        number=row.number,
        workflow=row.workflow,
        input=await app.gate.read(lambda: unpack(row.input, store.blobs)),
        identity=hashlib.blake2b(f"{store.uid}/{row.number}".encode(), digest_size=32).digest(),
        tags=tuple(row.tags),
    )
    execution = Execution(definition, facts)
    try:
        _feed(execution, entries)
        return _waits(execution)
    except PerdureError as error:
        return Replayed(str(error.message))
    except Exception as error:  # noqa: BLE001 - the code is the user's
        return Replayed(f"{type(error).__name__}: {error}")
    finally:
        execution.drop()


def _feed(execution: Execution, entries: list[Entry]) -> None:
    execution.patches_recorded = frozenset(entry.key for entry in entries if entry.kind == Kind.PATCHED)
    for index, entry in enumerate(entries):
        execution.at_end = index == len(entries) - 1
        if index == 0:
            execution.begin(entry)
        else:
            execution.feed(entry)


def _waits(execution: Execution) -> Replayed:
    steps = dict.fromkeys(operation.key for operation in execution.operations.values() if operation.kind is Kind.STEP)
    timers = [(key, timer.deadline) for key, timer in execution.timers.items() if key not in execution.waits]
    messages = [tuple(sorted(names)) for names, waiter in execution.receivers if not waiter.done()]
    return Replayed(
        where=execution.where(),
        steps=list(steps),
        timers=sorted(timers, key=lambda each: each[1]),
        messages=messages,
        drifts=[str(drift) for drift in execution.drifts],
    )
