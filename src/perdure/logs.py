"""Logging: standard records with `perdure_run`, `perdure_step` and `perdure_attempt` on them, silent while a run replays.

Code in workflows and steps logs as any code does. Its records carry the ids of the run, step and attempt that they come from;
the prefix keeps them apart from any `extra=` of its own. Those made while recorded entries are fed again are dropped, since
they were logged when it happened. It is done by the record factory, because that is the one place that every logger of the
process goes through: a record made on replay gets a level below every handler's.

Outside of runs the fields are not there, so a format that shows them needs defaults:
`logging.Formatter("%(message)s [%(perdure_run)s]", defaults={"perdure_run": "-"})`.
"""

from __future__ import annotations

import logging
from typing import Any

from perdure.core.execution import current
from perdure.runtime.attempt import current_attempt

__all__ = ["install"]

SILENT = -1


def _marking(original: Any) -> Any:
    """A record factory that adds to what another one makes."""

    def record(name: str, *args: Any, **kwargs: Any) -> logging.LogRecord:
        made: logging.LogRecord = original(name, *args, **kwargs)
        if name.startswith("perdure."):
            return made  # ours say by themselves which run they are about
        execution = current()
        if execution is not None:
            made.perdure_run = execution.facts.id
            if execution.replaying:
                made.levelno = SILENT
        elif (facts := current_attempt.get()) is not None:
            made.perdure_run, made.perdure_step, made.perdure_attempt = facts.run, facts.key, facts.attempt
        return made

    record.__module__ = __name__
    return record


def install() -> None:
    """Put the factory in place. Doing it again does nothing."""
    factory = logging.getLogRecordFactory()
    if getattr(factory, "__module__", "") != __name__:
        logging.setLogRecordFactory(_marking(factory))
