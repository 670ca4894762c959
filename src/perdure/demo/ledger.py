"""The ledger: what the world outside saw, in a file of its own that perdure knows nothing about.

Each model call enters itself here as a provider's bill would, token by token; searching and publishing enter themselves
too. Written by the worker and read by the conductor, it is the witness against which the journal is held at the end: a
call that had been answered and was made once more would stand here twice. This module may not touch a journal.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["FOLDER", "Event", "enter", "file_of", "folder", "follow"]

FOLDER = "PERDURE_DEMO_FOLDER"
"""The environment variable that tells a worker where its demo keeps the files."""


@dataclass(frozen=True)
class Event:
    """One thing that happened outside."""

    what: str  # worker | asked | token | answered | searched | published
    step: str = ""  # the step's name and which one of several: "write 2/3"
    text: str = ""
    prompt_tokens: int = 0  # answered: as the model counts them
    completion_tokens: int = 0
    key: str = ""  # asked, answered: the idempotency key that the call carries
    process: int = 0
    at: float = 0.0

    @property
    def tokens(self) -> int:
        """What the call costs."""
        return self.prompt_tokens + self.completion_tokens


def folder() -> Path:
    """The demo's folder, as a worker was told it."""
    return Path(os.environ[FOLDER])


def file_of(folder: Path) -> Path:
    """The ledger in a demo's folder."""
    return folder / "ledger.jsonl"


def enter(
    what: str, step: str = "", text: str = "", *, prompt_tokens: int = 0, completion_tokens: int = 0, key: str = ""
) -> None:
    """Append one event, in one write, so that a kill leaves whole lines. Outside of a demo it does nothing."""
    if FOLDER in os.environ:
        event = Event(what, step, text, prompt_tokens, completion_tokens, key, os.getpid(), time.time())
        with file_of(folder()).open("ab", buffering=0) as file:
            file.write(json.dumps(asdict(event)).encode() + b"\n")


def follow(path: Path) -> Iterator[Event | None]:
    """Every event so far and those to come, oldest first; None whenever there is nothing new yet."""
    while not path.exists():
        yield None
    with path.open("rb") as file:
        while True:
            place = file.tell()
            line = file.readline()
            if line.endswith(b"\n"):
                yield Event(**json.loads(line))
            else:
                file.seek(place)
                yield None
