"""Workflows: deterministic functions whose runs survive crashes, deploys and long waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from perdure.call import WorkflowCall
from perdure.core.definition import WorkflowDefinition
from perdure.core.duration import microseconds
from perdure.core.errors import DefinitionError
from perdure.function import Definable, function_kind, refuse_unknown
from perdure.naming import check_names, is_class_method, is_method, name_of
from perdure.registry import definitions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from perdure.core.duration import Duration

__all__ = ["Workflow", "workflow"]

P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Definable[P, R]):
    """A function that runs durably. Calling it gives a `WorkflowCall`: start it by `app.start`, or await it inside a run."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        super().__init__(definition.fn, definition.name)
        self.definition = definition

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> WorkflowCall[R]:
        """A call of this workflow, inert until it is started or, inside a run, awaited."""
        return WorkflowCall(self.definition, args, kwargs)


class _WorkflowDecorator:
    """`@workflow(...)` with options: keeps the decorated function's types."""

    def __init__(self, make: Callable[[Any], Workflow[Any, Any]]) -> None:
        self._make = make

    def __call__(self, fn: Callable[P, Awaitable[R]]) -> Workflow[P, R]:
        return self._make(fn)


@overload
def workflow(fn: Callable[P, Awaitable[R]], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: str = "",
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    aliases: Sequence[str] = (),
) -> _WorkflowDecorator: ...
def workflow(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    version: str = "",
    timeout: Duration | None = None,
    deadline: Duration | None = None,
    aliases: Sequence[str] = (),
    **unknown: Any,
) -> Any:
    """Make an `async def` function a workflow.

    `name` is stored with its runs (default: module and qualified name); `aliases` are former names. `timeout` counts the time
    in which a run is not parked, `deadline` the wall time from its start; both end it as failed with `TimeoutError`.

    >>> @workflow(deadline="7d")
    ... async def research(topic: str) -> str:
    ...     return topic
    >>> research.name.endswith("research")
    True

    Raises `DefinitionError` on anything but an `async def` function or static function, and on methods: recovery could not
    rebuild `self`; also for an option that there is not. `ConfigurationError` for an option whose value means nothing.
    """
    refuse_unknown("workflow", unknown, workflow)
    check_names("workflow", name, aliases)

    def make(target: Any) -> Workflow[Any, Any]:
        if function_kind("workflow", target) != "async":
            raise DefinitionError(
                f"@workflow was put on {target.__qualname__}, which is not `async def`",
                hint="write it as `async def`; blocking work belongs in steps, which may be plain `def`",
            )
        if is_method(target) or is_class_method(target):
            raise DefinitionError(
                f"@workflow was put on the method {target.__qualname__}",
                hint="a run is recovered without its object: make it a function, and the object's calls steps",
            )
        definition = WorkflowDefinition(
            name=name or name_of(target),
            fn=target,
            version=version,
            timeout=microseconds(timeout, "workflow timeout") if timeout is not None else 0,
            deadline=microseconds(deadline, "workflow deadline") if deadline is not None else 0,
            aliases=tuple(aliases),
        )
        definition.check()
        definitions.add_workflow(definition)
        return Workflow(definition)

    return _WorkflowDecorator(make) if fn is None else make(fn)
