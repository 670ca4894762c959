"""`Annotated[X, ...]`: bounds, patterns, titles and descriptions for the JSON schema that people and forms see.

Read by their attribute names, so annotated-types, pydantic's `Field` and `msgspec.Meta` all work and none is imported. They
describe; they do not decide what can be stored.
"""

from __future__ import annotations

from typing import Any

from .node import Definitions, Node
from .plain import is_plain

__all__ = ["described_by"]

_NUMBERS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf"}
_LENGTHS = {"min_length": ("minLength", "minItems"), "max_length": ("maxLength", "maxItems")}
_WORDS = ("title", "description", "examples", "pattern")


class _DescribedNode(Node):
    """Another node with more words in its JSON schema."""

    def __init__(self, node: Node, words: dict[str, Any]) -> None:
        self.node = node
        self.words = words
        self.label, self.direct, self.shapes = node.label, node.direct, node.shapes
        self.classes, self.key = node.classes, node.key
        self.dump = node.dump  # type: ignore[method-assign]
        self.load = node.load  # type: ignore[method-assign]

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        return self.node.describe(definitions) | self.words


def described_by(node: Node, metadata: tuple[Any, ...]) -> Node:
    """The node, its JSON schema enriched by what the metadata say.

    >>> from perdure.core.codec import schema_of
    >>> from typing import Annotated
    >>> import msgspec
    >>> schema_of(Annotated[int, msgspec.Meta(ge=1, description="how many")]).json_schema()
    {'type': 'integer', 'minimum': 1, 'description': 'how many'}
    """
    words: dict[str, Any] = {}
    for each in metadata:
        for one in (each, *_inner(each)):
            words |= _words(one, "array" in node.shapes)
    return _DescribedNode(node, words) if words else node


def _inner(each: Any) -> tuple[Any, ...]:
    inner = getattr(each, "metadata", ())
    return tuple(inner) if isinstance(inner, list | tuple) else ()


def _words(each: Any, array: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, word in _NUMBERS.items():
        found[word] = getattr(each, name, None)
    for name, pair in _LENGTHS.items():
        found[pair[array]] = getattr(each, name, None)
    for name in _WORDS:
        found[name] = getattr(each, name, None)
    return {word: value for word, value in found.items() if value is not None and is_plain(value)}
