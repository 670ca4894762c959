"""Why a run is blocked, made from the error that stopped it: what is stored and shown to whoever decides about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.core.errors import PerdureError, Poisoned, Stuck
from perdure.stores.base import Park
from perdure.stores.rows import Blocked

if TYPE_CHECKING:
    from perdure.core.execution import Execution

__all__ = ["blocking", "stuck_error"]


def blocking(error: BaseException, execution: Execution | None, *, build: str, at: int) -> Park:
    """The park that stops a run until a person, or another build of the code, moves it on."""
    where = getattr(error, "where", "")
    if not where and execution is not None and execution.loop.refusal is None:
        where = execution.where()
    return Park(
        status="blocked",
        wake_at=0,
        blocked=Blocked(
            code=error.code if isinstance(error, PerdureError) else "PRD-103",
            reason=_reason(error),
            hint=(error.hint or "") if isinstance(error, PerdureError) else "",
            recorded=getattr(error, "recorded", []),
            asked=getattr(error, "asked", []),
            where=where,
            build="*" if isinstance(error, Poisoned) else build,
            at=at,
        ),
    )


def _reason(error: BaseException) -> str:
    if not isinstance(error, PerdureError):
        return f"{type(error).__name__}: {error}"
    if error.step and error.step not in error.message:
        return f"{error.message} (step {error.step})"
    return error.message


def stuck_error(run: str, execution: Execution) -> Stuck:
    """The error of a run whose code waits for what nothing can bring."""
    return Stuck(
        f"workflow code waits for something that nothing can ever bring, at {execution.where() or 'an unknown place'}",
        run=run,
        hint="wait for a step, a timer, a message, a promise or a child run; a bare Event or Future has nobody to set it",
    )
