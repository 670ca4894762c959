"""Values out of a fixed set: enums, flags and literals."""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

import enum
from typing import Any

from .naming import name_of
from .node import Definitions, Node, described, shape_of
from .refusal import Refusal

__all__ = ["EnumNode", "LiteralNode"]


class EnumNode(Node):
    """An enum, by value where all values are text or all numbers, otherwise by the names of its members."""

    def __init__(self, kind: type[enum.Enum]) -> None:
        self.kind = kind
        self.label = name_of(kind)
        self.classes = (kind,)
        members = list(kind)
        kinds = {_raw_type(member.value) for member in members}
        self.flag = issubclass(kind, enum.Flag)
        self.by_value = self.flag or kinds in ({str}, {int})
        number = self.flag or kinds == {int}
        self.shapes = frozenset({"integer" if number else "string"})
        self.key = "number" if number else "text"
        self._written = {member: _raw(member.value) if self.by_value else member.name for member in members}
        self._read = {written: member for member, written in self._written.items()}

    def dump(self, value: Any) -> Any:
        if type(value) is not self.kind:
            raise self.refuse_value(value)
        if self.flag:
            return int(value.value)
        return self._written[value]

    def load(self, plain: Any) -> Any:
        if shape_of(plain) in self.shapes:
            if self.flag:
                return self._flag(plain)
            if plain in self._read:
                return self._read[plain]
        raise Refusal(f"is stored as {described(plain)}, which is no member of {self.label}")

    def _flag(self, plain: int) -> Any:
        try:
            value: Any = self.kind(plain)
        except ValueError:
            value = None
        if not isinstance(value, self.kind):  # a boundary of KEEP or EJECT gives a bare int
            raise Refusal(f"is stored as {plain}, which is no value of {self.label}")
        return value

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        if self.flag:
            return {"type": "integer", "title": self.kind.__name__}
        return {"enum": list(self._read), "title": self.kind.__name__}


def _raw_type(value: Any) -> type:
    return int if isinstance(value, int) and not isinstance(value, bool) else str if isinstance(value, str) else type(value)


def _raw(value: Any) -> Any:
    """The value without a subclass: members of mixed-in enums may carry one."""
    if isinstance(value, str):
        return str.__str__(value)
    return int(value)


class LiteralNode(Node):
    """`Literal[...]`: exactly these values, told apart by type too (`1` is not `True`)."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.label = f"Literal[{', '.join(repr(value) for value in values)}]"
        self.classes = tuple({type(value) for value in values})
        self._written: dict[tuple[type, Any], Any] = {}
        self._read: dict[tuple[type, Any], Any] = {}
        for value in values:
            plain = EnumNode(type(value)).dump(value) if isinstance(value, enum.Enum) else value
            if plain is not None and type(plain) not in (str, int, bool):
                raise Refusal(f"is a literal of {described(value)}, which plain JSON cannot tell", "use text or an enum")
            if self._read.setdefault((type(plain), plain), value) is not value and self._read[type(plain), plain] != value:
                raise Refusal(f"has two literals that are both written {plain!r}")
            self._written[type(value), value] = plain
        self.direct = all(value is plain for (_, value), plain in self._written.items())
        self.shapes = frozenset(shape_of(plain) for plain in self._written.values())
        self.key = {frozenset({"string"}): "text", frozenset({"integer"}): "number"}.get(self.shapes, "")

    def dump(self, value: Any) -> Any:
        try:
            return self._written[type(value), value]
        except (KeyError, TypeError):
            raise self.refuse_value(value) from None

    def load(self, plain: Any) -> Any:
        try:
            return self._read[type(plain), plain]
        except (KeyError, TypeError):
            raise self.refuse_plain(plain) from None

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        return {"enum": [plain for _, plain in self._read]}
