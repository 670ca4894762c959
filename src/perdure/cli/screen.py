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
from rich.text import Text

from perdure.core.duration import show
from perdure.core.errors import PerdureError

__all__ = ["Screen", "ago", "clock", "compact", "counted", "moment", "plain", "status_text"]

STYLES = {
    "succeeded": "green",
    "failed": "red",
    "blocked": "bold red",
    "cancelled": "yellow",
    "paused": "yellow",
    "running": "cyan",
    "waiting": "blue",
}

NARROWEST, WIDEST = 8, 100
"""Columns that a cut cell keeps on a terminal, and has at most in a pipe."""


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
        text = value if isinstance(value, Text) else Text(value)
        indent = width + 4
        lines = list(text.split("\n"))
        if console.is_terminal:
            lines = [part for line in lines for part in line.wrap(console, max(20, console.width - indent))]
        for number, line in enumerate(lines):
            label = Text.assemble("  ", (name.ljust(width), "dim"), "  ") if number == 0 else Text(" " * indent)
            console.print(label.append_text(line), soft_wrap=True)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, keep: Iterable[int] = (0,), full: bool = False
    ) -> None:
        """A table without its empty columns.

        Those in `keep` are never cut; others are where they must be, unless `full` lets the last one go on below.
        """
        cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
        used = [number for number in range(len(columns)) if any(row[number].cell_len for row in cells)]
        cells = [[row[number] for number in used] for row in cells]
        head = [Text(columns[number].upper(), "bold") for number in used]
        widths = self._widths([head, *cells], {place for place, number in enumerate(used) if number in set(keep)}, full=full)
        for row in [head, *cells]:
            last = row[-1]
            parts = list(last.wrap(self.out, widths[-1])) if full and widths[-1] and last.cell_len > widths[-1] else [last]
            for number, part in enumerate(parts):
                line = Text()
                for cell, width in zip([*row[:-1], part], widths, strict=True):
                    shown = Text() if number and cell is not part else cell.copy()
                    shown.truncate(width, overflow="ellipsis", pad=True)
                    line.append_text(shown).append("  ")
                line.rstrip()
                self.out.print(line, soft_wrap=True)

    def _widths(self, rows: list[list[Text]], keep: set[int], *, full: bool) -> list[int]:
        """How wide each column is: as wide as its content, less where a terminal's line or (in a pipe) patience ends."""
        widths = [max(row[number].cell_len for row in rows) for number in range(len(rows[0]))]
        free = [number for number in range(len(widths)) if number not in keep]
        if not self.out.is_terminal:
            return [width if number in keep or full else min(width, WIDEST) for number, width in enumerate(widths)]
        while free and (over := sum(widths) + 2 * (len(widths) - 1) - self.out.width) > 0:
            widest = max(free, key=lambda number: (widths[number], number))
            second = max((widths[number] for number in free if number != widest), default=0)
            narrower = max(widths[widest] - over, min(second, widths[widest] - 1), NARROWEST)
            if narrower >= widths[widest]:
                break  # nothing more can be cut: the terminal wraps the line
            widths[widest] = narrower
        return widths

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


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
