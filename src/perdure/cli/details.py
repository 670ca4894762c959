"""One run, looked into: everything that the store knows of it, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from rich.text import Text

from perdure.app import App
from perdure.core.duration import show
from perdure.core.entry import Kind
from perdure.core.payload import unpack
from perdure.listing import HistoryEntry, OpenPromise, RunInfo
from perdure.stores.rows import RunRow

from .screen import Screen, ago, clock, compact, moment, status_text
from .session import command_line, find_run

__all__ = ["Details", "entry_text", "error_text", "read_details", "show_details"]

SHOWN = 60
"""How many entries are shown unless all are wanted: the last ones."""


@dataclass
class Details:
    """A run and what belongs to it."""

    url: str
    row: RunRow
    run: RunInfo
    arguments: Any
    journal: list[HistoryEntry]
    published: dict[str, Any]
    open: list[OpenPromise]
    worker: str
    outcome: Any  # the result, or the error as data
    failed: bool

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return {
            "run": self.run,
            "arguments": self.arguments,
            "journal": self.journal,
            "published": self.published,
            "open": self.open,
            "result": None if self.failed else self.outcome,
            "error": self.outcome if self.failed else None,
        }


async def read_details(app: App, id: str, *, everything: bool) -> Details:
    """Read one run by its id or the beginning of it. Raises `UnknownRun`."""
    row = await find_run(app, id)
    handle, store = app.handle(row.id), app.gate.store
    after = 0 if everything else max(0, row.sequence - SHOWN)
    promises = await app.gate.read(lambda: store.promises(run=row.number, limit=1000))
    owner = await app.gate.read(lambda: store.worker(row.owner)) if row.owner else None
    arguments = await app.gate.read(lambda: unpack(row.input, store.blobs)) if row.input else b"null"
    return Details(
        url=app.url,
        row=row,
        run=RunInfo.of(row),
        arguments=msgspec.json.decode(arguments),
        journal=await handle.history(after=after),
        published=await handle.published(),
        open=[OpenPromise.of(each) for each in promises],
        worker=f"{owner.name} (worker {owner.number})" if owner is not None else "",
        outcome=msgspec.json.decode(await app.gate.fetch(row.result)) if row.result is not None else None,
        failed=row.failed,
    )


def show_details(screen: Screen, details: Details, *, full: bool) -> None:
    """Print it all, the outcome last: that is where the eye is."""
    _head(screen, details, full=full)
    _journal(screen, details, full=full)
    if details.published:
        screen.heading("published")
        screen.table(
            ("key", "value"), [(key, compact(value)) for key, value in details.published.items()], keep=(0,), full=full
        )
    if details.open:
        screen.heading("open")
        screen.fields((each.id, _promise_text(each)) for each in details.open)
    run = details.run
    if run.blocked is not None:
        screen.heading("blocked")
        screen.fields([(run.blocked.code, run.blocked.reason), ("hint", run.blocked.hint)])
    if run.status.ended and run.status != "cancelled":
        screen.heading("error" if details.failed else "result")
        text = error_text(details.outcome) if details.failed else compact(details.outcome)
        screen.say(_indented(text, full=full))
        if details.failed and full and isinstance(details.outcome, dict) and details.outcome.get("traceback"):
            screen.say(_indented(details.outcome["traceback"].rstrip(), full=True), style="dim")
    if not run.status.ended:
        screen.out.print()
        screen.note(f"what it waits for: {command_line(details.url, 'runs', 'why', run.id)}")


def _indented(text: str, *, full: bool) -> str:
    if not full and len(text) > 1000:
        text = f"{text[:1000]}… ({len(text):,} characters; --full shows them)"
    return "\n".join(f"  {line}" for line in text.splitlines())


def _head(screen: Screen, details: Details, *, full: bool) -> None:
    run, row = details.run, details.row
    took = (run.ended_at or run.started_at) if run.started_at else None
    length = _length(run.started_at, run.ended_at) if took else ""
    arguments = compact(details.arguments)
    if not full and len(arguments) > 300:
        arguments = arguments[:300] + "…"
    screen.say(Text.assemble((run.id, "bold"), "  ", status_text(run.status)))
    screen.fields(
        [
            ("workflow", run.workflow + (f" (version {run.version})" if run.version else "")),
            ("arguments", arguments),
            ("tags", ", ".join(run.tags)),
            ("made", moment(run.created_at)),
            ("started", moment(run.started_at)),
            ("wakes", moment(run.wakes_at)),
            ("cancelling", f"asked to stop {ago(run.cancel_requested_at)}" if run.cancel_requested_at else ""),
            ("ended", moment(run.ended_at) + (f", after {length}" if run.ended_at and length else "")),
            ("worker", details.worker),
            ("recoveries", str(run.recoveries) if run.recoveries else ""),
            ("parent", f"run number {row.parent}, key {row.parent_key}" if row.parent else ""),
        ]
    )


def _length(begin: datetime | None, end: datetime | None) -> str:
    if begin is None or end is None:
        return ""
    return show(round((end - begin).total_seconds() * 1_000_000))


def _journal(screen: Screen, details: Details, *, full: bool) -> None:
    screen.heading("journal")
    if not details.journal:
        screen.note("  empty: no worker has claimed the run yet")
        return
    hidden = details.journal[0].sequence - 1
    if hidden:
        screen.note(f"  {hidden:,} earlier entries: --full shows all")
    begun: dict[str, datetime | None] = {}
    rows = []
    first = details.run.started_at
    module, _, _ = details.run.workflow.rpartition(".")  # said above already, and keys are long
    for entry in details.journal:
        if entry.kind in (Kind.OPENED, Kind.CHILD, Kind.BEGUN):
            begun[entry.key] = entry.at
        since = entry.began_at or (begun.get(entry.key) if entry.kind in (Kind.RESOLVED, Kind.CHILD_ENDED, Kind.STEP) else None)
        rows.append(
            (
                str(entry.sequence),
                clock(entry.at, first),
                Text(entry.kind, "red" if entry.failed else ""),
                entry.key if full or not module else entry.key.replace(f"/{module}.", "/", 1),
                str(entry.attempt) if entry.attempt > 1 or entry.kind == Kind.ATTEMPT else "",
                _length(since, entry.at),
                entry_text(entry),
            )
        )
    screen.table(("#", "when", "kind", "key", "try", "took", "value"), rows, keep=(0, 1, 2, 4, 5), full=full)


def entry_text(entry: HistoryEntry) -> str:
    """What an entry says, on one line."""
    match entry.kind:
        case Kind.STARTED:
            return "the run began"
        case Kind.STEP if not entry.failed:
            return compact(entry.value)
        case Kind.ATTEMPT:
            again = f"again {ago(entry.retry_at)}; " if entry.retry_at is not None else ""
            return again + error_text(entry.value)
        case Kind.BEGUN:
            return f"attempt {entry.attempt} begun"
        case Kind.TIMER:
            return "fired"
        case Kind.SIGNAL:
            return f"{entry.name}: {compact(entry.value)}" + (f" from {entry.by}" if entry.by else "")
        case Kind.OPENED:
            question = entry.arguments[0] if isinstance(entry.arguments, list) and entry.arguments else ""
            return f"{entry.subject} {compact(question)}"
        case Kind.RESOLVED:
            how = entry.name + (f" by {entry.by}" if entry.by else "")
            shown = error_text(entry.value) if entry.failed else compact(entry.value) if entry.value is not None else ""
            return f"{how}: {shown}" if shown else how
        case Kind.CHILD | Kind.SENT:
            return f"{entry.subject} {entry.name}".strip()
        case Kind.CANCEL | Kind.EXPIRED:
            return entry.name + (f" by {entry.by}" if entry.by else "")
        case _ if entry.failed:
            return error_text(entry.value)
        case _:
            return compact(entry.value) if entry.value is not None else entry.name


def error_text(value: Any) -> str:
    """A recorded error on one line: its class and message."""
    if not isinstance(value, dict) or "name" not in value:
        return compact(value)
    message = " ".join(str(value.get("message", "")).split())
    return f"{value['name']}: {message}" if message else str(value["name"])


def _promise_text(promise: OpenPromise) -> str:
    text = f"{promise.kind} {compact(promise.question or promise.name)}"
    if promise.to:
        text += f" to {promise.to}"
    text += f", opened {ago(promise.opened_at)}"
    return text + (f", open until {moment(promise.deadline)}" if promise.deadline else "")
