"""Telling the person at the terminal that a run asks something, and how to answer it."""

from __future__ import annotations

import logging
import shlex
import sys
from typing import TYPE_CHECKING

from perdure.location import resolve

if TYPE_CHECKING:
    from perdure.stores.rows import PromiseRow

__all__ = ["announce"]

logger = logging.getLogger("perdure.ask")


def announce(url: str, run: str, row: PromiseRow) -> None:
    """Say that an ask is open: on a terminal with the command that answers it, elsewhere in the log."""
    if row.kind != "ask":
        return
    example = "yes" if row.schema == '{"type":"boolean"}' else "VALUE"
    command = f"perdure answer {row.id} {example}"
    if url != resolve(None):
        command += f" --db {shlex.quote(url)}"
    logger.info("run %s asks: %s", run, row.question, extra={"perdure_run": run, "perdure_ask": row.id})
    if sys.stderr.isatty():
        print(f"? {row.question}\n  answer it:  {command}", file=sys.stderr, flush=True)  # noqa: T201 - it is for the terminal
