"""Asking a step's `probe=` what became of an attempt that began and whose end nobody recorded.

A probe runs as an attempt does: with the step's context, timeout and `current_step()`, since the idempotency key is what it
will look for outside; a `def` probe runs in a thread. This module finds out; what follows from it is decided by `Steps`.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import inspect
from typing import TYPE_CHECKING, Any

from .attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.core.operation import Operation

    from .attempt import StepFacts
    from .worker import Worker

__all__ = ["Finding", "probing"]


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What a probe found: `outcome` is happened (with `value`), not_happened or unknown."""

    outcome: str = "unknown"
    value: Any = None
    ended: bool = False  # the old attempt had provably ended before the probe was asked
    problem: BaseException | None = None  # the probe itself failed


def probing(
    worker: Worker, facts: StepFacts, operation: Operation, ended: Callable[[Attempt, Any, BaseException | None], None]
) -> Attempt:
    """An attempt, not started yet, whose body asks the step's probe; its value is a `Finding`."""
    call = operation.request
    args = call.args if call.bound is None else (call.bound, *call.args)
    begun, probe = operation.begun, call.definition.probe

    async def ask(*args: Any, **kwargs: Any) -> Finding:
        # Looked at first: what is still alive when the probe answers "not happened" may make it happen a moment later.
        over = begun is not None and await worker.proven_dead(begun[0])
        answer = await _answer(worker, functools.partial(probe, *args, **kwargs), probe)
        return Finding(getattr(answer, "outcome", "unknown"), getattr(answer, "value", None), over)

    facts.definition = dataclasses.replace(call.definition, fn=ask, is_async=True)
    return Attempt(facts, operation, args, call.kwargs, clock=worker.clock, pool=worker.pool, ended=ended)


async def _answer(worker: Worker, call: Callable[[], Any], probe: Any) -> Any:
    if inspect.iscoroutinefunction(probe):
        return await call()
    context = contextvars.copy_context()
    answer = await asyncio.get_running_loop().run_in_executor(worker.pool, context.run, call)
    return await answer if inspect.isawaitable(answer) else answer
