"""A node: how values of one annotation become JSON values and come back. A schema is a tree of them.

Theory of operation. `dump` turns a value into JSON values (what `json.loads` could return), or refuses it; `load` goes
back. A node is *direct* when its JSON values are the values themselves: it only looks, it does not build. Nodes check exact
types, so a value that `dump` accepts comes back from `load` equal and of the same type. Bytes are made elsewhere.
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .refusal import Refusal

__all__ = ["EVERY_SHAPE", "Deferred", "Definitions", "Node", "described", "shape_of"]

Definitions = dict[str, dict[str, Any]]
"""The `$defs` that a JSON schema under construction has collected, by name."""

_SHAPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
EVERY_SHAPE = frozenset(_SHAPES.values())


def shape_of(plain: Any) -> str:
    """What JSON calls this value.

    >>> shape_of(True), shape_of(1), shape_of([])
    ('boolean', 'integer', 'array')
    """
    return _SHAPES.get(type(plain), "object")


def described(value: Any) -> str:
    """A value as refusals name it: its type, and the text of a short one."""
    kind = type(value)
    if value is None:
        return "None"
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    article = "an" if name[0].lower() in "aeiou" else "a"
    short = kind in (bool, float) or (kind is int and abs(value) < 10**40) or (kind is str and len(value) <= 40)
    if short:
        return f"{article} {name} ({value!r})"
    return f"{article} {name}"


class Node:
    """How values of one annotation travel. Subclasses say what they are in the class body or in `__init__`."""

    label: str = "?"
    """The annotation as people write it; also the tag inside unions."""
    direct: bool = False
    """The JSON value is the value itself."""
    shapes: frozenset[str] = EVERY_SHAPE
    """The shapes of JSON that `dump` can give."""
    classes: tuple[type, ...] = ()
    """The exact classes that `dump` can accept; empty when they cannot be listed."""
    key: str = ""
    """`text` or `number` when the values can be keys of a JSON object, as they are or written out."""

    def dump(self, value: Any) -> Any:
        """The JSON value, or `Refusal`."""
        raise NotImplementedError

    def load(self, plain: Any) -> Any:
        """The value, or `Refusal`."""
        raise NotImplementedError

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        """A JSON Schema of what `dump` gives."""
        raise NotImplementedError

    def refuse_value(self, value: Any, hint: str | None = None) -> Refusal:
        """A value of another type than annotated."""
        return Refusal(f"is {described(value)}, but {self.label} is annotated", hint)

    def refuse_plain(self, plain: Any) -> Refusal:
        """Stored JSON of another shape than this annotation has."""
        return Refusal(f"is stored as {described(plain)}, which is no {self.label}")


class Deferred(Node):
    """Stands for a node that is made at first use: a recursive annotation, or a name that is not defined yet."""

    def __init__(
        self, label: str, make: Callable[[], Node], classes: tuple[type, ...] = (), shapes: frozenset[str] = EVERY_SHAPE
    ) -> None:
        self.label = label
        self.classes = classes
        self.shapes = shapes
        self._make = make
        self._node: Node | None = None
        self._described_as: str | None = None  # while it is described: "" or, once it meets itself, its name in `$defs`

    def node(self) -> Node:
        """The node itself. A failure is not remembered: the name may be defined later."""
        if self._node is None:
            self._node = self._make()
        return self._node

    def dump(self, value: Any) -> Any:
        return self.node().dump(value)

    def load(self, plain: Any) -> Any:
        return self.node().load(plain)

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        # A record breaks its own circle by a `$ref`; a recursive alias has no record in it, so the circle is broken here.
        if self._described_as is not None:
            if not self._described_as:
                self._described_as = _free_name(self.label, definitions)
                definitions[self._described_as] = {}
            return {"$ref": f"#/$defs/{self._described_as}"}
        self._described_as = ""
        try:
            schema = self.node().describe(definitions)
            if not self._described_as:
                return schema
            definitions[self._described_as] = schema
            return {"$ref": f"#/$defs/{self._described_as}"}
        finally:
            self._described_as = None


def _free_name(label: str, definitions: Definitions) -> str:
    """A name for `$defs` that no other definition has, and that needs no escaping in a JSON pointer (RFC 6901)."""
    plain = label.replace("/", ".").replace("~", ".")
    name, number = plain, 1
    while name in definitions:
        number += 1
        name = f"{plain}.{number}"
    return name
