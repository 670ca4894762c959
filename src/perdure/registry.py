"""Which workflows a process knows, by name. Definitions register themselves; an app may narrow them down."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from perdure.core.errors import DefinitionError, UnknownWorkflow
from perdure.runtime.worker import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perdure.core.definition import StepDefinition, WorkflowDefinition

__all__ = ["Definitions", "definitions", "unknown_workflow"]


class Definitions(Registry):
    """Workflows and steps by name."""

    def __init__(self) -> None:
        self._workflows: dict[str, WorkflowDefinition] = {}
        self._steps: dict[str, StepDefinition] = {}

    def add_workflow(self, definition: WorkflowDefinition) -> None:
        """Make a workflow known. The same function defined again (a notebook cell, a reload) replaces it.

        Raises `DefinitionError` if another function has the name.
        """
        _check(self._workflows.get(definition.name), definition, "workflow")
        for name in (definition.name, *definition.aliases):
            self._workflows[name] = definition

    def add_step(self, definition: StepDefinition) -> None:
        """Make a step known, by the same rules."""
        _check(self._steps.get(definition.name), definition, "step")
        self._steps[definition.name] = definition

    def names(self) -> list[str]:
        """All names, former ones included."""
        return list(self._workflows)

    def versions(self) -> dict[str, str]:
        """The declared versions, by name, of those that have one."""
        return {name: definition.version for name, definition in self._workflows.items() if definition.version}

    def workflow(self, name: str) -> WorkflowDefinition | None:
        """The workflow of a name."""
        return self._workflows.get(name)

    def all(self) -> list[Any]:
        """Every definition."""
        return [*self._workflows.values(), *self._steps.values()]

    def only(self, workflows: Iterable[Any]) -> Definitions:
        """A registry of just these workflows."""
        chosen = Definitions()
        for workflow in workflows:
            definition = getattr(workflow, "definition", None)
            if definition is None or not hasattr(definition, "arguments"):
                raise DefinitionError(f"{workflow!r} is not a workflow", hint="App(workflows=[...]) takes @workflow functions")
            chosen.add_workflow(definition)
        chosen._steps = self._steps
        return chosen


def _check(known: Any, definition: Any, what: str) -> None:
    if known is None or known.name != definition.name:
        return
    old, new = known.fn, definition.fn
    if (old.__module__, old.__qualname__) != (new.__module__, new.__qualname__):
        raise DefinitionError(
            f"two {what}s claim the name {definition.name!r}: {old.__module__}.{old.__qualname__} and {new.__module__}.{new.__qualname__}",
            hint=f"give one of them another: @{what}(name=...)",
        )


def unknown_workflow(name: str, known: Iterable[str]) -> UnknownWorkflow:
    """The error for a name that nobody knows, with the nearest ones."""
    known = sorted(known)
    near = get_close_matches(name, known, n=3, cutoff=0.4) or known[:5]
    listed = ", ".join(near)
    return UnknownWorkflow(
        f"no workflow is named {name!r}", hint=f"known here: {listed}" if listed else "import the module that defines it first"
    )


definitions = Definitions()
"""All workflows and steps defined in this process."""
