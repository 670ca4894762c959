"""Logging: standard records with `perdure_run`, `perdure_step` and `perdure_attempt` on them, silent while a run replays.

Workflow code logs as any code does. Its records carry (with a prefix, so that no `extra=` of its own can clash) the ids of the run and step they come from, and those made while
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
_OURS = frozenset({"run", "step", "attempt"})


class _Attributes(dict[str, Any]):
    """A record's attributes, ours among them. `Logger` refuses an `extra` that is there already: ours give way to it."""

    def __contains__(self, name: object) -> bool:
        return name not in _OURS and super().__contains__(name)


def _marking(original: Any) -> Any:
    """A record factory that adds to what another one makes."""

    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        made: logging.LogRecord = original(*args, **kwargs)
        execution = current()
        if execution is not None:
            made.__dict__ = _Attributes(made.__dict__, run=execution.facts.id)
            if execution.replaying:
                made.levelno = SILENT
        elif (facts := current_attempt.get()) is not None:
            made.__dict__ = _Attributes(made.__dict__, run=facts.run, step=facts.key, attempt=facts.attempt)
        return made

    record.__module__ = __name__
    return record


def install() -> None:
    """Put the factory in place. Doing it again does nothing."""
    factory = logging.getLogRecordFactory()
    if getattr(factory, "__module__", "") != __name__:
        logging.setLogRecordFactory(_marking(factory))
