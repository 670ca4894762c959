"""Calls: what calling a workflow or a step gives. Inert until it is awaited or started; typed by the function's result."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.core.errors import WrongContext
from perdure.core.execution import current
from perdure.runtime.attempt import current_attempt, run_body, run_inside

if TYPE_CHECKING:
    from types import TracebackType

    from perdure.core.definition import StepDefinition, WorkflowDefinition

__all__ = ["Call", "StepCall", "WorkflowCall"]

R_co = TypeVar("R_co", covariant=True)


class Call(Coroutine[Any, Any, R_co]):
    """An inert, typed call of a workflow or a step.

    It is a `Coroutine`, so everything in asyncio that takes one takes it. Like a coroutine it can be awaited once, and warns
    if it never is.
    """

    __slots__ = ("_iterator", "_used", "args", "definition", "kwargs")

    definition: StepDefinition | WorkflowDefinition

    def __init__(self, definition: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.definition = definition
        self.args = args
        self.kwargs = kwargs
        self._used = False
        self._iterator: Any = None

    def use(self) -> None:
        """Mark it as awaited or started.

        Raises `RuntimeError` the second time, as awaiting a coroutine twice does.
        """
        if self._used:
            raise RuntimeError(f"this call of {self.definition.name} was awaited or started already: make a new one")
        self._used = True

    def _begin(self) -> Any:
        raise NotImplementedError

    def __await__(self) -> Generator[Any, Any, R_co]:
        if self._used:
            self.use()
        self._used = True
        return self._begin()  # type: ignore[no-any-return]

    def send(self, value: Any) -> Any:
        """Run on, as a task does with a coroutine."""
        if self._iterator is None:
            self._iterator = self.__await__()
        return self._iterator.send(value)

    def throw(self, kind: Any, value: BaseException | object = None, traceback: TracebackType | None = None) -> Any:
        """Raise an exception where the call waits."""
        error = kind if isinstance(kind, BaseException) else (value if isinstance(value, BaseException) else kind())
        if self._iterator is None:  # not begun: the exception ends it
            self._used = True
            raise error
        return self._iterator.throw(error)

    def close(self) -> None:
        """End it without a result."""
        self._used = True
        if self._iterator is not None:
            self._iterator.close()

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"<call of {self.definition.name}({', '.join(given)})>"

    def __del__(self) -> None:
        if not getattr(self, "_used", True):
            warnings.warn(f"the call of {self.definition.name} was never awaited or started", RuntimeWarning, stacklevel=2)


class StepCall(Call[R_co]):
    """A call of a step. Awaited inside a run it is recorded; awaited elsewhere it just runs the function."""

    __slots__ = ("bound", "key")

    definition: StepDefinition

    def __init__(
        self,
        definition: StepDefinition,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        bound: Any = None,
        key: str | None = None,
    ) -> None:
        super().__init__(definition, args, kwargs)
        self.bound = bound  # the instance, for a step that is a method: never journaled
        self.key = key

    def _begin(self) -> Any:
        execution = current()
        if execution is not None:
            return execution.step(self)
        args = self.args if self.bound is None else (self.bound, *self.args)
        if current_attempt.get() is None:
            return run_body(self.definition, args, self.kwargs).__await__()
        if self.definition.once:
            raise WrongContext(
                f"step {self.definition.name} has effects of its own to protect and was called inside another step",
                hint="call it from the workflow, so that it is recorded by itself",
            )
        return run_inside(self.definition, args, self.kwargs).__await__()


class WorkflowCall(Call[R_co]):
    """A call of a workflow. Awaited inside a run it is a child run; outside it is started by `app.start` or `app.run`."""

    __slots__ = ()

    definition: WorkflowDefinition

    def _begin(self) -> Any:
        from perdure.child import run_child  # children are started with calls: the modules need each other

        if current() is not None:
            return run_child(self).__await__()
        if current_attempt.get() is not None:
            raise WrongContext(
                f"workflow {self.definition.name} was awaited inside a step",
                hint="await it in the workflow: there it becomes a child run",
            )
        raise WrongContext(
            f"workflow {self.definition.name} was awaited outside of a run",
            hint=f"start it: run = await app.start({self.definition.name.rsplit('.', 1)[-1]}(...)), then await run.result()",
        )
