"""What the decorators record about a workflow or a step: names and rules, no behaviour.

The core reads these to key, compare and restore; the runtime reads them to run bodies. Neither decorates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .codec import ArgumentsSchema, Schema, Unresolved, arguments_of, hints_of, schema_of
from .retry import NEVER, Retry

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StepDefinition", "WorkflowDefinition"]


@dataclass(eq=False)
class StepDefinition:
    """A step: a recorded unit of non-determinism."""

    name: str
    fn: Callable[..., Any]
    is_async: bool
    retry: Retry = NEVER
    timeout: int = 0  # µs per attempt, 0 for none
    once: bool = False
    probe: Callable[..., Any] | None = None
    identity: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    record_args: bool = True
    protected: bool = field(init=False)

    def __post_init__(self) -> None:
        # What became of an attempt can only be asked if it is known to have begun, and only `once` steps record that.
        self.once = self.once or self.probe is not None
        # Computed once: the hot path asks for every step.
        self.protected = self.once or self.identity is not None

    def check(self) -> None:
        """Refuse what can be seen at definition time: a return annotation that cannot be stored."""
        if not isinstance(hints_of(self.fn).get("return"), Unresolved):
            _ = self.schema

    @cached_property
    def schema(self) -> Schema[Any]:
        """How its return value is stored. Resolved at first use: annotations may name what is defined later."""
        return schema_of(hints_of(self.fn).get("return", Any), where=f"return value of step {self.name}")


@dataclass(eq=False)
class WorkflowDefinition:
    """A workflow: a deterministic function."""

    name: str
    fn: Callable[..., Any]
    version: str = ""
    timeout: int = 0  # µs not parked, 0 for none
    deadline: int = 0  # µs of wall time from the start, 0 for none
    aliases: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what can be seen at definition time: annotations of values that cannot be stored."""
        if not any(isinstance(hint, Unresolved) for hint in hints_of(self.fn).values()):
            _ = self.schema
            self.arguments.check()

    @cached_property
    def schema(self) -> Schema[Any]:
        """How its result is stored."""
        return schema_of(hints_of(self.fn).get("return", Any), where=f"result of workflow {self.name}")

    @cached_property
    def arguments(self) -> ArgumentsSchema:
        """How its arguments are stored and restored."""
        return arguments_of(self.fn)
