"""Plain JSON: the values that need no annotation. The hot path of the codec.

A value is plain when it is made of exactly None, bool, int, finite float, str, list and dict with str keys. This module
holds the one walk that checks this, the bytes, and the nodes of the plain types. It may not know any other kind of value.
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

import math
from typing import Any

import msgspec

from .node import EVERY_SHAPE, Definitions, Node, described
from .refusal import Refusal, step_to

__all__ = [
    "ANY",
    "BOOLEAN",
    "DEPTH",
    "FLOAT",
    "INTEGER",
    "NOTHING",
    "PLAIN_DICT",
    "PLAIN_LIST",
    "TEXT",
    "PlainNode",
    "from_bytes",
    "is_plain",
    "refuse_not_plain",
    "refuse_unencodable",
    "to_bytes",
]

DEPTH = 150
"""How deep plain values may nest: what one stack could write must be readable on any other."""

_LARGEST = 10**4000
"""Integers beyond this come near the interpreter's limit of digits when they are read back."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_isfinite = math.isfinite

ADD_ANNOTATION = "add a return annotation that names its type, or return JSON data"


def is_plain(value: Any, depth: int = DEPTH) -> bool:
    """Whether the value is plain JSON through and through.

    >>> is_plain({"a": [1, None]}), is_plain((1,)), is_plain({1: 2}), is_plain(float("nan"))
    (True, False, False, False)
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-_LARGEST < value < _LARGEST)
    if kind is float:
        return _isfinite(value)
    if depth <= 0:
        return False
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                return False
            if type(item) is not str and not is_plain(item, depth - 1):
                return False
        return True
    if kind is list:
        for item in value:  # noqa: SIM110 - hot
            if type(item) is not str and not is_plain(item, depth - 1):
                return False
        return True
    return False


def refuse_not_plain(value: Any, hint: str | None = ADD_ANNOTATION, depth: int = DEPTH) -> Refusal | None:
    """Why and where the value is not plain JSON; None if it is. The slow twin of `is_plain`, for the message."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return None
    if kind is int:
        return None if -_LARGEST < value < _LARGEST else Refusal("is an int of more than 4000 digits", "store it as text")
    if kind is float:
        return None if _isfinite(value) else Refusal(f"is {value}, which JSON cannot hold", "put None or text in its place")
    if depth <= 0:
        return Refusal(f"nests more than {DEPTH} levels deep, or contains itself")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                return Refusal(f"has {described(key)} as a key, which JSON would turn into text", hint)
            if refusal := refuse_not_plain(item, hint, depth - 1):
                return refusal.at(step_to(key))
        return None
    if kind is list:
        for index, item in enumerate(value):
            if refusal := refuse_not_plain(item, hint, depth - 1):
                return refusal.at(f"[{index}]")
        return None
    return Refusal(f"is {described(value)}, which plain JSON cannot hold as it is", hint)


def to_bytes(plain: Any) -> bytes:
    """Compact UTF-8 JSON of a value that is known to be plain; `Refusal` for text that is not Unicode."""
    try:
        return _encode(plain)
    except UnicodeEncodeError:
        raise refuse_unencodable(plain) or Refusal("holds text that is not Unicode") from None
    except (RecursionError, ValueError):
        raise refuse_not_plain(plain) or Refusal("nests too deep") from None


def from_bytes(data: bytes) -> Any:
    """The plain value of JSON bytes; `Refusal` if they are no JSON."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Refusal(f"is no readable JSON ({problem}): {data[:40]!r}") from None


def refuse_unencodable(plain: Any) -> Refusal | None:
    """Where a plain value holds a lone surrogate, half of a character that has no UTF-8."""
    if type(plain) is str:
        try:
            plain.encode()
        except UnicodeEncodeError as problem:
            return Refusal(
                f"holds half a character ({plain[problem.start]!r}), which has no UTF-8",
                "replace it: text.encode('utf-8', 'replace')",
            )
    elif type(plain) is dict:
        for key, item in plain.items():
            if refuse_unencodable(key):
                return Refusal(f"has a key with half a character ({key!r}), which has no UTF-8")
            if refusal := refuse_unencodable(item):
                return refusal.at(step_to(key))
    elif type(plain) is list:
        for index, item in enumerate(plain):
            if refusal := refuse_unencodable(item):
                return refusal.at(f"[{index}]")
    return None


class PlainNode(Node):
    """Any plain JSON: no annotation, `Any` or `object`; with `kind`, only a bare `dict` or `list` of it."""

    direct = True

    def __init__(self, label: str, kind: type | None = None, hint: str | None = ADD_ANNOTATION) -> None:
        self.label = label
        self.kind = kind
        self.hint = hint
        self.shapes = EVERY_SHAPE if kind is None else frozenset({"object" if kind is dict else "array"})
        self.classes = (type(None), bool, int, float, str, list, dict) if kind is None else (kind,)

    def dump(self, value: Any) -> Any:
        if self.kind is not None and type(value) is not self.kind:
            raise self.refuse_value(value)
        if is_plain(value):
            return value
        raise refuse_not_plain(value, self.hint) or Refusal("is not plain JSON", self.hint)

    def load(self, plain: Any) -> Any:
        if self.kind is not None and type(plain) is not self.kind:
            raise self.refuse_plain(plain)
        return plain

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        return {} if self.kind is None else {"type": "object" if self.kind is dict else "array"}


class _ScalarNode(Node):
    """`str`, `int`, `bool` or `None`: exactly this type, stored as it is."""

    direct = True

    def __init__(self, kind: type, shape: str, key: str = "") -> None:
        self.kind = kind
        self.label = "None" if kind is type(None) else kind.__name__
        self.shapes = frozenset({shape})
        self.classes = (kind,)
        self.key = key

    def dump(self, value: Any) -> Any:
        if type(value) is self.kind:
            return value
        raise self.refuse_value(value)

    def load(self, plain: Any) -> Any:
        if type(plain) is self.kind:
            return plain
        raise self.refuse_plain(plain)

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        (shape,) = self.shapes
        return {"type": shape}


class _IntegerNode(_ScalarNode):
    """`int`, refused only when it has thousands of digits."""

    def dump(self, value: Any) -> Any:
        if type(value) is int and -_LARGEST < value < _LARGEST:
            return value
        raise (
            self.refuse_value(value)
            if type(value) is not int
            else Refusal("is an int of more than 4000 digits", "store it as text")
        )


class _FloatNode(_ScalarNode):
    """`float`, never NaN or infinite. An `int` is one too, as for type checkers, and stays an `int`."""

    def __init__(self) -> None:
        super().__init__(float, "number")
        self.shapes = frozenset({"number", "integer"})
        self.classes = (float, int)

    def dump(self, value: Any) -> Any:
        if type(value) is float and _isfinite(value):
            return value
        if type(value) is float:
            raise Refusal(f"is {value}, which JSON cannot hold", "put None or text in its place")
        if type(value) is int:
            return INTEGER.dump(value)
        raise self.refuse_value(value)

    def load(self, plain: Any) -> Any:
        if type(plain) is float or type(plain) is int:
            return plain
        raise self.refuse_plain(plain)

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "number"}


ANY = PlainNode("JSON data")
PLAIN_DICT = PlainNode("dict", dict, "annotate what it holds, such as dict[int, str]")
PLAIN_LIST = PlainNode("list", list, "annotate what it holds, such as list[date]")
TEXT = _ScalarNode(str, "string", "text")
BOOLEAN = _ScalarNode(bool, "boolean")
NOTHING = _ScalarNode(type(None), "null")
INTEGER = _IntegerNode(int, "integer", "number")
FLOAT = _FloatNode()
