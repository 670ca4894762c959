"""What a demo left behind, read back by its tests: the ledger of the world outside and the journal of the run."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure import App
from perdure.demo.ledger import Event, file_of, follow
from perdure.demo.stage import recorded_steps

__all__ = ["CLONE", "Evidence", "read", "run"]

TIMEOUT = 110  # seconds for a demo, on a machine that is busy with other tests
CLONE = Path(__file__).parents[2]


def run(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, *, stdin: int = subprocess.DEVNULL, code: int = 0
) -> str:
    """Run a demo without a terminal, in 80 columns, and return what it printed; it must end with `code`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    process = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=CLONE,
        env=clean | {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"} | dict(environment or {}),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=False,
    )
    assert process.returncode == code, process.stdout
    return process.stdout


@dataclass(frozen=True)
class Evidence:
    """Both accounts of one run."""

    events: list[Event]
    recorded: Counter[str]  # outcomes in the journal by step name
    status: str

    def times(self, what: str, step: str) -> int:
        """How often the world saw it."""
        return sum(event.what == what and event.step == step for event in self.events)

    def calls(self, what: str) -> Counter[str]:
        """The model calls that were `asked` or `answered`, by step."""
        return Counter(event.step for event in self.events if event.what == what)


def read(folder: Path, run_id: str) -> Evidence:
    """Read what the demo in `folder` left."""
    events = [event for event in itertools.takewhile(bool, follow(file_of(folder))) if event]
    recorded, status = asyncio.run(_journal(f"sqlite:///{(folder / 'agents.db').as_posix()}", run_id))
    return Evidence(events, recorded, status)


async def _journal(url: str, run_id: str) -> tuple[Counter[str], str]:
    async with App(url, worker=False) as app:
        handle = app.handle(run_id)
        recorded = Counter(await recorded_steps(handle))
        return recorded, str(await handle.status())
