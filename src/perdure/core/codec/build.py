"""From an annotation to its node: one function per family of annotations, asked in turn.

What nobody can store (callables, generators, connections, classes without known fields) is refused here, when a function
is defined, and not at its first result.
"""

from __future__ import annotations

import abc
import collections
import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from typing import Any

from .choices import EnumNode, LiteralNode
from .containers import DictNode, SequenceNode, TupleNode
from .exceptions import ErrorNode
from .fields import is_record, record_node
from .hints import Unresolved, substituted, unresolved
from .meta import described_by
from .models import ModelNode, is_model
from .naming import name_of
from .node import Deferred, Node
from .plain import ANY, BOOLEAN, FLOAT, INTEGER, NOTHING, PLAIN_DICT, PLAIN_LIST, TEXT, PlainNode
from .refusal import Refusal
from .scalars import PATHS, TEXT_NODES
from .unions import union_of

__all__ = ["Builder"]


def _raise(refusal: Refusal) -> Node:
    raise refusal


_NEVER = Deferred("Never", lambda: _raise(Refusal("has a value, but Never is annotated")))

_SIMPLE: dict[Any, Node] = {
    Any: ANY,
    object: PlainNode("object"),
    inspect.Parameter.empty: ANY,
    None: NOTHING,
    typing.NoReturn: _NEVER,
    typing.Never: _NEVER,
    type(None): NOTHING,
    str: TEXT,
    typing.LiteralString: TEXT,
    int: INTEGER,
    float: FLOAT,
    bool: BOOLEAN,
    dict: PLAIN_DICT,
    list: PLAIN_LIST,
    **TEXT_NODES,
    **PATHS,
}

_ABC = collections.abc
_SEQUENCES: dict[Any, type] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    _ABC.Sequence: list,
    _ABC.MutableSequence: list,
    _ABC.Collection: list,
    _ABC.Iterable: list,
    _ABC.Set: set,
    _ABC.MutableSet: set,
}
_MAPPINGS: dict[Any, type] = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    _ABC.Mapping: dict,
    _ABC.MutableMapping: dict,
}
_WRAPPERS = {typing.Final, typing.ClassVar, typing.Required, typing.NotRequired, dataclasses.InitVar}
_READ_ONLY = "ReadOnly"

STORABLE = (
    "perdure stores JSON types, dataclasses, pydantic models, msgspec structs, attrs classes, "
    "enums, dates and times, UUID, Decimal, bytes, and containers of them"
)


class Builder:
    """Compiles one annotation; remembers the classes and aliases on the way, so that they may name themselves."""

    def __init__(self) -> None:
        self._begun: dict[Any, Node | None] = {}
        self.recursive = False
        """Something names itself, so its values may nest without end."""

    def node(self, annotation: Any) -> Node:
        """The node, or `Refusal` for an annotation that can be seen to be unstorable."""
        try:
            simple = _SIMPLE.get(annotation)
        except TypeError:  # unhashable: `Annotated` with a list in it
            simple = None
        if simple is not None:
            return simple
        if isinstance(annotation, Unresolved):
            return Deferred(annotation.text, lambda: self.node(annotation.resolve()))
        if isinstance(annotation, str | typing.ForwardRef):
            text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
            return Deferred(text, lambda: _raise(unresolved(text, NameError(name=text))))
        node = self._special(annotation)
        if node is None:
            origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
            node = self._generic(origin, arguments) if origin is not None else self._class(annotation)
        if node is None:
            raise Refusal(f"is annotated {_text(annotation)}, which cannot be stored", STORABLE)
        return node

    def _special(self, annotation: Any) -> Node | None:
        """Forms of typing that stand for another annotation."""
        if isinstance(annotation, typing.TypeVar):
            if annotation.__constraints__:
                return union_of([self.node(each) for each in annotation.__constraints__])
            return ANY if annotation.__bound__ is None else self.node(annotation.__bound__)
        if hasattr(annotation, "__supertype__"):
            return self.node(annotation.__supertype__)
        if _is_alias(annotation) and typing.get_origin(annotation) is None:
            return self._once(annotation, getattr(annotation, "__name__", "alias"), lambda: self.node(annotation.__value__))
        if isinstance(annotation, dataclasses.InitVar):
            return self.node(annotation.type)
        return None

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> Node | None:
        if origin is typing.Annotated:
            return described_by(self.node(arguments[0]), arguments[1:])
        if origin in _WRAPPERS or getattr(origin, "_name", "") == _READ_ONLY or getattr(origin, "__name__", "") == _READ_ONLY:
            return self.node(arguments[0])
        if origin is typing.Union or origin is types.UnionType:
            return union_of([self.node(each) for each in arguments])
        if origin is typing.Literal:
            return LiteralNode(arguments)
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _SEQUENCES:
            return SequenceNode(_SEQUENCES[origin], self.node(arguments[0]))
        if origin in _MAPPINGS:
            return DictNode(_MAPPINGS[origin], self.node(arguments[0]), self.node(arguments[1]))
        if origin is collections.Counter:
            return DictNode(collections.Counter, self.node(arguments[0]), INTEGER)
        if _is_alias(origin):
            binding = dict(zip(origin.__type_params__, arguments, strict=False))
            return self._once((origin, arguments), origin.__name__, lambda: self.node(substituted(origin.__value__, binding)))
        return self._class(origin, arguments)

    def _tuple(self, arguments: tuple[Any, ...]) -> Node:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return SequenceNode(tuple, self.node(arguments[0]))
        return TupleNode(tuple(self.node(each) for each in arguments))

    def _class(self, kind: Any, arguments: tuple[Any, ...] = ()) -> Node | None:
        if not isinstance(kind, type):
            return None
        if kind is tuple:
            return SequenceNode(tuple, ANY)
        if kind in _SEQUENCES:
            return SequenceNode(_SEQUENCES[kind], ANY)
        if kind in _MAPPINGS or kind is collections.Counter:
            return DictNode(_MAPPINGS.get(kind, kind), TEXT, ANY)
        if issubclass(kind, BaseException):
            return ErrorNode(kind)
        if issubclass(kind, enum.Enum):
            return EnumNode(kind) if list(kind) or issubclass(kind, enum.Flag) else None
        if is_model(kind):
            return ModelNode(kind)
        if is_record(kind):
            return self._once(kind, name_of(kind), lambda: record_node(kind, arguments, self.node), arguments)
        if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False) or abc.ABC in kind.__bases__:
            raise Refusal(
                f"is annotated {name_of(kind)}, which is abstract: what it will hold is not known",
                "annotate the concrete classes",
            )
        return None

    def _once(self, key: Any, label: str, make: typing.Callable[[], Node], arguments: tuple[Any, ...] = ()) -> Node:
        """A class or alias that may name itself, or names that are not defined yet: then a stand-in fills the place."""
        memo = (key, arguments) if arguments else key
        classes, shapes = ((key,), frozenset({"object"})) if isinstance(key, type) else ((), Node.shapes)
        if isinstance(key, type) and issubclass(key, dict):
            classes = (dict,)
        if memo in self._begun:
            self.recursive = self.recursive or self._begun[memo] is None
            return self._begun[memo] or Deferred(label, lambda: self._finished(memo), classes, shapes)
        self._begun[memo] = None
        try:
            self._begun[memo] = node = make()
            return node
        except NameError as problem:
            del self._begun[memo]
            text, missing = label, problem
            return Deferred(label, lambda: self._later(memo, make, text, missing), classes, shapes)
        except BaseException:
            del self._begun[memo]
            raise

    def _finished(self, memo: Any) -> Node:
        node = self._begun.get(memo)
        if node is None:
            raise Refusal("is annotated by itself alone")
        return node

    def _later(self, memo: Any, make: typing.Callable[[], Node], text: str, missing: NameError) -> Node:
        self._begun[memo] = None
        try:
            self._begun[memo] = node = make()
            return node
        except NameError as problem:
            del self._begun[memo]
            raise unresolved(text, problem) from None


def _is_alias(annotation: Any) -> bool:
    """Whether it is a `type X = ...`, of `typing` or of `typing_extensions`."""
    return hasattr(annotation, "__value__") and hasattr(annotation, "__type_params__")


def _text(annotation: Any) -> str:
    return name_of(annotation) if isinstance(annotation, type) and typing.get_origin(annotation) is None else str(annotation)
