"""`perdure demo`: a small research agent is killed in the middle of a model call and goes on, in a quarter of a minute.

The model is scripted, everything else is real. The package needs nothing beyond the base install.

`agent` is what an author would write; `conductor` tells the story on its `stage`; `ledger` is what the world outside saw,
and `tally` holds it against the journal. The larger demo of a clone, `examples/research`, plays on the same stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

__all__ = ["run_demo"]


def run_demo(console: Console, *, keep: Path | None = None) -> int:
    """Play the demo on `console` and return the exit code; its files stay in `keep`, or nowhere."""
    from .show import run_demo as show  # late: a worker that only enters its acts in the ledger needs no screen

    return show(console, keep=keep)
