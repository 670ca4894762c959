"""A message as it came into a run: data until somebody receives it."""

from __future__ import annotations

__all__ = ["Mail"]


class Mail:
    """A message as it came in: its value is still JSON, the receiver says what it should be."""

    __slots__ = ("at", "by", "data", "name", "uid")

    def __init__(self, name: str, data: bytes, by: str, uid: str, at: int) -> None:
        self.name, self.data, self.by, self.uid, self.at = name, data, by, uid, at
