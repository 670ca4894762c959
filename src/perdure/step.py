"""Steps: recorded units of non-determinism. A model call, a tool, any I/O."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from perdure.call import StepCall
from perdure.core.definition import StepDefinition
from perdure.core.duration import microseconds
from perdure.core.errors import DefinitionError
from perdure.core.retry import Retry
from perdure.function import Definable, function_kind, refuse_unknown
from perdure.naming import check_names, is_method, name_of
from perdure.registry import definitions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from perdure.core.duration import Duration

__all__ = ["BoundStep", "Step", "step"]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")


class Step(Definable[P, R]):
    """A function whose result is recorded. Calling it gives a `StepCall`, to be awaited."""

    def __init__(self, definition: StepDefinition, key: str | None = None, *, method: bool = False) -> None:
        super().__init__(definition.fn, definition.name)
        self.definition = definition
        self._key = key
        self._method = method

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> StepCall[R]:
        """A call of this step, inert until it is awaited."""
        if self._method and args:
            return StepCall(self.definition, args[1:], kwargs, args[0], self._key)
        return StepCall(self.definition, args, kwargs, None, self._key)

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Step[P, R]: ...
    @overload
    def __get__(self: Step[Concatenate[S, Q], R], instance: S, owner: type[Any]) -> BoundStep[Q, R]: ...
    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        return self if instance is None else BoundStep(self, instance)

    def options(
        self, *, key: str | None = None, retry: int | Retry | None = None, timeout: Duration | None = None
    ) -> Step[P, R]:
        """The same step with other options for the calls made through it.

        `key` names the call in the journal instead of its position (a tool call's id, an invoice number). `retry` and
        `timeout` replace the step's own.
        """
        changes: dict[str, Any] = {}
        if retry is not None:
            changes["retry"] = Retry.of(retry)
        if timeout is not None:
            changes["timeout"] = microseconds(timeout, "step timeout")
        definition = dataclasses.replace(self.definition, **changes) if changes else self.definition
        return Step(definition, key if key is None else str(key), method=self._method)


class BoundStep(Generic[P, R]):
    """A step that is a method, bound to its instance. The instance is never journaled."""

    def __init__(self, step: Step[Any, R], instance: Any) -> None:
        self._step = step
        self._instance = instance
        self.fn = step.fn
        self.name = step.name
        self.definition = step.definition
        self.__name__ = step.__name__
        self.__qualname__ = step.__qualname__
        self.__doc__ = step.__doc__
        self.__wrapped__ = step.fn.__get__(instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> StepCall[R]:
        """A call of this step, inert until it is awaited."""
        return self._step(self._instance, *args, **kwargs)

    def options(
        self, *, key: str | None = None, retry: int | Retry | None = None, timeout: Duration | None = None
    ) -> BoundStep[P, R]:
        """As `Step.options`."""
        return BoundStep(self._step.options(key=key, retry=retry, timeout=timeout), self._instance)


class _StepDecorator:
    """`@step(...)` with options: keeps the decorated function's types."""

    def __init__(self, make: Callable[[Any], Step[Any, Any]]) -> None:
        self._make = make

    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]]) -> Step[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R]) -> Step[P, R]: ...
    def __call__(self, fn: Any) -> Any:
        return self._make(fn)


@overload
def step(fn: Callable[P, Awaitable[R]], /) -> Step[P, R]: ...
@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: int | Retry | None = None,
    timeout: Duration | None = None,
    once: bool = False,
    probe: Callable[..., Any] | None = None,
    identity: Callable[..., Any] | None = None,
    aliases: Sequence[str] = (),
    record_args: bool = True,
) -> _StepDecorator: ...
def step(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    retry: int | Retry | None = None,
    timeout: Duration | None = None,
    once: bool = False,
    probe: Callable[..., Any] | None = None,
    identity: Callable[..., Any] | None = None,
    aliases: Sequence[str] = (),
    record_args: bool = True,
    **unknown: Any,
) -> Any:
    """Make a function a step: inside a run its result is recorded and never computed again.

    `retry` is a number of attempts or a `Retry`; `timeout` is per attempt. `once` starts it at most once: found started and not
    ended, it raises `InDoubt` in the workflow. `probe` (which implies `once`) is called with the same arguments to find
    out what became of such an attempt, and returns `happened(value)`, `NOT_HAPPENED` or `UNKNOWN`. `identity` picks what must be the same on replay.
    `aliases` are former names. `record_args=False` keeps only a digest of the arguments.

    >>> @step(retry=3, timeout="60s")
    ... async def search(query: str) -> list[str]:
    ...     return [query.upper()]
    >>> search.name.endswith("search")
    True

    Raises `DefinitionError` on anything but a function and for an option that there is not, `ConfigurationError` for an option
    whose value means nothing.
    """
    refuse_unknown("step", unknown, step)
    check_names("step", name, aliases)

    def make(target: Any) -> Step[Any, Any]:
        return _define(
            target,
            name=name,
            retry=Retry.of(retry),
            timeout=microseconds(timeout, "step timeout") if timeout is not None else 0,
            once=once,
            probe=probe,
            identity=identity,
            aliases=tuple(aliases),
            record_args=record_args,
        )

    return _StepDecorator(make) if fn is None else make(fn)


def _define(fn: Any, *, name: str | None, probe: Any, identity: Any, **options: Any) -> Step[Any, Any]:
    kind = function_kind("step", fn)
    for option, value in (("probe", probe), ("identity", identity)):
        if value is not None and not callable(value):
            raise DefinitionError(
                f"{option}= of step {fn.__qualname__} must be a function, not {value!r}",
                hint=f"it is called with the step's arguments: {option}=lambda ...: ...",
            )
    definition = StepDefinition(
        name=name or name_of(fn), fn=fn, is_async=kind == "async", probe=probe, identity=identity, **options
    )
    definition.check()
    definitions.add_step(definition)
    return Step(definition, method=is_method(fn))
