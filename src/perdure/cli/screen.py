"""What the commands print: tables, fields, times, errors, JSON. Words carry the meaning, colour only adds to them.

Results go to standard output, everything said about them (hints, progress, errors) to standard error, so that pipes get
results alone. This module may print; it knows no store.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perdure.core.duration import show
from perdure.core.errors import PerdureError

__all__ = ["Screen", "ago", "clock", "compact", "moment", "plain", "status_text"]

STYLES = {
    "succeeded": "green",
    "failed": "red",
    "blocked": "bold red",
    "cancelled": "yellow",
    "paused": "yellow",
    "running": "cyan",
    "waiting": "blue",
}


class Screen:
    """The two streams of one command."""

    def __init__(self) -> None:
        self.out = Console(highlight=False, emoji=False, markup=False)
        self.err = Console(stderr=True, highlight=False, emoji=False, markup=False)

    @property
    def interactive(self) -> bool:
        """Whether a person looks at it."""
        return self.err.is_terminal

    def say(self, text: str | Text, style: str = "") -> None:
        """Print a result; long lines wrap at words on a terminal and stay whole in a pipe."""
        self.out.print(text, style=style, soft_wrap=not self.out.is_terminal)

    def note(self, text: str | Text, style: str = "dim") -> None:
        """Say something about the result."""
        self.err.print(text, style=style, soft_wrap=not self.err.is_terminal)

    def error(self, error: PerdureError) -> None:
        """Print an error: code and what happened, where, and what to do."""
        line = Text.assemble(("error", "bold red"), " ", (error.code, "bold"), " ", error.message)
        self.err.print(line, soft_wrap=not self.err.is_terminal)
        for word, value in (("run", error.run), ("step", error.step), ("hint", error.hint)):
            if value:
                self._field(self.err, word, value, 4)

    def json(self, value: Any) -> None:
        """Print one JSON document, indented."""
        text = msgspec.json.format(msgspec.json.encode(plain(value)), indent=2)
        sys.stdout.write(text.decode() + "\n")

    def heading(self, text: str) -> None:
        """Begin a part."""
        self.out.print()
        self.out.print(text, style="bold")

    def fields(self, rows: Iterable[tuple[str, str | Text]]) -> None:
        """Names and values, one pair a line; those without a value are left out."""
        shown = [(name, value) for name, value in rows if value]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self._field(self.out, name, value, width)

    def _field(self, console: Console, name: str, value: str | Text, width: int) -> None:
        if console.is_terminal:
            grid = Table.grid(padding=(0, 2, 0, 0))
            grid.add_column(min_width=width, no_wrap=True, style="dim")
            grid.add_column(overflow="fold")
            grid.add_row("  " + name.ljust(width), value if isinstance(value, Text) else Text(value))
            console.print(grid)
        else:
            console.print(Text.assemble("  ", name.ljust(width), "  ", value), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, keep: Iterable[int] = (0,), full: bool = False) -> None:
        """A table. Columns in `keep` are never cut; the others share what is left, cut at the end unless `full`."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        kept = set(keep)
        for number, column in enumerate(columns):
            if number in kept:
                table.add_column(column.upper(), overflow="fold", no_wrap=not full)
            else:
                table.add_column(column.upper(), overflow="fold" if full else "ellipsis", no_wrap=not full)
        lines = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
        for line in lines:
            table.add_row(*line)
        if self.out.is_terminal:
            self.out.print(table)
        else:  # in a pipe nothing kept may be lost: the line grows instead
            needed = sum(max([len(columns[n]), *(line[n].cell_len for line in lines)]) + 2 for n in kept)
            self.out.print(table, width=max(self.out.width, needed + 40 * (len(columns) > len(kept))))

    @contextmanager
    def progress(self, text: str) -> Iterator[None]:
        """Show that something goes on which may take long: a moving line on a terminal, one plain line elsewhere."""
        if self.interactive:
            with self.err.status(Text(text)):
                yield
        else:
            yield


def moment(time: datetime | None) -> str:
    """A time as people read it: local, to the second, with how far away it is."""
    if time is None:
        return ""
    return f"{time.astimezone():%Y-%m-%d %H:%M:%S} ({ago(time)})"


def ago(time: datetime | None) -> str:
    """How far away a time is: `3m 20s ago`, `in 6d 23h`, `now`."""
    if time is None:
        return ""
    length = round((datetime.now(UTC) - time).total_seconds())
    if abs(length) < 1:
        return "now"
    return f"{show(length * 1_000_000)} ago" if length > 0 else f"in {show(-length * 1_000_000)}"


def clock(time: datetime | None, reference: datetime | None = None) -> str:
    """A time of day, with the date when the reference is another day."""
    if time is None:
        return ""
    local = time.astimezone()
    if reference is not None and reference.astimezone().date() != local.date():
        return f"{local:%m-%d %H:%M:%S}"
    return f"{local:%H:%M:%S}"


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(status, STYLES.get(status, ""))


def compact(value: Any) -> str:
    """A JSON value on one line; text as it is, its control characters escaped."""
    if isinstance(value, str):
        return value if value.isprintable() and value else msgspec.json.encode(value).decode()
    return msgspec.json.encode(value).decode()


def plain(value: Any) -> Any:
    """A value of the public API as JSON data: times in UTC, statuses as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value) if each.repr}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value
