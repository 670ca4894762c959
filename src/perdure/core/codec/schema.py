"""A schema: what one annotation can store, as bytes and back, and what people may answer.

Whatever `encode` accepts, `decode` gives back equal and of the same types; everything else it refuses. This module may not
know any kind of value: the nodes do.
"""

from __future__ import annotations

import inspect
from typing import Any, Generic, TypeVar, cast

from .build import Builder
from .hints import Unresolved
from .node import Definitions, Node
from .plain import ANY, from_bytes, is_plain, refuse_not_plain, to_bytes
from .refusal import Refusal

__all__ = ["Schema", "schema_of"]

T = TypeVar("T")

ROOT = "result"
_DEEP = "nests too deep, or contains itself"


class Schema(Generic[T]):
    """How values of one annotation are stored. Made by `schema_of`."""

    annotation: Any
    is_plain: bool
    """The stored JSON is the value itself: reading it back converts nothing."""

    def __init__(self, annotation: Any, node: Node, where: str = "", *, recursive: bool = False) -> None:
        self.annotation = annotation
        self.where = where
        self.is_plain = node.direct
        self._node = node
        self._recursive = recursive
        self._dump = node.dump
        self._load = None if node is ANY else node.load

    @property
    def label(self) -> str:
        """The annotation as people write it."""
        return self._node.label

    def encode(self, value: T, *, where: str = "", root: str = ROOT) -> bytes:
        """Compact UTF-8 JSON of the value; equal values have equal bytes.

        Raises `NotStorable` naming the path (from `root`) of what would not come back as it is.

        >>> schema_of(dict[int, float]).encode({3: 0.5})
        b'{"3":0.5}'
        """
        try:
            plain = self._dump(value)
            if self._recursive and not is_plain(plain):
                raise refuse_not_plain(plain) or Refusal(_DEEP)
            return to_bytes(plain)
        except Refusal as refusal:
            raise refusal.not_storable(where or self.where, root) from None
        except RecursionError:
            raise Refusal(_DEEP).not_storable(where or self.where, root) from None

    def decode(self, data: bytes, *, where: str = "", root: str = ROOT) -> T:
        """The value. Raises `NotRestorable` naming type and path when the bytes do not fit the annotation (any more).

        >>> schema_of(tuple[int, str]).decode(b'[1,"a"]')
        (1, 'a')
        """
        try:
            plain = from_bytes(data)
            return cast("T", plain if self._load is None else self._load(plain))
        except Refusal as refusal:
            raise refusal.not_restorable(where or self.where, root, self.label) from None
        except RecursionError:
            raise Refusal(_DEEP).not_restorable(where or self.where, root, self.label) from None

    def json_schema(self) -> dict[str, Any]:
        """A JSON Schema of the stored form, for forms, the command line and `validate`.

        >>> schema_of(bool | None).json_schema()
        {'anyOf': [{'type': 'boolean'}, {'type': 'null'}]}
        """
        definitions: Definitions = {}
        try:
            schema = self._node.describe(definitions)
        except Refusal as refusal:
            raise refusal.not_storable(self.where, ROOT) from None
        return schema | {"$defs": definitions} if definitions else schema

    def dump(self, value: T) -> Any:
        """The value as JSON values instead of bytes; `Refusal` inside the codec."""
        return self._dump(value)

    def load(self, plain: Any) -> T:
        """The value from JSON values; `Refusal` inside the codec."""
        return cast("T", self._node.load(plain))

    def __repr__(self) -> str:
        return f"Schema({self.label})"


_LARGEST_CACHE = 4096
_schemas: dict[tuple[Any, str], Schema[Any]] = {}


def schema_of(annotation: Any, *, where: str = "") -> Schema[Any]:
    """The schema of an annotation, the same one for the same annotation.

    `where` is for error texts ("return value of search"). `Any`, `object` and a missing annotation mean plain JSON data.
    Raises `NotStorable` at once for an annotation that can be seen to be unstorable, with the path to the part that is.

    >>> schema_of(list[str]).encode(["a"])
    b'["a"]'
    >>> from collections.abc import Callable
    >>> try:
    ...     schema_of(list[Callable], where="return value of search")
    ... except Exception as problem:
    ...     print(problem.message)
    return value of search: result is annotated collections.abc.Callable, which is abstract: what it will hold is not known
    """
    try:
        known = _schemas.get((annotation, where))
    except TypeError:
        return _built(annotation, where)
    if known is not None:
        return known
    schema = _built(annotation, where)
    if not isinstance(annotation, Unresolved):
        if len(_schemas) >= _LARGEST_CACHE:
            _schemas.clear()
        _schemas[annotation, where] = schema
    return schema


def _built(annotation: Any, where: str) -> Schema[Any]:
    if annotation is inspect.Parameter.empty or annotation is inspect.Signature.empty:
        annotation = Any
    try:
        builder = Builder()
        return Schema(annotation, builder.node(annotation), where, recursive=builder.recursive)
    except Refusal as refusal:
        raise refusal.not_storable(where, ROOT) from None
