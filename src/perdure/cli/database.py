"""`perdure db`: make or upgrade a database, look at its facts, check it."""

from __future__ import annotations

from typing import Any

import click

from perdure.app import App
from perdure.listing import WorkerInfo

from .commands import FAILED, Commands
from .screen import Screen, ago
from .session import database_option, json_option, use

__all__ = ["database"]


@click.group("db", cls=Commands)
def database() -> None:
    """Make, upgrade, look at and check a database."""


@database.command()
@database_option
def upgrade(url: str | None) -> None:
    """Bring a database to this version of perdure, or make it.

    Any number of processes may do this at once, and opening an app does it too. A database that is newer, damaged or of another
    program is refused untouched.
    """
    screen = Screen()

    async def read(app: App) -> dict[str, object]:
        return await app.gate.read(app.gate.store.info)

    with screen.progress("upgrading; a large database may take a while"):
        facts = use(url, read, create=True)
    screen.say(f"{facts.get('path', url)} has schema version {facts['schema']}, that of this perdure")


@database.command()
@database_option
@json_option
def info(url: str | None, as_json: bool) -> None:
    """Show what a database is and holds.

    With --json: {"store": ..., "path": ..., "schema": ..., "bytes": ..., "rows": {...}, "runs": {...}, "workers": [...], ...}
    """
    screen = Screen()

    async def read(app: App) -> tuple[dict[str, object], dict[str, int], list[WorkerInfo]]:
        facts = await app.gate.read(app.gate.store.info)
        workers = [each for each in await app.workers() if each.role != "client"]
        return facts, await app.count(), workers

    with screen.progress("counting"):
        facts, counts, workers = use(url, read)
    if as_json:
        screen.json({**facts, "runs": counts, "workers": workers})
        return
    rows = facts.get("rows")
    screen.fields((name.replace("_", " "), _fact(name, value)) for name, value in facts.items() if name != "rows")
    if isinstance(rows, dict):
        screen.heading("rows")
        screen.fields((str(name), f"{count:,}") for name, count in rows.items())
    screen.heading("runs")
    screen.fields((status, f"{count:,}") for status, count in counts.items())
    if not counts:
        screen.note("  none")
    screen.heading("workers")
    if workers:
        screen.table(
            ("#", "name", "runs", "started", "seen", "build"),
            [(str(w.number), w.name, str(w.runs), ago(w.started_at), ago(w.seen_at), w.build) for w in workers],
            keep=(0, 1),
        )
    else:
        screen.note("  none is running: perdure worker FILE starts one")


def _fact(name: str, value: Any) -> str:
    if name.endswith("bytes") and isinstance(value, int):
        return _size(value)
    return str(value)


def _size(count: int) -> str:
    """A number of bytes as people read it.

    >>> _size(131072), _size(900)
    ('128 KiB', '900 bytes')
    """
    if count < 1024:
        return f"{count} bytes"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 100 else f"{size:.0f} {unit}"
    return f"{size / 1024:,.1f} TiB"


@database.command()
@database_option
@json_option
def check(url: str | None, as_json: bool) -> None:
    """Read all of a database and say what is wrong with it; it changes nothing.

    The exit code is 1 if anything is. With --json: {"problems": [...]}
    """
    screen = Screen()

    async def read(app: App) -> list[str]:
        return await app.gate.read(app.gate.store.check)

    with screen.progress("reading everything"):
        problems = use(url, read)
    if as_json:
        screen.json({"problems": problems})
    elif problems:
        for problem in problems:
            screen.say(problem, style="red")
        screen.note(f"{len(problems)} problem{'s' * (len(problems) != 1)} found; nothing was changed")
    else:
        screen.say("nothing is wrong with it")
    if problems:
        click.get_current_context().exit(FAILED)
