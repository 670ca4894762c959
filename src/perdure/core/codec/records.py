"""Classes with named fields: dataclasses, attrs classes, msgspec structs, named tuples and typed dicts.

A record is stored as an object of its fields and restored field by field, without its constructor, so that what comes back
is the state that was stored: `__post_init__`, converters and validators do not run again. Anything on an instance that is
no field would be lost, and is refused. `fields.py` finds out what the fields are; this module only moves values.
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from .node import Definitions, Node, described
from .plain import ANY
from .refusal import Refusal, step_to

__all__ = ["MISSING", "Field", "RecordNode", "TypedDictNode"]

MISSING: Any = object()
"""The default of a field that has none."""


class Field(msgspec.Struct, frozen=True):
    """One field: its attribute, its name in JSON, its node, and what stands in for it in data older than the field."""

    name: str
    key: str
    node: Node
    default: Callable[[], Any] | None = None
    """Makes the default; None when the field is required."""
    shown: Any = MISSING
    """The default as plain JSON for schemas, where it is one."""


class RecordNode(Node):
    """One class of records, exactly: a subclass could carry more, and would come back as this class."""

    shapes = frozenset({"object"})

    def __init__(self, kind: type, label: str, fields: list[Field], make: Callable[[type, dict[str, Any]], Any]) -> None:
        self.kind = kind
        self.label = label
        self.classes = (kind,)
        self.fields = fields
        self._make = make
        self._names = {field.name for field in fields}
        self._keys = {field.key for field in fields}
        self._dumps = [(field.name, field.key, field.node.dump) for field in fields]
        self._loads = [(field.name, field.key, field.node.load) for field in fields]
        self._slots = _foreign_slots(kind, self._names)
        self._has_dict = hasattr(kind, "__dictoffset__") and kind.__dictoffset__ != 0

    def dump(self, value: Any) -> dict[str, Any]:
        if type(value) is not self.kind:
            raise self._refuse_class(value)
        written: dict[str, Any] = {}
        name = ""
        try:
            for name, key, dump in self._dumps:
                written[key] = dump(getattr(value, name, MISSING))
        except Refusal as refusal:
            missing = getattr(value, name, MISSING) is MISSING
            raise (Refusal("is a field without a value") if missing else refusal).at(step_to(name)) from None
        if self._has_dict or self._slots:
            self._refuse_extra(value)
        return written

    def load(self, plain: Any) -> Any:
        if type(plain) is not dict:
            raise self.refuse_plain(plain)
        state: dict[str, Any] = {}
        key = ""
        try:
            for name, key, load in self._loads:
                if key in plain:
                    state[name] = load(plain[key])
        except Refusal as refusal:
            raise refusal.at(step_to(key)) from None
        if len(state) != len(self.fields) or len(plain) != len(state):
            self._reconcile(plain, state)
        try:
            return self._make(self.kind, state)
        except Refusal:
            raise
        except Exception as problem:
            raise Refusal(f"cannot be rebuilt as {self.label}: {type(problem).__name__}: {problem}") from problem

    def _reconcile(self, plain: dict[str, Any], state: dict[str, Any]) -> None:
        """Data of an older or newer form of the class: fields that it lacks get their defaults.

        Fields left over are refused, since a renamed field would otherwise come back as the default of its new name.
        """
        for key in plain:
            if key not in self._keys:
                raise Refusal(
                    f"holds a field {key!r} that {self.label} has not", "keep the field until the runs that hold it have ended"
                )
        for field in self.fields:
            if field.name not in state:
                if field.default is None:
                    raise Refusal(f"lacks the field {field.key!r} of {self.label}", "give the new field a default")
                state[field.name] = field.default()

    def _refuse_class(self, value: Any) -> Refusal:
        if isinstance(value, self.kind):
            return self.refuse_value(value, "annotate its own class, or a union of the classes that can come")
        return self.refuse_value(value)

    def _refuse_extra(self, value: Any) -> None:
        own: dict[str, Any] = getattr(value, "__dict__", {})
        extra = [
            name
            for name in own
            if name not in self._names and not isinstance(_static(self.kind, name), functools.cached_property)
        ]
        extra += [name for name in self._slots if hasattr(value, name)]
        if extra:
            raise Refusal(
                f"carries {extra[0]!r}, which is no field of {self.label} and would be lost",
                f"declare {extra[0]!r} as a field (field(init=False) will do), or keep it out of the value",
            )

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        name = self.label
        if name not in definitions:
            schema = definitions[name] = {"type": "object", "title": self.kind.__name__}
            schema["properties"] = {field.key: _described_field(field, definitions) for field in self.fields}
            schema["required"] = [field.key for field in self.fields if field.default is None]
            schema["additionalProperties"] = False
        return {"$ref": f"#/$defs/{name}"}


def _described_field(field: Field, definitions: Definitions) -> dict[str, Any]:
    schema = field.node.describe(definitions)
    return schema if field.shown is MISSING else schema | {"default": field.shown}


def _static(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def _foreign_slots(kind: type, names: set[str]) -> list[str]:
    """Slots of the class and its bases that are no fields. attrs keeps a cached hash in one: that is derived, not state."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in names and name not in ("__dict__", "__weakref__", "_attrs_cached_hash"):
                found.append(name)  # noqa: PERF401 - the path of a refusal
    return found


class TypedDictNode(Node):
    """A typed dict. It is open, as for type checkers: further keys may hold plain JSON, and are kept."""

    shapes = frozenset({"object"})
    classes = (dict,)

    def __init__(self, label: str, fields: list[Field], required: frozenset[str]) -> None:
        self.label = label
        self.fields = {field.name: field.node for field in fields}
        self.required = required
        self.direct = all(node.direct for node in self.fields.values())

    def dump(self, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise self.refuse_value(value)
        return self._each("dump", value)

    def load(self, plain: Any) -> dict[str, Any]:
        if type(plain) is not dict:
            raise self.refuse_plain(plain)
        return self._each("load", plain)

    def _each(self, way: str, values: dict[Any, Any]) -> dict[str, Any]:
        for name in self.required:
            if name not in values:
                raise Refusal(f"lacks the key {name!r} of {self.label}")
        done: dict[str, Any] = {}
        key: Any = ""
        try:
            for key, value in values.items():
                if type(key) is not str:
                    raise Refusal(f"is {described(key)} as a key of {self.label}")
                done[key] = getattr(self.fields.get(key, ANY), way)(value)
        except Refusal as refusal:
            raise refusal.at(step_to(key)) from None
        return done

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        if self.label not in definitions:
            schema = definitions[self.label] = {"type": "object"}
            schema["properties"] = {name: node.describe(definitions) for name, node in self.fields.items()}
            schema["required"] = sorted(self.required)
        return {"$ref": f"#/$defs/{self.label}"}
