"""One command's stay in a store: opens an app without a worker, runs the command's reads and writes, closes it.

A reading command never makes a database: a path that is not there is refused before anything is opened.
"""

from __future__ import annotations

import asyncio
import getpass
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perdure.app import App
from perdure.core.errors import ConfigurationError, StoreUnavailable, UnknownRun
from perdure.location import DEFAULT_URL, resolve, sqlite_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.stores.rows import RunRow

__all__ = ["MissingDatabase", "command_line", "database_option", "find_run", "json_option", "person", "use"]

T = TypeVar("T")


class MissingDatabase(StoreUnavailable):
    """The database that a reading command should read is not there; it was not made."""

    code = StoreUnavailable.code


def database_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--db URL`, the same for every command."""
    return click.option(
        "--db",
        "url",
        metavar="URL",
        help=f"The store. Default: $PERDURE_URL, else {DEFAULT_URL} (in this folder).",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, the same for every listing."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document. Times are UTC.")(command)


def use(url: str | None, work: Callable[[App], Awaitable[T]], *, create: bool = False) -> T:
    """Run `work` with an open app that hosts no worker, and give its result."""
    resolved = resolve(url)
    if not create:
        _refuse_missing(resolved)

    async def session() -> T:
        async with App(resolved, worker=False) as app:
            return await work(app)

    return asyncio.run(session())


def _refuse_missing(url: str) -> None:
    if not url.startswith("sqlite:"):
        return
    path = sqlite_path(url)
    if path == ":memory:":
        raise ConfigurationError(f"{url!r} is memory of one process: no command can look into it", hint="name a file with --db")
    if not Path(path).exists():
        raise MissingDatabase(
            f"there is no database at {Path(path).resolve()}; it was not made",
            hint="name another by --db URL or $PERDURE_URL; perdure worker and perdure db upgrade make one",
        )


async def find_run(app: App, id: str) -> RunRow:
    """The run with this id, or the only one whose id begins so. Raises `UnknownRun`."""
    store = app.gate.store
    row = await app.gate.read(lambda: store.run(id))
    if row is not None:
        return row
    page = await app.runs(id_prefix=id, limit=5)
    if len(page.items) == 1:
        rows = await app.gate.read(lambda: store.runs_by_number([page.items[0].number]))
        return rows[0]
    if not page.items:
        raise UnknownRun(f"no run has the id {id!r}, and none begins so", hint=command_line(app.url, "runs", "list"))
    listed = ", ".join(each.id for each in page.items) + (", …" if page.next else "")
    raise UnknownRun(f"the ids of several runs begin with {id!r}", hint=f"type more of it: {listed}")


def command_line(url: str, *words: str, then: str = "") -> str:
    """A command to type: its words quoted for a shell, `then` as it is, and `--db` if it would else look into another store.

    >>> command_line("sqlite:///a.db", "runs", "why", "my run")
    "perdure runs why 'my run' --db sqlite:///a.db"
    """
    database = [] if url == resolve(None) else ["--db", url]
    return " ".join(filter(None, (shlex.join(["perdure", *words]), then, shlex.join(database))))


def person() -> str:
    """Who sits here: the operating system's user name, for the record of who did what."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run under a number that has no name
        return ""
