"""Why a run stands where it stands, told from its row, its journal, its open promises, its children and the workers.

What a live run waits for is partly only in its code: timers and receivers have no row. They are inferred where nothing else
is left, said to be inferred, and known exactly when `replaying` can run the code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.app import App
from perdure.core.entry import Kind
from perdure.core.status import Status
from perdure.listing import HistoryEntry, OpenPromise, RunInfo, WorkerInfo, drifts_of, moment
from perdure.stores.rows import RunRow, WorkerRow

from .details import error_text
from .replaying import Replayed, replay_run
from .reply import expected
from .screen import ago, compact, counted
from .session import command_line

__all__ = ["Explanation", "Failure", "Wait", "explain"]


@dataclass
class Wait:
    """One thing that a run waits for."""

    kind: str  # ask | promise | child | message | timer | retry | step | delay | worker
    what: str
    since: datetime | None = None
    until: datetime | None = None
    hint: str = ""
    key: str = ""

    @property
    def until_word(self) -> str:
        """What happens at `until`."""
        return {"retry": "next attempt", "timer": "fires", "delay": "starts"}.get(self.kind, "until")


@dataclass
class Failure:
    """A recorded error."""

    message: str
    key: str
    attempt: int
    at: datetime | None


@dataclass
class Explanation:
    """The answer of `perdure runs why`."""

    run: RunInfo
    summary: str
    since: datetime | None
    waits: list[Wait] = field(default_factory=list)
    last_error: Failure | None = None
    notes: list[str] = field(default_factory=list)
    where: str = ""
    exact: bool = False


@dataclass
class _Facts:
    """All that was read of one run."""

    app: App
    row: RunRow
    run: RunInfo
    journal: list[HistoryEntry]
    promises: list[OpenPromise]
    children: list[RunRow]
    workers: list[WorkerRow]
    unread: int  # messages that no worker has taken yet


async def explain(app: App, row: RunRow, *, replay: bool) -> Explanation:
    """Read what there is and tell it. With `replay`, the loaded code says what it waits for."""
    facts = await _read(app, row)
    told = Explanation(facts.run, "", facts.journal[-1].at if facts.journal else facts.run.created_at)
    status = facts.run.status
    if status.ended:
        await _tell_end(facts, told)
    else:
        _TELLERS[status](facts, told)
        if replay and facts.journal:
            await _tell_replayed(facts, told)
        elif status in (Status.BLOCKED, Status.QUEUED):
            told.waits += _step_waits(facts.journal)
        elif facts.journal:
            told.waits += _inferred(facts)
        _tell_asides(facts, told, replay=replay)
    if told.last_error is None:
        told.last_error = _last_error(facts.journal)
    return told


async def _read(app: App, row: RunRow) -> _Facts:
    store, number = app.gate.store, row.number

    def read() -> tuple[Any, ...]:
        return (
            store.promises(run=number, limit=1000),
            store.children(number),
            [each for each in store.workers() if each.role != "client"],
            len(store.messages_for(number)),
            drifts_of(store, number),
        )

    promises, children, workers, unread, drifts = await app.gate.read(read)
    journal = await app.handle(row.id).history()
    opened = [OpenPromise.of(each) for each in promises]
    return _Facts(app, row, RunInfo.of(row, drifts), journal, opened, children, workers, unread)


# ── by status ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _tell_end(facts: _Facts, told: Explanation) -> None:
    run = facts.run
    outcome = msgspec.json.decode(await facts.app.gate.fetch(facts.row.result))
    told.since = run.ended_at
    if run.status is Status.FAILED:
        told.summary = f"It failed {ago(run.ended_at)}: {error_text(outcome)}"
        told.last_error = Failure(error_text(outcome), "", 0, run.ended_at)
        own = _last_error(facts.journal)
        if own is not None and own.message == told.last_error.message:
            told.last_error = own
    elif run.status is Status.CANCELLED:
        told.summary = f"It was cancelled {ago(run.ended_at)}."
    else:
        shown = compact(outcome)
        told.summary = (
            f"It waits for nothing: it succeeded {ago(run.ended_at)} with {shown[:300]}{'…' if len(shown) > 300 else ''}"
        )


def _tell_delayed(facts: _Facts, told: Explanation) -> None:
    told.summary = "It has not begun: its start was put off."
    told.since = facts.run.created_at
    told.waits.append(Wait("delay", "its start", facts.run.created_at, facts.run.wakes_at))
    told.notes += _workers_note(facts)


def _tell_queued(facts: _Facts, told: Explanation) -> None:
    known = [each for each in facts.workers if facts.row.workflow in each.workflows]
    told.since = max(filter(None, (told.since, facts.run.created_at)))
    if not facts.workers:
        told.summary = "It waits for a worker, and none is running."
        hint = command_line(facts.app.url, "worker", "FILE")
        told.waits.append(Wait("worker", f"any that knows {facts.row.workflow}", told.since, hint=hint))
    elif not known:
        told.summary = f"No running worker knows the workflow {facts.row.workflow}."
        names = sorted({name for each in facts.workers for name in each.workflows})
        told.waits.append(
            Wait("worker", f"one that knows {facts.row.workflow}", told.since, hint=f"they know {', '.join(names) or 'none'}")
        )
    else:
        told.summary = "It waits for its turn: the workers that know it are busy or about to take it."
        for each in known:
            told.waits.append(Wait("worker", f"{each.name} (worker {each.number}), which has {counted(each.runs, 'run')}"))
    if facts.row.crashes:
        told.notes.append(f"Its worker died {counted(facts.row.crashes, 'time')} in a row since its last entry.")


def _tell_running(facts: _Facts, told: Explanation) -> None:
    owner = next((each for each in facts.workers if each.number == facts.row.owner), None)
    if owner is None:
        told.summary = "Its worker has ended; another one takes it over soon, if one is running."
        return
    seen = WorkerInfo.of(owner).seen_at
    told.summary = f"It is running in {owner.name} (worker {owner.number}, seen {ago(seen)})."
    told.notes.append("A step that is in its first attempt has no entry until it ends: it is not shown here.")


def _tell_waiting(facts: _Facts, told: Explanation) -> None:
    due = facts.run.wakes_at is not None and facts.run.wakes_at <= datetime.now(UTC)
    if not due and not facts.unread:
        told.summary = "It waits, and nothing of it is running."
        return
    came = "a message or an answer came" if facts.unread else "its time has come"
    known = any(facts.row.workflow in each.workflows for each in facts.workers)
    told.summary = f"It can go on, since {came}: " + ("a worker takes it in a moment." if known else "it waits for a worker.")


def _tell_paused(facts: _Facts, told: Explanation) -> None:
    told.summary = "It is paused: nothing goes on until somebody resumes it. Its deadlines run."
    told.notes.append(f"To resume it: await app.handle({facts.run.id!r}).resume()")


def _tell_blocked(facts: _Facts, told: Explanation) -> None:
    blocked = facts.run.blocked
    told.summary = f"It is blocked: {blocked.reason}" if blocked is not None else "It is blocked."
    if blocked is not None:
        told.since = blocked.at
        told.last_error = Failure(f"{blocked.code} {blocked.reason}", "", 0, blocked.at)
        anyone = blocked.build == "*"
        told.notes.append(
            ("" if anyone else "A worker with other code tries it again by itself. ")
            + f"To try the same code again: await app.handle({facts.run.id!r}).resume()"
        )


_TELLERS = {
    Status.DELAYED: _tell_delayed,
    Status.QUEUED: _tell_queued,
    Status.RUNNING: _tell_running,
    Status.WAITING: _tell_waiting,
    Status.PAUSED: _tell_paused,
    Status.BLOCKED: _tell_blocked,
}


def _workers_note(facts: _Facts) -> list[str]:
    if any(facts.row.workflow in each.workflows for each in facts.workers):
        return []
    return [f"No running worker knows the workflow {facts.row.workflow}."]


def _tell_asides(facts: _Facts, told: Explanation, *, replay: bool) -> None:
    row, run = facts.row, facts.run
    if run.cancel_requested_at is not None:
        told.notes.append(f"It was asked to stop {ago(run.cancel_requested_at)}.")
    if facts.unread:
        told.notes.append(f"{counted(facts.unread, 'message')} came for it that no worker has taken in yet.")
    if row.deadline_at:
        told.notes.append(f"It must end by its deadline, {ago(moment(row.deadline_at))}.")
    if run.recoveries:
        told.notes.append(f"It was taken over {counted(run.recoveries, 'time')} from a worker that ended.")
    if run.version:
        told.notes.append(
            f"It is pinned to version {run.version!r}: only a worker whose workflow declares that version takes it."
        )
    if not replay:
        told.notes += [f"Drift: {each}. The recorded result stands." for each in run.drifts]
    if run.status in (Status.WAITING, Status.PAUSED):
        told.notes += _workers_note(facts)
    if not replay and run.status in (Status.WAITING, Status.RUNNING, Status.PAUSED):
        told.notes.append(
            "Later timers, and the messages that it would take, are only in its code: --load FILE shows them too."
        )


# ── what it waits for ───────────────────────────────────────────────────────────────────────────────────────────────


def _inferred(facts: _Facts) -> list[Wait]:
    """What the database shows, and what follows from what it does not show."""
    waits = [_promise_wait(facts, each) for each in facts.promises]
    waits += [_child_wait(facts, child) for child in facts.children if not child.ended_at and not child.detached]
    waits += _step_waits(facts.journal)
    wakes = None if facts.unread else facts.run.wakes_at  # with messages unread, it is due because of them
    explained = {wait.until for wait in waits} | {moment(facts.row.deadline_at)}
    if wakes is not None and wakes not in explained:
        waits.append(Wait("timer", "a sleep or a timeout in its code, the earliest one", until=wakes))
    if not waits and facts.run.status is Status.WAITING and not facts.unread:
        waits.append(_message_wait(facts, "a message: nothing else is open (which one is in its code)"))
    return waits


def _message_wait(facts: _Facts, what: str, name: str = "NAME") -> Wait:
    last = next((entry.at for entry in reversed(facts.journal) if entry.at is not None), None)
    return Wait("message", what, last, hint=command_line(facts.app.url, "runs", "send", facts.run.id, name, "JSON"))


def _promise_wait(facts: _Facts, promise: OpenPromise) -> Wait:
    what = compact(promise.question or promise.name) + (f", to {promise.to}" if promise.to else "")
    if promise.problem:
        what += f" (the last answer was sent back: {promise.problem})"
    hint = command_line(facts.app.url, "answer", promise.id, then=expected(promise.schema).example)
    return Wait(promise.kind, what, promise.opened_at, promise.deadline, hint, promise.id)


def _child_wait(facts: _Facts, child: RunRow) -> Wait:
    hint = command_line(facts.app.url, "runs", "why", child.id)
    return Wait(
        "child",
        f"run {child.id} of {child.workflow}, {child.status}",
        moment(child.created_at),
        hint=hint,
        key=child.parent_key,
    )


def _step_waits(journal: list[HistoryEntry]) -> list[Wait]:
    """Steps whose last entry is a failed attempt or the begin of one."""
    last: dict[str, HistoryEntry] = {}
    for entry in journal:
        if entry.kind in (Kind.ATTEMPT, Kind.BEGUN):
            last[entry.key] = entry
        elif entry.kind == Kind.STEP:
            last.pop(entry.key, None)
    waits = []
    for key, entry in last.items():
        if entry.kind == Kind.ATTEMPT:
            what = f"{key}, attempt {entry.attempt} failed: {error_text(entry.value)}"
            waits.append(Wait("retry", what, entry.at, entry.retry_at, key=key))
        else:
            waits.append(Wait("step", f"{key}, attempt {entry.attempt} begun and not ended", entry.at, key=key))
    return waits


async def _tell_replayed(facts: _Facts, told: Explanation) -> None:
    replayed = await replay_run(facts.app, facts.row)
    if replayed.problem:
        told.notes.append(f"The loaded code could not tell more: {replayed.problem}")
        told.waits += _inferred(facts) if facts.run.status not in (Status.BLOCKED, Status.QUEUED) else []
        return
    told.exact = True
    told.where = replayed.where
    told.notes += [f"Drift: {each}. The recorded result stands." for each in replayed.drifts]
    told.waits += _exact(facts, replayed)


def _exact(facts: _Facts, replayed: Replayed) -> list[Wait]:
    """What the replayed code waits for."""
    waits = [_promise_wait(facts, each) for each in facts.promises]
    waits += [_child_wait(facts, child) for child in facts.children if not child.ended_at and not child.detached]
    steps = {wait.key: wait for wait in _step_waits(facts.journal)}
    for key in replayed.steps:
        waits.append(steps.get(key) or Wait("step", f"{key}, under way or about to start", key=key))
    for key, deadline in replayed.timers:
        waits.append(Wait("timer", key, until=moment(deadline), key=key))
    for names in replayed.messages:
        waits.append(_message_wait(facts, f"a message named {' or '.join(names)}", names[0]))
    return waits


def _last_error(journal: list[HistoryEntry]) -> Failure | None:
    for entry in reversed(journal):
        if entry.failed:
            return Failure(error_text(entry.value), entry.key, entry.attempt, entry.at)
    return None
