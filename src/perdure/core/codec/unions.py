"""Unions: which member a value belongs to, on the way in by its class and on the way out by its JSON.

Members whose JSON cannot be confused are stored bare (`int | str | None`, `Report | None`). Where it could be, all but one
carry a tag: `{"$type": "module.Class", "value": ...}`; plain JSON data is the one that stays bare, unless it is an object.
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

from typing import Any

from .node import Definitions, Node, described, shape_of
from .refusal import Refusal

__all__ = ["TAG", "UnionNode", "union_of"]

TAG = "$type"


def union_of(members: list[Node]) -> Node:
    """The node for several members; just the member if only one is left."""
    labels: dict[str, Node] = {}
    for member in members:
        for one in member.members if isinstance(member, UnionNode) else [member]:
            if labels.setdefault(one.label, one).classes != one.classes:
                labels[f"{one.label}#{len(labels)}"] = one  # two classes of one name, such as one redefined in a notebook
    if "float" in labels:  # a float's node takes ints too and keeps them
        labels.pop("int", None)
    return next(iter(labels.values())) if len(labels) == 1 else UnionNode(labels)


class UnionNode(Node):
    """`A | B | None`."""

    def __init__(self, labels: dict[str, Node]) -> None:
        self.labels = labels
        self.members = list(labels.values())
        self.label = " | ".join(labels)
        self.direct = all(member.direct for member in self.members)
        listed = all(member.classes for member in self.members)
        self.classes = tuple(dict.fromkeys(kind for member in self.members for kind in member.classes)) if listed else ()
        keys = {member.key for member in self.members}
        self._bare = self._without_tags()
        self._tagged = {label: node for label, node in labels.items() if node not in self._bare}
        self._tag_of = {id(node): label for label, node in self._tagged.items()}
        tags = frozenset({"object"} if self._tagged else ())
        self.shapes = frozenset(shape for node in self._bare for shape in node.shapes) | tags
        self.key = keys.pop() if len(keys) == 1 and not self._tagged else ""
        if self.key == "number" and not self.direct:
            self.key = ""

    def _without_tags(self) -> list[Node]:
        if not any(_confusable(one, other) for one in self.members for other in self.members if one is not other):
            return self.members
        bare: list[Node] = []
        for member in sorted(self.members, key=lambda member: not member.direct):
            if "object" not in member.shapes and not any(_confusable(member, other) for other in bare):
                bare.append(member)
        return [member for member in self.members if member in bare]

    def dump(self, value: Any) -> Any:
        kind, first = type(value), None
        candidates = [node for node in self.members if kind in node.classes]
        candidates = candidates or [node for node in self.members if not node.classes]
        for node in candidates:
            try:
                plain = node.dump(value)
            except Refusal as refusal:
                first = first or refusal
                continue
            tag = self._tag_of.get(id(node))
            return plain if tag is None else {TAG: tag, "value": plain}
        if first is not None and len(candidates) == 1:
            raise first
        raise self.refuse_value(value)

    def load(self, plain: Any) -> Any:
        shape, first = shape_of(plain), None
        if shape == "object" and self._tagged and TAG in plain:
            return self._load_tagged(plain)
        candidates = [node for node in self._bare if shape in node.shapes]
        for node in candidates:
            try:
                return node.load(plain)
            except Refusal as refusal:
                first = first or refusal
        if first is not None and len(candidates) == 1:
            raise first
        if shape == "object" and self._tagged:
            raise Refusal(f"has no {TAG!r} that tells which of {self.label} it is")
        raise self.refuse_plain(plain)

    def _load_tagged(self, plain: dict[str, Any]) -> Any:
        node = self._tagged.get(plain[TAG]) if isinstance(plain[TAG], str) else None
        if node is None:
            raise Refusal(f"is stored as {plain[TAG]!r}, which is none of {self.label}")
        if set(plain) != {TAG, "value"}:
            raise Refusal(f"is tagged {plain[TAG]!r} but is not an object of {TAG!r} and 'value' ({described(plain)})")
        return node.load(plain["value"])

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        tagged = [
            {
                "type": "object",
                "properties": {TAG: {"const": label}, "value": node.describe(definitions)},
                "required": [TAG, "value"],
                "additionalProperties": False,
            }
            for label, node in self._tagged.items()
        ]
        return {"anyOf": [node.describe(definitions) for node in self._bare] + tagged}


def _confusable(one: Node, other: Node) -> bool:
    return bool(one.shapes & other.shapes) and not (one.direct and other.direct)
