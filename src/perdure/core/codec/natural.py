"""A value by its own type, without an annotation: for answers and signals that have no schema, and to show arguments.

Two rules over one walk. *Strict* (`natural_encode`): what has no JSON form is refused. *Shown* (`Description`): it is kept as
`{"$opaque": "module.Class"}`, and left out of the digest, so that no memory address ever decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from .naming import name_of
from .node import described
from .plain import is_plain, refuse_not_plain, refuse_unencodable, to_bytes
from .refusal import Refusal, step_to

__all__ = ["describe", "natural_encode", "strip_opaque"]

OPAQUE = "$opaque"
_DEPTH = 60


def natural_encode(value: Any, *, where: str = "", root: str = "value") -> bytes:
    """Compact JSON bytes of a value by its own type: dataclasses, models, enums, dates and containers of them.

    Raises `NotStorable` for the rest, and for NaN and infinities. What reads it back decides the type.

    >>> from datetime import date
    >>> natural_encode({"due": date(2026, 1, 31), "tags": ("a", "b")})
    b'{"due":"2026-01-31","tags":["a","b"]}'
    """
    try:
        return to_bytes(value if is_plain(value) else _natural(value, _DEPTH))
    except Refusal as refusal:
        raise refusal.not_storable(where, root) from None
    except RecursionError:
        raise Refusal("nests too deep, or contains itself").not_storable(where, root) from None


def _natural(value: Any, depth: int) -> Any:
    kind = type(value)
    if depth <= 0:
        raise Refusal("nests too deep, or contains itself")
    if kind is dict:
        return _each_key(value, lambda item: _natural(item, depth - 1))
    if kind in (list, tuple, set, frozenset):
        items: list[Any] = []
        try:
            for item in value:
                items.append(_natural(item, depth - 1))  # noqa: PERF401 - the path of a refusal
        except Refusal as refusal:
            raise refusal.at(f"[{len(items)}]") from None
        return sorted(items, key=to_bytes) if kind in (set, frozenset) else items
    if is_plain(value):
        return value
    if kind is float or kind is int:
        raise refuse_not_plain(value) or Refusal("is no JSON number")
    return _dump_of(kind)(value)


def _each_key(value: dict[Any, Any], each: Any) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for key, item in value.items():
        try:
            text = key if type(key) is str else _dump_of(type(key))(key)
            if type(text) not in (str, int):
                raise Refusal(f"has {described(key)} as a key")
            written[str(text)] = each(item)
        except Refusal as refusal:
            raise refusal.at(step_to(key)) from None
    return written


_LARGEST_CACHE = 1024
_dumps: dict[type, Callable[[Any], Any]] = {}


def _dump_of(kind: type) -> Callable[[Any], Any]:
    """The `dump` of the class's own schema; for a class without one, a function that refuses."""
    known = _dumps.get(kind)
    if known is None:
        from .build import Builder  # the builder knows all kinds, and this walk is one of its users

        if len(_dumps) >= _LARGEST_CACHE:
            _dumps.clear()
        try:
            known = Builder().node(kind).dump
        except Refusal:
            known = _refuse
        _dumps[kind] = known
    return known


def _refuse(value: Any) -> Any:
    raise Refusal(f"is {described(value)}, which has no JSON form", "send a dataclass, a model or JSON data")


# ── shown ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe(value: Any, depth: int = _DEPTH) -> Any:
    """JSON values that show `value` to people; parts without a JSON form stand as `{"$opaque": "module.Class"}`.

    >>> describe({"limit": 3, "client": object()})
    {'limit': 3, 'client': {'$opaque': 'builtins.object'}}
    """
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return {"$float": str(value)}
    if is_plain(value, depth):
        return value if refuse_unencodable(value) is None else _replaced(value)
    if depth <= 0:
        return _opaque(value)
    if kind is dict:
        return {_shown_key(key): describe(item, depth - 1) for key, item in value.items()}
    if kind in (list, tuple):
        return [describe(item, depth - 1) for item in value]
    if kind in (set, frozenset):
        return sorted((describe(item, depth - 1) for item in value), key=to_bytes)
    if isinstance(value, BaseException):  # its traceback is of no interest here, and differs from run to run
        return {"$error": name_of(kind), "message": _replaced(str(value))}
    try:
        plain = _dump_of(kind)(value)
        to_bytes(plain)
        return plain
    except (Refusal, RecursionError):
        return _fields(value, kind, depth)
    except Exception:  # noqa: BLE001 - whatever foreign code raises
        return _opaque(value)


def _fields(value: Any, kind: type, depth: int) -> Any:
    """A record with a part that has no JSON form: its other fields still show, and count."""
    marks = ("__dataclass_fields__", "__pydantic_fields__", "__struct_fields__")
    names = next((names for mark in marks if (names := getattr(kind, mark, None))), None)
    if names is None and hasattr(kind, "__attrs_attrs__"):
        names = [each.name for each in kind.__attrs_attrs__]
    if names is None or isinstance(value, type):
        return _opaque(value)
    return {name: describe(getattr(value, name, None), depth - 1) for name in names}


def _shown_key(key: Any) -> str:
    if type(key) is str:
        return _replaced(key) if refuse_unencodable(key) else key
    plain = describe(key, 1)
    return str(plain) if isinstance(plain, str | int | float) else to_bytes(plain).decode()


def _replaced(plain: Any) -> Any:
    if isinstance(plain, str):
        return plain.encode("utf-8", "backslashreplace").decode()
    if isinstance(plain, dict):
        return {_replaced(key): _replaced(item) for key, item in plain.items()}
    return [_replaced(item) for item in plain] if isinstance(plain, list) else plain


def _opaque(value: Any) -> dict[str, str]:
    own = isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__"))
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if own and isinstance(module, str) and isinstance(name, str):
        return {OPAQUE: f"{module}.{name}"}
    return {OPAQUE: name_of(type(value))}


def strip_opaque(plain: Any) -> Any:
    """The description without its opaque parts, for the digest; `msgspec.UNSET` when nothing is left.

    >>> strip_opaque({"limit": 3, "client": {"$opaque": "builtins.object"}})
    {'limit': 3}
    """
    if isinstance(plain, dict):
        if OPAQUE in plain and len(plain) == 1:
            return msgspec.UNSET
        return {key: kept for key, item in plain.items() if (kept := strip_opaque(item)) is not msgspec.UNSET}
    if isinstance(plain, list):
        return [kept for item in plain if (kept := strip_opaque(item)) is not msgspec.UNSET]
    return plain
