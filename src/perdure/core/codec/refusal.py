"""Why a value was refused, and where inside it.

A `Refusal` travels only inside the codec: each container it passes adds its step of the path, and the public functions
turn it into `NotStorable` or `NotRestorable`. This module may know nothing of schemas or of the kinds of values.
"""

from __future__ import annotations

from perdure.core.errors import NotRestorable, NotStorable

__all__ = ["Refusal", "step_to"]


class Refusal(Exception):
    """A value does not fit. `path` is kept innermost step first, since it grows on the way out."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.path: list[str] = []

    def at(self, step: str) -> Refusal:
        """The same refusal, seen from the container that holds the value under `step`."""
        self.path.append(step)
        return self

    def place(self, root: str) -> str:
        """The path as people write it: `result.hits[3].when`."""
        return root + "".join(reversed(self.path))

    def not_storable(self, where: str, root: str) -> NotStorable:
        """The public error of the way in."""
        hint = self.hint or "give it a value of the annotated type, or change the annotation"
        return NotStorable(f"{_prefix(where)}{self.place(root)} {self.reason}", hint=hint)

    def not_restorable(self, where: str, root: str, type_name: str) -> NotRestorable:
        """The public error of the way out; the stored bytes stay where they are."""
        return NotRestorable(
            f"{_prefix(where)}a stored value cannot be restored as {type_name}: {self.place(root)} {self.reason}",
            hint=self.hint
            or "its stored bytes are untouched: put the code back that wrote it, or make the type read both forms",
        )


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""


def step_to(key: object) -> str:
    """One step of a path: `.name` where that reads well, `['any key']` otherwise.

    >>> step_to("when"), step_to("a b"), step_to(3)
    ('.when', "['a b']", '[3]')
    """
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    text = repr(key)
    return f"[{text if len(text) <= 60 else text[:57] + '...'}]"
