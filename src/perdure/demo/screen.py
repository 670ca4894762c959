"""The demo's screen: one line for each thing that happens, with the seconds in front; readable in 80 columns, piped or grey.

Only words and plain characters carry the meaning, colour adds to them. This module may print and ask, nothing else.
"""

from __future__ import annotations

import asyncio
import re
import sys
import textwrap
import threading
import time

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Screen"]

READING = 1.2  # seconds
GUTTER = 19  # columns before the text of a line: seconds and label


class Screen:
    """Prints the story. `stream` continues the line that `line` began, so that a model's answer appears as it is written."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, 100)
        self._began = time.monotonic()
        self._column = 0  # where the open line ends; 0: no line is open
        self._pending = ""  # the part of a word that has come so far

    def say(self, text: str, style: str = "") -> None:
        """Print a paragraph that stands outside the time line."""
        self._close()
        for paragraph in text.split("\n"):
            self._print(textwrap.fill(paragraph, self._width, break_long_words=False, break_on_hyphens=False), style)

    def line(self, label: str, text: str, style: str = "cyan") -> None:
        """Print one line of the story with its time."""
        self.open(label, style)
        self.stream(text)
        self._close()

    def open(self, label: str, style: str = "cyan") -> None:
        """Begin a line whose words are still to come."""
        self._close()
        gutter = Text(f"{time.monotonic() - self._began:5.1f}s  ", "dim")
        gutter.append(f"{label:<{GUTTER - 9}} ", style)
        self._console.print(gutter, end="", highlight=False, soft_wrap=True)
        self._column = GUTTER

    def stream(self, text: str) -> None:
        """Add text to the open line, whole words at a time: the rest of a word may come with the next piece."""
        self._pending += text
        while match := re.search(r"\s+", self._pending):
            word, self._pending = self._pending[: match.start()], self._pending[match.end() :]
            self._word(word)

    def _word(self, word: str) -> None:
        if not word:
            return
        if self._column > GUTTER:
            if self._column + 1 + len(word) > self._width:
                self._print("\n" + " " * GUTTER, end="")
                self._column = GUTTER
            else:
                word = f" {word}"
        self._print(word, end="")
        self._column += len(word)

    def table(self, title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        """Print a table; the second and third columns are numbers."""
        self._close()
        self._console.print()
        self._print(title, "bold")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for number, column in enumerate(columns):
            table.add_column(column, no_wrap=number == 0, justify="right" if number in (1, 2) else "left")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)
        self._console.print()

    async def pause(self) -> None:
        """Leave the person at a terminal a moment to read."""
        if self._console.is_terminal:
            await asyncio.sleep(READING)

    async def confirm(self, question: str) -> bool | None:
        """Ask the person at the terminal; None if there is none."""
        if not sys.stdin.isatty():
            return None
        self._close()
        self._console.bell()
        answer = ""
        while answer not in {"y", "yes", "n", "no"}:
            self._print(f"{question} [y/n] ", "bold", end="")
            answer = (await _typed()).strip().lower()
        return answer.startswith("y")

    def _close(self) -> None:
        if self._column:
            self._word(self._pending)
            self._pending = ""
            self._console.print()
            self._column = 0

    def _print(self, text: str, style: str = "", end: str = "\n") -> None:
        self._console.print(Text(text, style), end=end, highlight=False, soft_wrap=True)


async def _typed() -> str:
    """A line from the terminal; the thread that waits for it does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def arrived(text: str) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        text = sys.stdin.readline() or "no"
        loop.call_soon_threadsafe(arrived, text)

    threading.Thread(target=read, daemon=True).start()
    return await line
