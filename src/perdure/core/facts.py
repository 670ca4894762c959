"""What code inside a run may know of the run it is part of. Data only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RunFacts"]


class RunFacts:
    """What code inside a run may know of it: handed in by whoever drives it."""

    __slots__ = ("identity", "id", "input", "link", "number", "tags", "workflow")

    def __init__(
        self, *, id: str, number: int, workflow: str, input: bytes, identity: bytes,
        tags: tuple[str, ...] = (), link: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        self.id = id
        self.number = number
        self.workflow = workflow
        self.input = input  # JSON of the arguments
        self.identity = identity  # unique per run number and database: seeds ids and idempotency keys
        self.tags = tags
        self.link = link  # the address at which a promise can be answered
