"""What the fields of a class are: for each kind of record its names, annotations, defaults, and how an instance is remade.

attrs is not imported here: a class that has its mark brings the loaded module with it.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from .hints import class_hints, type_bindings
from .naming import name_of
from .node import Node
from .plain import is_plain
from .records import MISSING, Field, RecordNode, TypedDictNode
from .refusal import Refusal, step_to

__all__ = ["is_record", "record_node"]

Compile = Callable[[Any], Node]


def is_record(kind: type) -> bool:
    """Whether the class is of a kind whose fields perdure knows."""
    return (
        dataclasses.is_dataclass(kind)
        or "__attrs_attrs__" in kind.__dict__
        or issubclass(kind, msgspec.Struct)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
        or typing.is_typeddict(kind)
        or _is_extension_typed_dict(kind)
    )


def _is_extension_typed_dict(kind: type) -> bool:
    return issubclass(kind, dict) and hasattr(kind, "__required_keys__") and hasattr(kind, "__total__")


def record_node(kind: Any, arguments: tuple[Any, ...], compile_annotation: Compile) -> Node:
    """The node of a record class; `arguments` are its type arguments, as in `Box[int]`."""
    label = name_of(kind)
    if arguments:
        label += f"[{', '.join(compile_annotation(argument).label for argument in arguments)}]"
    hints = class_hints(kind, type_bindings(kind, arguments))

    def node_of(name: str, annotation: Any = Any) -> Node:
        try:
            return compile_annotation(hints.get(name, annotation))
        except Refusal as refusal:
            raise refusal.at(step_to(name)) from None

    if typing.is_typeddict(kind) or _is_extension_typed_dict(kind):
        return TypedDictNode(label, [Field(name, name, node_of(name)) for name in hints], _required(kind, hints))
    if issubclass(kind, tuple):
        defaults: dict[str, Any] = getattr(kind, "_field_defaults", {})
        _refuse_hidden_state(kind, tuple)
        fields = [Field(name, name, node_of(name), *_constant(defaults.get(name, MISSING))) for name in kind._fields]
        return RecordNode(kind, label, fields, _make_named_tuple)
    if issubclass(kind, msgspec.Struct):
        fields = [Field(info.name, info.encode_name, node_of(info.name), *_default(info)) for info in _struct_fields(kind)]
        return RecordNode(kind, label, fields, _make_struct)
    _refuse_hidden_state(kind, object)
    if "__attrs_attrs__" in kind.__dict__:
        fields = [
            Field(info.name, info.name, node_of(info.name, info.type or Any), *_attrs_default(info))
            for info in kind.__attrs_attrs__
        ]
    else:
        fields = [Field(info.name, info.name, node_of(info.name), *_default(info)) for info in dataclasses.fields(kind)]
    return RecordNode(kind, label, fields, _make_object)


def _required(kind: Any, hints: dict[str, Any]) -> frozenset[str]:
    """The keys that must be there. What the class says of itself is wrong where its annotations were text."""
    marks = {name: typing.get_origin(annotation) for name, annotation in hints.items()}
    marked = {name for name, mark in marks.items() if mark is typing.Required}
    return frozenset(marked | {name for name in kind.__required_keys__ if marks[name] is not typing.NotRequired})


def _refuse_hidden_state(kind: type, allowed: type) -> None:
    """A record that is also a str, dict or list holds a value beside its fields."""
    for base in kind.__mro__:
        if base.__module__ == "builtins" and base not in (object, allowed):
            raise Refusal(
                f"is annotated {name_of(kind)}, which is also a {base.__name__}: what it holds beside its fields would be lost"
            )


# ── defaults: for data that is older than the field ─────────────────────────────────────────────────────────────────


def _constant(default: Any) -> tuple[Callable[[], Any] | None, Any]:
    if default is MISSING:
        return None, MISSING
    return (lambda: default), (default if is_plain(default) else MISSING)


def _default(info: Any) -> tuple[Callable[[], Any] | None, Any]:
    """Of a dataclass field or a msgspec one: both have `default` and `default_factory`, each with its own mark for none."""
    nothing = (dataclasses.MISSING, msgspec.NODEFAULT)
    if info.default not in nothing:
        return _constant(info.default)
    factory = info.default_factory
    return (None if factory in nothing else factory), MISSING


def _attrs_default(info: Any) -> tuple[Callable[[], Any] | None, Any]:
    attr: Any = sys.modules["attr"]
    if info.default is attr.NOTHING:
        return None, MISSING
    if isinstance(info.default, attr.Factory):
        return (None if info.default.takes_self else info.default.factory), MISSING
    return _constant(info.default)


def _struct_fields(kind: type[msgspec.Struct]) -> Iterator[Any]:
    """What `msgspec.structs.fields` tells, but without resolving the annotations."""
    defaults = (msgspec.NODEFAULT,) * (len(kind.__struct_fields__) - len(kind.__struct_defaults__)) + kind.__struct_defaults__
    for name, key, default in zip(kind.__struct_fields__, kind.__struct_encode_fields__, defaults, strict=True):
        factory = getattr(default, "factory", None) if type(default).__module__.startswith("msgspec") else None
        plain_default = msgspec.NODEFAULT if factory is not None else default
        yield _StructField(name, key, plain_default, msgspec.NODEFAULT if factory is None else factory)


class _StructField(typing.NamedTuple):
    name: str
    encode_name: str
    default: Any
    default_factory: Any


# ── instances from their state ──────────────────────────────────────────────────────────────────────────────────────


def _make_object(kind: type, state: dict[str, Any]) -> Any:
    instance: Any = object.__new__(kind)
    for name, value in state.items():
        object.__setattr__(instance, name, value)
    if hasattr(kind, "_attrs_cached_hash"):
        object.__setattr__(instance, "_attrs_cached_hash", None)
    return instance


def _make_named_tuple(kind: Any, state: dict[str, Any]) -> Any:
    return tuple.__new__(kind, (state[name] for name in kind._fields))


def _make_struct(kind: type, state: dict[str, Any]) -> Any:
    # A struct cannot be made without its constructor, so what a `__post_init__` does to the fields is undone after it.
    instance = kind(**state)
    if hasattr(kind, "__post_init__"):
        for name, value in state.items():
            msgspec.structs.force_setattr(instance, name, value)
    return instance
