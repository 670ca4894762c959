"""Every error perdure raises, each with a stable code, what happened, where, and what to do.

The codes are public: they are documented, printed by the CLI and never reused for another meaning.
This module may not import anything of perdure's.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AlreadyResolved",
    "ConfigurationError",
    "DefinitionError",
    "Diverged",
    "Drifted",
    "DuplicateRun",
    "InDoubt",
    "InvalidAnswer",
    "NotRestorable",
    "NotStorable",
    "PayloadTooLarge",
    "PerdureError",
    "Poisoned",
    "Refused",
    "RunBlocked",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "Spinning",
    "StepError",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreNewer",
    "StoreUnavailable",
    "Stuck",
    "UnknownRun",
    "UnknownWait",
    "UnknownWorkflow",
    "WrongContext",
]


class PerdureError(Exception):
    """The base of every error that perdure raises.

    `code` is stable, `run` and `step` name the place where they are known, `hint` says what to do or type.
    """

    code: ClassVar[str] = "PRD-100"

    def __init__(self, message: str, *, run: str | None = None, step: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.run = run
        self.step = step
        self.hint = hint

    def __str__(self) -> str:
        place = ", ".join(f"{word} {value}" for word, value in (("run", self.run), ("step", self.step)) if value)
        text = f"[{self.code}] {self.message}"
        if place:
            text += f" ({place})"
        return f"{text}\n  → {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only fields live in __dict__; pickling for process pools must not call __init__ without them.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(kind: type[PerdureError], args: tuple[Any, ...], state: dict[str, Any]) -> PerdureError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


# ── how a run ended ─────────────────────────────────────────────────────────────────────────────────────────────────


class RunFailed(PerdureError):
    """The run ended with an exception; `__cause__` is the original one, rebuilt."""

    code = "PRD-101"


class RunCancelled(PerdureError):
    """The run was cancelled, so it has no result."""

    code = "PRD-102"


class RunBlocked(PerdureError):
    """The run cannot go on without a decision: its code no longer fits its journal, or it did something refused."""

    code = "PRD-103"


class DuplicateRun(PerdureError):
    """A run with this id exists already and the policy does not return it, or its arguments are others."""

    code = "PRD-104"


class UnknownRun(PerdureError):
    """No run has this id."""

    code = "PRD-105"


class RunEnded(PerdureError):
    """The run has ended, so it cannot receive, be paused or be resumed."""

    code = "PRD-106"


class UnknownWorkflow(PerdureError):
    """No workflow of this name is known to this process (when it must be) or to any worker."""

    code = "PRD-107"


# ── waits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class AlreadyResolved(PerdureError):
    """The promise or ask was answered, timed out or cancelled before."""

    code = "PRD-201"


class UnknownWait(PerdureError):
    """No open promise or ask has this id."""

    code = "PRD-202"


class InvalidAnswer(PerdureError):
    """The answer does not fit the schema of its ask; nothing was changed."""

    code = "PRD-203"


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class NotStorable(PerdureError):
    """A value cannot be stored so that it comes back as it is; never retried."""

    code = "PRD-301"


class PayloadTooLarge(NotStorable):
    """A value is larger than the payload cap; never retried."""

    code = "PRD-302"


class NotRestorable(PerdureError):
    """A stored value cannot be rebuilt; its bytes are kept as they are."""

    code = "PRD-303"


# ── replay ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Diverged(PerdureError):
    """The code asks for other things than the journal recorded.

    `recorded` and `asked` show both sides, a line each, `where` the places in the code.
    """

    code = "PRD-401"

    def __init__(self, message: str, *, run: str | None = None, step: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, run=run, step=step, hint=hint)
        self.recorded: list[str] = []
        self.asked: list[str] = []
        self.where = ""


class Refused(PerdureError):
    """Workflow code called something that must happen inside a step: I/O, a thread, an executor."""

    code = "PRD-402"


class Spinning(PerdureError):
    """Workflow code kept its loop busy without ever waiting for anything recorded."""

    code = "PRD-403"


class Stuck(PerdureError):
    """Workflow code waits for something that nothing can ever bring."""

    code = "PRD-404"


class Poisoned(PerdureError):
    """The run ended its worker process several times in a row and was set aside."""

    code = "PRD-405"


class Drifted(Diverged):
    """A test's replay under unchanged code asked for a step with other arguments than the recorded ones."""

    code = "PRD-406"


# ── effects ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class InDoubt(PerdureError):
    """A `once` step was started and its end is not known; perdure will not run it again."""

    code = "PRD-501"


class StepError(PerdureError):
    """Stands in for an exception whose class cannot be found: its type's name, message, data and traceback text.

    It is raised live and on replay alike, so an `except` clause takes the same branch both times.
    """

    code = "PRD-502"

    def __init__(self, message: str, *, type_name: str = "", data: Any = None, traceback_text: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name
        self.data = data
        self.traceback_text = traceback_text

    def __str__(self) -> str:
        name = self.type_name.rpartition(".")[2]
        text = super().__str__()
        return text if not name or name in self.message else text.replace("] ", f"] {name}: ", 1)


# ── stores ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class StoreError(PerdureError):
    """The store could not do what it was asked."""

    code = "PRD-601"


class StoreCorrupt(StoreError):
    """The database file is damaged, or is not a perdure database; it was not touched."""

    code = "PRD-602"


class StoreNewer(StoreError):
    """The database was written by a newer perdure; it was not touched."""

    code = "PRD-603"


class StoreUnavailable(StoreError):
    """The database cannot be reached or opened: a path, a permission, a server."""

    code = "PRD-604"


class StoreFull(StoreError):
    """The disk is full; what was not written is kept in memory and written when there is room."""

    code = "PRD-605"


class StoreBusy(StoreError):
    """Another process holds the database locked for too long."""

    code = "PRD-606"


# ── use ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class WrongContext(PerdureError):
    """A verb was used where it has no meaning: a workflow awaited outside a run, a run verb inside a step."""

    code = "PRD-701"


class DefinitionError(PerdureError):
    """A decorator was given something it cannot make durable, or two definitions claim one name."""

    code = "PRD-702"


class ConfigurationError(PerdureError):
    """An option, URL or environment variable has a value that means nothing."""

    code = "PRD-703"
