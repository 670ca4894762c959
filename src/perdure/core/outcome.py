"""What an execution leaves behind besides its journal: how the function ended, and where its steps drifted. Data only."""

from __future__ import annotations

__all__ = ["Drift", "Ended"]


class Drift:
    """A step whose arguments differ from the recorded ones; its recorded result stands."""

    __slots__ = ("asked", "key", "recorded")

    def __init__(self, key: str, recorded: bytes, asked: bytes) -> None:
        self.key, self.recorded, self.asked = key, recorded, asked


class Ended:
    """How the function ended: `status` is succeeded, failed or cancelled; `data` is the JSON of its result or error."""

    __slots__ = ("data", "status")

    def __init__(self, status: str, data: bytes) -> None:
        self.status, self.data = status, data
