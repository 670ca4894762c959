"""What exceptions carry: any value, kept as well as it can be, since an exception's parts have no annotations.

Plain JSON, tuples, sets and the text kinds (dates, UUID, Decimal, bytes, paths) come back as they were, marked by type. Of
anything else the text is kept: a `Shown` stands for it, so the exception's message stays the same.
"""

from __future__ import annotations

from typing import Any

from .naming import name_of
from .plain import is_plain, to_bytes
from .refusal import Refusal
from .scalars import TEXT_NODES

__all__ = ["Shown", "restore", "store"]

SIZE_LIMIT = 64 * 1024
SHOWN_LIMIT = 4 * 1024

_MARKS = ("$shown", "$items", "$pairs", "$text")
_CONTAINERS: dict[str, type] = {kind.__name__: kind for kind in (tuple, list, set, frozenset)}
_TEXTS = {node.label: node for node in TEXT_NODES.values()}


class Shown:
    """Stands in an exception's arguments for an object that cannot be stored: it has its type's name and its texts."""

    def __init__(self, text: str, representation: str, type_name: str) -> None:
        self.text = text
        self.representation = representation
        self.type_name = type_name

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.representation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.text, self.representation, self.type_name))


def store(value: Any, *, or_none: bool = False) -> Any:
    """JSON values for `restore`. What cannot be kept becomes its text; with `or_none`, None (and None itself is marked).

    >>> restore(store((1, {2: b"x"})))
    (1, {2: b'x'})
    """
    try:
        plain = _marked(value, 8)
        if len(to_bytes(plain)) <= SIZE_LIMIT:
            return {"$items": "None"} if or_none and plain is None else plain
    except (Refusal, RecursionError):
        pass
    return None if or_none else _shown(value)


def restore(plain: Any) -> Any:
    """The value that `store` wrote. Never raises: what does not fit is handed back as it is.

    >>> restore({"$items": "tuple", "value": [1, 2]})
    (1, 2)
    """
    if isinstance(plain, list):
        return [restore(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    try:
        return _unmarked(plain)
    except (Refusal, TypeError, ValueError, KeyError):
        return plain


def _marked(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in TEXT_NODES:
        node = TEXT_NODES[kind]
        return {"$text": node.label, "value": node.dump(value)}
    if kind is Shown:
        return {"$shown": value.text, "repr": value.representation, "type": value.type_name}
    if depth <= 0:
        raise Refusal("nests too deep")
    if kind is list:
        return [_marked(each, depth - 1) for each in value]
    if kind in (tuple, set, frozenset):
        items = [_marked(each, depth - 1) for each in value]
        return {"$items": kind.__name__, "value": items if kind is tuple else sorted(items, key=to_bytes)}
    if kind is dict:
        if all(type(key) is str for key in value) and not any(mark in value for mark in _MARKS):
            return {key: _marked(each, depth - 1) for key, each in value.items()}
        return {"$pairs": [[_marked(key, depth - 1), _marked(each, depth - 1)] for key, each in value.items()]}
    if not is_plain(value):
        raise Refusal("cannot be kept")
    return value


def _unmarked(plain: dict[str, Any]) -> Any:
    if "$text" in plain:
        return _TEXTS[plain["$text"]].load(plain["value"])
    if "$items" in plain:
        return None if plain["$items"] == "None" else _CONTAINERS[plain["$items"]](restore(each) for each in plain["value"])
    if "$pairs" in plain:
        return {restore(key): restore(each) for key, each in plain["$pairs"]}
    if "$shown" in plain:
        text = str(plain["$shown"])
        return Shown(text, str(plain.get("repr", text)), str(plain.get("type", "")))
    return {key: restore(each) for key, each in plain.items()}


def _shown(value: Any) -> dict[str, Any]:
    return {"$shown": _text(value, str), "repr": _text(value, repr), "type": name_of(type(value))}


def _text(value: Any, show: Any) -> str:
    try:
        text = str(show(value))
    except Exception:  # noqa: BLE001 - whatever foreign code raises
        text = f"<{name_of(type(value))}>"
    return text[:SHOWN_LIMIT].encode("utf-8", "backslashreplace").decode()
