"""Child runs: a workflow's call awaited, or started, inside a run."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from perdure.call import WorkflowCall
from perdure.context import inside
from perdure.core.errors import WrongContext
from perdure.core.operation import ChildRequest, Wait

if TYPE_CHECKING:
    from perdure.core.execution import Execution
    from perdure.core.operation import Operation

__all__ = ["ChildHandle", "run_child", "start"]

R = TypeVar("R")


class ChildHandle(Generic[R]):
    """A run that was started inside a run. Awaiting it gives its result."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait

    @property
    def id(self) -> str:
        """The id of the child run."""
        return self._wait.id

    async def result(self) -> R:
        """Its result; raises what the child raised."""
        return await self._wait  # type: ignore[no-any-return]

    def __await__(self) -> Generator[Any, None, R]:
        return self._wait.__await__()


def _ask_for(
    execution: Execution, call: WorkflowCall[Any], *, id: str | None, detached: bool, tags: Iterable[str]
) -> tuple[Operation, Wait]:
    call.use()
    definition = call.definition
    data = definition.arguments.encode(call.args, call.kwargs)
    key = execution.loop.scope().key(definition.name)
    request = ChildRequest(
        id=id or f"{execution.facts.id}{key if key.startswith('/') else '/' + key}",
        workflow=definition.name,
        input=data,
        derived=id is None,
        detached=detached,
        schema=definition.schema,
        deadline=definition.deadline,
        options={"version": definition.version, "tags": list(tags)},
    )
    return execution.child(request, key, (definition.name, id, data.decode()))


async def run_child(call: WorkflowCall[R]) -> R:
    """Start a child run and wait for its result. If the waiting is cancelled, so is the child."""
    execution = inside("a workflow's call")
    call._used = False  # noqa: SLF001 - __await__ has marked it; _ask_for marks it as started
    operation, wait = _ask_for(execution, call, id=None, detached=False, tags=())
    try:
        await operation
        return await wait  # type: ignore[no-any-return]
    except asyncio.CancelledError:
        execution.abandon_child(operation, wait)
        raise


async def start(
    call: WorkflowCall[R], *, id: str | None = None, detached: bool = False, tags: Iterable[str] = ()
) -> ChildHandle[R]:
    """Start a child run from inside a run, without waiting for its result.

    An attached child is cancelled when its parent ends before it; a `detached` one lives on by itself. Raises `DuplicateRun` if
    another run has the `id`, and `WrongContext` for anything but a workflow's call.
    """
    execution = inside("start()")
    if not isinstance(call, WorkflowCall):
        raise WrongContext(
            f"start() was given {call!r}, not a workflow's call",
            run=execution.facts.id,
            hint="await a step's call, or put it into asyncio.create_task()",
        )
    operation, wait = _ask_for(execution, call, id=id, detached=detached, tags=tags)
    await operation
    return ChildHandle(wait)
