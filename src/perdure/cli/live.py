"""The live lines of a hosted worker: runs that ended or are blocked, and asks that were opened.

It looks when something changed, a few times a second at most. What it prints decides nothing: everything is in the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from rich.text import Text

from perdure.app import App
from perdure.core.duration import show
from perdure.core.status import Status
from perdure.listing import OpenPromise
from perdure.runtime.observers import Observers
from perdure.stores.rows import RunRow

from .details import error_text
from .reply import expected
from .screen import Screen, clock, compact, status_text
from .session import command_line

__all__ = ["Live"]

PAUSE = 0.25
AT_ONCE = 12
"""So many runs that end within one look are named; more are counted."""


class _Ends(Observers):
    """The observers of a process, who also keep the ends of its own runs to be told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[RunRow] = []

    def ended(self, rows: Iterable[RunRow]) -> None:
        rows = list(rows)
        self.told.extend(rows)
        super().ended(rows)


class Live:
    """Prints what happens, until it is cancelled."""

    def __init__(self, screen: Screen, app: App) -> None:
        self._screen = screen
        self._app = app
        self._ends = _Ends()
        app.gate.process.observers = self._ends
        if app.worker is not None:
            app.worker.on_opened.clear()  # an App tells the terminal of its asks: here it is done by `look`, for all of the store
        self._last_ask: str | None = None

    async def watch(self) -> None:
        """Tell what changes."""
        gate = self._app.gate
        while True:
            change = asyncio.ensure_future(gate.changed())
            await asyncio.sleep(0)  # it waits now, so nothing that comes while we look is missed
            try:
                await self.look()
                await change
            finally:
                change.cancel()
            await asyncio.sleep(PAUSE)

    async def look(self) -> None:
        """Print what is new."""
        await self._tell_ends()
        await self._tell_asks()

    async def _tell_ends(self) -> None:
        ended, self._ends.told = self._ends.told, []
        for row in ended[:AT_ONCE]:
            await self._tell_end(row)
        if rest := ended[AT_ONCE:]:
            counts = ", ".join(f"{count} {status}" for status, count in Counter(row.status for row in rest).items())
            self._line("and", f"{len(rest)} more: {counts}")

    async def _tell_end(self, row: RunRow) -> None:
        text = f"{row.id}  {row.workflow}"
        if row.status == Status.BLOCKED and row.blocked is not None:
            self._line(row.status, f"{text}  {row.blocked.code} {row.blocked.reason}")
            self._hint(command_line(self._app.url, "runs", "why", row.id))
            return
        if row.started_at and row.ended_at:
            text += f"  after {show(row.ended_at - row.started_at)}"
        if row.status == Status.FAILED:
            error = msgspec.json.decode(await self._app.gate.fetch(row.result))
            text += f"  {error_text(error)}"
        self._line(row.status, text)

    async def _tell_asks(self) -> None:
        while True:
            page = await self._app.inbox(after=self._last_ask, limit=100)
            for ask in page.items:
                self._last_ask = ask.id
                self._tell_ask(ask)
            if page.next is None:
                return

    def _tell_ask(self, ask: OpenPromise) -> None:
        addressed = f" (to {ask.to})" if ask.to else ""
        self._line("ask", f"{ask.run}  {compact(ask.question or ask.name)}{addressed}")
        self._hint(command_line(self._app.url, "answer", ask.id, then=expected(ask.schema).example))

    def _line(self, word: str, text: str) -> None:
        label = Text(word.ljust(9), status_text(word).style if word in set(Status) else "bold magenta")
        self._screen.say(Text.assemble((clock(datetime.now(UTC)), "dim"), "  ", label, "  ", text))

    def _hint(self, text: str) -> None:
        self._screen.say(f"{' ' * 21}{text}", style="dim")
