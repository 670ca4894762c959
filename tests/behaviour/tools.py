"""What the behaviour tests share: looking at journals, waiting for what other tasks do, stores that fail on demand."""

import asyncio
import time

import pytest

from perdure import RunBlocked, RunCancelled
from perdure.core.errors import StoreError
from perdure.core.execution import Execution
from perdure.core.facts import RunFacts


async def until(condition, what="it", seconds=20.0):
    """Wait until a condition (a function, async or not) holds. It polls: what it waits for happens on this very loop."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < end, f"waited too long for {what}"
        await asyncio.sleep(0.001)


def observing(*apps):
    """Have apps on one file, all in this process, look what the others committed; true, to be part of a condition."""
    for app in apps:
        app._process.changed()
    return True


def lines(history):
    """A journal as `kind key` lines, failed ones with a mark; keys without the module."""
    return [
        f"{each.kind} {each.key.rsplit('.', 1)[-1] if each.kind in ('step', 'attempt', 'begun') else each.key}"
        for each in history
    ]


async def kinds(run):
    """The kinds of a run's entries, in order."""
    return [each.kind for each in await run.history()]


async def has(run, kind):
    """Whether a run's journal has an entry of this kind."""
    return kind in await kinds(run)


async def blocked(run, code):
    """Wait until the run is blocked, and check why; gives the blockage."""
    try:
        value = await run.result()
    except RunBlocked:
        pass
    else:
        raise AssertionError(f"the run ended with {value!r} instead of being blocked")
    info = await run.info()
    assert info.status == "blocked"
    assert info.blocked.code == code, info.blocked
    return info.blocked


async def cancelled(run):
    """Wait until a run has ended as cancelled."""
    with pytest.raises(RunCancelled):
        await run.result()
    assert await run.status() == "cancelled"


async def all_runs(app):
    """Status by id of all runs."""
    return {run.id: str(run.status) for run in (await app.runs(limit=1000)).items}


async def store_state(app):
    """Everything countable in the store: for "nothing was changed"."""
    facts = dict(await app.gate.read(app.gate.store.info))
    counts = {
        key: value
        for key, value in facts.items()
        if "worker" not in key and key not in ("size", "bytes", "size_bytes") and not isinstance(value, bytes)
    }
    promises = await app.gate.read(lambda: app.gate.store.promises(open_only=False, limit=1000))
    runs = await app.runs(limit=1000)
    return (
        counts,
        [(each.id, each.state, each.by, each.problem) for each in promises],
        [(r.id, r.status, r.entries) for r in runs.items],
    )


class FaultyStore:
    """A store between an app and its real one: `on_commit(batch, commit)` may fail before, after or instead of writing."""

    def __init__(self, store):
        self.inner = store
        self.on_commit = None
        self.batches = 0

    @classmethod
    def between(cls, app):
        """Put one between an open app and its store."""
        faulty = cls(app._kept._store)
        app._kept._store = faulty
        return faulty

    def commit(self, batch):
        self.batches += 1
        if self.on_commit is None:
            return self.inner.commit(batch)
        return self.on_commit(batch, self.inner.commit)

    def fail(self, times, wanted=lambda change: True):
        """Fail the next commits that have such a change, without writing anything."""
        left = [times]

        def commit(batch, write):
            if left[0] and any(wanted(change) for change in batch.changes):
                left[0] -= 1
                raise StoreError("the connection was reset")
            return write(batch)

        self.on_commit = commit
        return left

    def __getattr__(self, name):
        return getattr(self.inner, name)


async def journal_of(app, run):
    """The entries of a run as its code is fed them."""
    number = (await run.info()).number
    store, process = app.gate.store, app.gate.process
    return await app.gate.read(lambda: process.unpacked(store.journal(number)))


async def replayed(app, run, entries, after=None):
    """Feed entries to a new execution of a run, and nothing else; `after(execution)` is called after each. Dropped in the end."""
    row = await app.gate.read(lambda: app.gate.store.run(run.id))
    definition = app.definitions.workflow(row.workflow)
    data = await app.gate.fetch(row.input)
    facts = RunFacts(
        id=row.id, number=row.number, workflow=row.workflow, input=data, identity=app.worker.identity(row.number), tags=()
    )
    execution = Execution(definition, facts)
    execution.patches_recorded = frozenset(each.key for each in entries if each.kind == "patched")
    try:
        for each in entries:
            execution.at_end = each is entries[-1]
            if each.kind == "started":
                execution.begin(each)
            else:
                execution.feed(each)
            if after is not None:
                after(execution)
    finally:
        execution.drop()
    return execution
