"""Something that reached a run and waits to become its next entry: a step's end, or a message from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.core.entry import Entry
    from perdure.core.payload import Blob

__all__ = ["Arrival"]


class Arrival:
    """An entry without its number and time, its value as JSON for feeding, and what goes with it."""

    __slots__ = ("at", "blobs", "consumed", "data", "entry", "first")

    def __init__(
        self,
        at: int,
        entry: Entry,
        data: bytes | None,
        blobs: list[Blob] | None = None,
        *,
        consumed: int = 0,
        first: bool = False,
    ) -> None:
        self.at = at  # µs: when it happened
        self.entry = entry
        self.data = data
        self.blobs = blobs or []
        self.consumed = consumed  # the inbox row that it takes, 0 for none
        self.first = first  # the store has decided that it was in time, with all that came before it
