"""Pydantic models, and other classes that bring a pydantic schema: pydantic writes and reads them, the trip is checked.

A model can hold what its JSON does not (private attributes, excluded fields, subclasses, values that a validator changes), so
what was written is read back at once and compared, value by value and type by type. Pydantic is found among the loaded
modules, never imported: who has such a class has imported it.
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

import collections
import sys
from typing import Any

from .naming import name_of
from .node import Definitions, Node, described
from .plain import is_plain, refuse_not_plain, to_bytes
from .refusal import Refusal, step_to

__all__ = ["ModelNode", "difference", "is_model"]


def is_model(kind: Any) -> bool:
    """Whether pydantic knows how to store this class.

    >>> is_model(int)
    False
    """
    return isinstance(kind, type) and hasattr(kind, "__get_pydantic_core_schema__") and "pydantic" in sys.modules


class ModelNode(Node):
    """One pydantic model, pydantic dataclass, or class with a pydantic schema: exactly this class."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        self.label = name_of(kind)
        self.classes = (kind,)
        self.fields: dict[str, Any] = getattr(kind, "__pydantic_fields__", {})
        # A root model or a custom type may have any shape; a model with fields is an object.
        self.shapes = frozenset({"object"}) if self.fields and "root" not in self.fields else self.shapes
        self._adapter: Any = None
        for name, field in self.fields.items():
            if field.exclude is True and field.is_required():
                raise Refusal("is required but excluded from the model's JSON, so it would be lost", "drop `exclude=True`").at(
                    step_to(name)
                )

    def adapter(self) -> Any:
        """Made at first use: a model may name classes that are defined after it."""
        if self._adapter is None:
            try:
                self._adapter = sys.modules["pydantic"].TypeAdapter(self.kind)
            except Exception as problem:  # noqa: BLE001 - whatever foreign code raises
                raise Refusal(f"is annotated {self.label}, which pydantic cannot store: {problem}") from None
        return self._adapter

    def dump(self, value: Any) -> Any:
        if type(value) is not self.kind:
            raise self.refuse_value(value, "annotate its own class, or a union" if isinstance(value, self.kind) else None)
        plain = self._written(value)
        if not is_plain(plain):
            raise refuse_not_plain(plain, None) or Refusal("is not plain JSON")
        try:
            restored = self._read(plain)
        except Refusal as refusal:
            refusal.hint = "its own JSON must be readable by the model: look at excluded fields, aliases and validators"
            raise
        if lost := difference(value, restored):
            raise Refusal(
                f"does not come back from its own JSON as it was: {lost[1]}",
                "look at private or excluded fields and at validators",
            ).at(lost[0])
        return plain

    def load(self, plain: Any) -> Any:
        value = self._read(plain)
        # A field that was renamed or removed would be dropped in silence, since models ignore what they do not know.
        if unknown := _unknown_key(plain, self._written(value)):
            raise Refusal(
                f"holds {unknown!r}, which {self.label} has not", "keep the field until the runs that hold it have ended"
            )
        return value

    def _written(self, value: Any) -> Any:
        try:
            plain = self.adapter().dump_python(value, mode="json", by_alias=True, round_trip=True, warnings=False)
            return _ordered(value, plain)
        except Refusal:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever foreign code raises
            raise Refusal(f"cannot be written by pydantic: {problem}") from None

    def _read(self, plain: Any) -> Any:
        try:
            return self.adapter().validate_json(to_bytes(plain))
        except Refusal:
            raise
        except Exception as problem:  # noqa: BLE001 - whatever foreign code raises
            raise Refusal(f"is no {self.label}: {problem}") from None

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        template = f"#/$defs/{self.label}.{{model}}"
        schema: dict[str, Any] = self.adapter().json_schema(by_alias=True, ref_template=template)
        for name, definition in schema.pop("$defs", {}).items():
            definitions[f"{self.label}.{name}"] = definition
        return schema


def _ordered(value: Any, plain: Any) -> Any:
    """What pydantic wrote, with the items of sets in the order of their bytes instead of their hashes.

    Hashes of text differ between processes, and equal values must give equal bytes in all of them: digests decide whether a
    start is a duplicate and whether a protected step is the recorded one. Where a serialiser of the user's gave another
    shape than the value has, its order is the user's own and is kept.
    """
    if isinstance(plain, list):
        if not isinstance(value, set | frozenset | list | tuple | collections.deque) or len(value) != len(plain):
            root = getattr(value, "root", None) if hasattr(type(value), "__pydantic_fields__") else None
            return plain if root is None else _ordered(root, plain)
        items = [_ordered(item, written) for item, written in zip(value, plain, strict=True)]
        return sorted(items, key=to_bytes) if isinstance(value, set | frozenset) else items
    if isinstance(plain, dict):
        held = _held(value)
        if isinstance(value, dict) and len(value) == len(plain):
            held = dict(zip(plain, value.values(), strict=True))
        return {key: _ordered(held[key], written) if key in held else written for key, written in plain.items()}
    return plain


def _held(value: Any) -> dict[str, Any]:
    """What a record holds, by the keys under which pydantic writes it."""
    kind = type(value)
    fields: dict[str, Any] = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "__dataclass_fields__", {})
    held = dict(getattr(value, "__pydantic_extra__", None) or {})
    for name, field in fields.items():
        if hasattr(value, name):
            held[getattr(field, "serialization_alias", None) or getattr(field, "alias", None) or name] = getattr(value, name)
    if "root" in fields and isinstance(getattr(value, "root", None), dict):
        return {str(key): item for key, item in value.root.items()}
    return held


def _unknown_key(plain: Any, written: Any) -> str | None:
    """A key of stored JSON that its restored value does not write any more."""
    if isinstance(plain, dict) and isinstance(written, dict):
        for key, item in plain.items():
            if key not in written:
                return str(key)
            if found := _unknown_key(item, written[key]):
                return found
    elif isinstance(plain, list) and isinstance(written, list) and len(plain) == len(written):
        for item, other in zip(plain, written, strict=True):
            if found := _unknown_key(item, other):
                return found
    return None


def difference(one: Any, other: Any) -> tuple[str, str] | None:
    """Where two values differ and how, types included; None if they do not.

    >>> difference({"a": [1, True]}, {"a": [1, 1]})
    ('.a[1]', 'a bool (True) became an int (1)')
    """
    if type(one) is not type(other):
        return "", f"{described(one)} became {described(other)}"
    if isinstance(one, dict):
        return _difference_of_dicts(one, other)
    if isinstance(one, list | tuple | collections.deque):
        if len(one) != len(other):
            return "", f"{len(one)} items became {len(other)}"
        for index, (item, restored) in enumerate(zip(one, other, strict=True)):
            if found := difference(item, restored):
                return f"[{index}]{found[0]}", found[1]
        return None
    if isinstance(one, set | frozenset):
        twins = {item: item for item in other}
        lost = [item for item in one if item not in twins or difference(item, twins[item])]
        return ("", f"{described(lost[0])} was lost") if lost or len(one) != len(other) else None
    if hasattr(type(one), "__pydantic_fields__") and hasattr(one, "__dict__"):
        return _difference_of_models(one, other)
    return None if one == other else ("", f"{described(one)} became {described(other)}, not equal to it")


def _difference_of_dicts(one: dict[Any, Any], other: dict[Any, Any]) -> tuple[str, str] | None:
    if list(one) != list(other):
        return "", "its keys changed"
    for (key, item), (other_key, restored) in zip(one.items(), other.items(), strict=True):
        if type(key) is not type(other_key):
            return "", f"{described(key)} as a key became {described(other_key)}"
        if found := difference(item, restored):
            return f"{step_to(key)}{found[0]}", found[1]
    return None


def _difference_of_models(one: Any, other: Any) -> tuple[str, str] | None:
    for name in type(one).__pydantic_fields__:  # not all of `__dict__`: cached properties are derived
        if found := difference(getattr(one, name, None), getattr(other, name, None)):
            return f".{name}{found[0]}", found[1]
    for name in ("__pydantic_extra__", "__pydantic_private__"):
        if found := difference(getattr(one, name, None), getattr(other, name, None)):
            return found
    return None if one == other else ("", f"{described(one)} came back not equal to itself")
