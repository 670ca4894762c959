"""Logging: standard records with `run` and `step` on them, silent while a run replays.

Workflow code logs as any code does. Its records carry the ids of the run and step they come from, and those made while
recorded entries are fed again are dropped, since they were logged when it happened. It is done by the record factory, because
that is the one place that every logger of the process goes through: a record made on replay gets a level below every handler's.
"""

from __future__ import annotations

import logging
from typing import Any

from perdure.core.execution import current
from perdure.runtime.attempt import current_attempt

__all__ = ["install"]

SILENT = -1
_original: Any = None


def _record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record: logging.LogRecord = _original(*args, **kwargs)
    execution = current()
    if execution is not None:
        record.run = execution.facts.id
        if execution.replaying:
            record.levelno = SILENT
    else:
        facts = current_attempt.get()
        if facts is not None:
            record.run, record.step, record.attempt = facts.run, facts.key, facts.attempt
    return record


def install() -> None:
    """Put the factory in place. Doing it again does nothing."""
    global _original  # noqa: PLW0603 - one factory per process, as logging has it
    if logging.getLogRecordFactory() is not _record:
        _original = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_record)
