"""Lists, sets, tuples and dicts of annotated items.

A container is direct when its items are: then it is looked through and handed on as it is, nothing is copied.
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

import collections
from typing import Any

from .node import Definitions, Node
from .plain import to_bytes
from .refusal import Refusal, step_to

__all__ = ["DictNode", "SequenceNode", "TupleNode"]


class SequenceNode(Node):
    """`list[X]`, `set[X]`, `frozenset[X]`, `deque[X]` or `tuple[X, ...]`: an array of one kind of item."""

    shapes = frozenset({"array"})

    def __init__(self, kind: Any, item: Node) -> None:
        self.kind = kind
        self.item = item
        self.label = f"tuple[{item.label}, ...]" if kind is tuple else f"{kind.__name__}[{item.label}]"
        self.classes = (kind,)
        self.direct = kind is list and item.direct
        # Sets have no order of their own; without one, equal sets would have different bytes in different processes.
        self.unordered = kind in (set, frozenset)

    def dump(self, value: Any) -> Any:
        if type(value) is not self.kind:
            raise self.refuse_value(value)
        if isinstance(value, collections.deque) and value.maxlen is not None:
            raise Refusal("is a deque with a maxlen, which would be lost")
        dump, index = self.item.dump, 0
        items: list[Any] = []
        try:
            if self.direct:
                for index, item in enumerate(value):  # noqa: B007 - the path of a refusal
                    dump(item)
                return value
            for index, item in enumerate(value):  # noqa: B007 - the path of a refusal
                items.append(dump(item))
        except Refusal as refusal:
            raise refusal.at("{...}" if self.unordered else f"[{index}]") from None
        return sorted(items, key=to_bytes) if self.unordered else items

    def load(self, plain: Any) -> Any:
        if type(plain) is not list:
            raise self.refuse_plain(plain)
        load, index, items = self.item.load, 0, []
        try:
            for index, item in enumerate(plain):  # noqa: B007 - the path of a refusal
                items.append(load(item))
            return items if self.kind is list else self.kind(items)
        except Refusal as refusal:
            raise refusal.at(f"[{index}]") from None
        except TypeError:
            raise Refusal(f"holds an item that is not hashable, so it is no {self.label}") from None

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array", "items": self.item.describe(definitions)}
        return schema | {"uniqueItems": True} if self.unordered else schema


class TupleNode(Node):
    """`tuple[A, B, C]`: an array of exactly these items."""

    shapes = frozenset({"array"})
    classes = (tuple,)

    def __init__(self, items: tuple[Node, ...]) -> None:
        self.items = items
        self.label = f"tuple[{', '.join(item.label for item in items) or '()'}]"

    def dump(self, value: Any) -> list[Any]:
        if type(value) is not tuple:
            raise self.refuse_value(value)
        return self._each("dump", value)

    def load(self, plain: Any) -> tuple[Any, ...]:
        if type(plain) is not list:
            raise self.refuse_plain(plain)
        return tuple(self._each("load", plain))

    def _each(self, way: str, values: Any) -> list[Any]:
        if len(values) != len(self.items):
            raise Refusal(f"has {len(values)} items, but {self.label} is annotated")
        done: list[Any] = []
        try:
            for node, value in zip(self.items, values, strict=True):
                done.append(getattr(node, way)(value))
        except Refusal as refusal:
            raise refusal.at(f"[{len(done)}]") from None
        return done

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        return {
            "type": "array",
            "prefixItems": [item.describe(definitions) for item in self.items],
            "minItems": len(self.items),
            "maxItems": len(self.items),
        }


class DictNode(Node):
    """`dict[K, V]`: an object. Keys that are no text are written as text, where that can be undone."""

    shapes = frozenset({"object"})

    def __init__(self, kind: Any, key: Node, value: Node) -> None:
        if not key.key:
            raise Refusal(
                f"has {key.label} as keys, which cannot be written as text", "use str, int, UUID, enums or dates as keys"
            )
        self.kind = kind
        self.key_node = key
        self.value_node = value
        self.label = f"{kind.__name__}[{key.label}, {value.label}]"
        self.classes = (kind,)
        self.numbers = key.key == "number"
        self.direct = kind is dict and key.direct and not self.numbers and value.direct

    def dump(self, value: Any) -> Any:
        if type(value) is not self.kind:
            raise self.refuse_value(value)
        dump_key, dump, written = self.key_node.dump, self.value_node.dump, {}
        key: Any = None
        try:
            if self.direct:
                for key, item in value.items():
                    dump_key(key)
                    dump(item)
                return value
            for key, item in value.items():
                text = dump_key(key)
                written[str(text) if self.numbers else text] = dump(item)
        except Refusal as refusal:
            raise refusal.at(step_to(key)) from None
        return written

    def load(self, plain: Any) -> Any:
        if type(plain) is not dict:
            raise self.refuse_plain(plain)
        load_key, load, read = self.key_node.load, self.value_node.load, self.kind()
        text = ""
        try:
            for text, item in plain.items():
                read[load_key(int(text) if self.numbers else text)] = load(item)
        except Refusal as refusal:
            raise refusal.at(step_to(text)) from None
        except ValueError:
            raise Refusal(f"has {text!r} as a key, which is no {self.key_node.label}") from None
        return read

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.value_node.describe(definitions)}
        names = {"pattern": "^-?[0-9]+$"} if self.numbers else self.key_node.describe(definitions)
        return schema if names == {"type": "string"} else schema | {"propertyNames": names}
