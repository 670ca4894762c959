"""`perdure runs`: list them, look into one, cancel it, send to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from perdure.app import App
from perdure.core.errors import ConfigurationError
from perdure.core.status import Status
from perdure.listing import RunInfo

from .arguments import JSON, Moment
from .commands import Commands
from .details import read_details, show_details
from .screen import Screen, ago, status_text
from .session import database_option, find_run, json_option, person, use
from .why import why

__all__ = ["runs"]

PAGE = 500
"""How many runs are read at once for `--all`."""


@click.group(cls=Commands)
def runs() -> None:
    """List runs and look into them.

    An ID may be shortened to a beginning that no other run's id has.
    """


runs.add_command(why)


@runs.command("list")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    metavar="STATUS",
    type=click.Choice([status.value for status in Status]),
    help=f"Only these (may be repeated): {', '.join(Status)}.",
)
@click.option("--workflow", default="", help="Only runs of this workflow, by its full name.")
@click.option("--tag", "tags", multiple=True, help="Only runs with this tag (repeated: with all of them).")
@click.option("--since", type=Moment(), help="Made at or after: 2026-05-01, or how long ago, as 2h.")
@click.option("--until", type=Moment(), help="Made before.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many.")
@click.option("--after", help="Go on after an earlier page: its `next`.")
@click.option("--all", "everything", is_flag=True, help="All of them, not only a page.")
@database_option
@json_option
def list_runs(
    statuses: tuple[str, ...],
    workflow: str,
    tags: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    limit: int,
    after: str | None,
    everything: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """List runs, the newest first.

    With --json: {"runs": [...], "next": ...}; a `next` that is not null is the --after of the following page.
    """
    screen = Screen()

    async def read(app: App) -> tuple[list[RunInfo], str | None, dict[str, int]]:
        found: list[RunInfo] = []
        following = after
        while True:
            page = await app.runs(
                status=statuses or None,
                workflow=workflow,
                tag=tags,
                since=since,
                until=until,
                limit=PAGE if everything else limit,
                after=following,
            )
            found += page.items
            following = page.next
            if not everything or following is None:
                return found, following, {} if found else await app.count()

    with screen.progress("reading runs"):
        found, following, counts = use(url, read)
    if as_json:
        screen.json({"runs": found, "next": following})
        return
    if not found:
        screen.note("no run fits" if counts else "there are no runs yet")
        return
    screen.table(("id", "status", "workflow", "made", "ended / wakes", "tags"), [_row(run) for run in found], keep=(0, 1))
    if following is not None:
        screen.note(f"more with --after {following}, or --all")


def _row(run: RunInfo) -> tuple[Any, ...]:
    last = ""
    if run.ended_at is not None:
        last = f"ended {ago(run.ended_at)}"
    elif run.wakes_at is not None:
        last = f"wakes {ago(run.wakes_at)}" if run.wakes_at > datetime.now(UTC) else "due"
    return run.id, status_text(run.status), run.workflow, ago(run.created_at), last, ", ".join(run.tags)


@runs.command()
@click.argument("id")
@click.option("--full", is_flag=True, help="Every entry of the journal, and values at full length.")
@database_option
@json_option
def show(id: str, full: bool, url: str | None, as_json: bool) -> None:
    """Show one run: its state, journal, published values, open asks and result.

    With --json: {"run": ..., "arguments": ..., "journal": [...], "published": {...}, "open": [...], "result": ..., "error": ...},
    complete whether --full is given or not.
    """
    screen = Screen()
    details = use(url, lambda app: read_details(app, id, everything=full or as_json))
    if as_json:
        screen.json(details.as_json())
    else:
        show_details(screen, details, full=full)


@runs.command()
@click.argument("id")
@click.option("--reason", default="", help="Why; the run's journal keeps it.")
@click.option("--by", default=person, help="Who. Default: the user of this system.")
@database_option
def cancel(id: str, reason: str, by: str, url: str | None) -> None:
    """Ask a run to stop, and its attached children.

    It gets a CancelledError where it waits and may clean up. One that has ended stays as it is.
    """
    screen = Screen()

    async def write(app: App) -> tuple[RunInfo, Status, RunInfo]:
        row = await find_run(app, id)
        handle = app.handle(row.id)
        before = await handle.cancel(reason, by=by)
        return RunInfo.of(row), before, await handle.info()

    run, before, after = use(url, write)
    if before.ended:
        screen.note(f"run {run.id} had ended before ({before}); nothing was changed")
    elif after.status is Status.CANCELLED:
        screen.say(f"run {run.id} is cancelled (it was {before})")
    elif run.cancel_requested_at is not None:
        screen.note(f"run {run.id} has been asked to stop {ago(run.cancel_requested_at)} and is still {after.status}")
    else:
        screen.say(f"run {run.id} was {before} and has been asked to stop")


@runs.command()
@click.argument("id")
@click.argument("name")
@click.argument("value", metavar="[JSON]", required=False, type=JSON())
@click.option("--message-id", help="The same one again is the same message: it is left once.")
@database_option
def send(id: str, name: str, value: Any, message_id: str | None, url: str | None) -> None:
    """Send a message to a run, which gets it by `receive(NAME)`.

    JSON is its value (none: null). Text needs quotes inside the shell's: perdure runs send ID note '"well done"'
    """
    if not name:
        raise ConfigurationError("a message needs a name", hint="it is what the run's receive() names")

    async def write(app: App) -> str:
        row = await find_run(app, id)
        await app.handle(row.id).send(name, value, id=message_id)
        return row.id

    run = use(url, write)
    Screen().say(f"sent {name} to run {run}")
