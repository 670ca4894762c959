"""Arguments of calls. Those of workflows are stored to be restored; those of steps are shown and digested, never restored.

Both are one JSON object by parameter name. Defaults are not stored: a run begun before a parameter existed gets the
function's own default when it is restored.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from .build import Builder
from .hints import hints_of
from .natural import describe, strip_opaque
from .node import Deferred, Node
from .plain import ANY, from_bytes, is_plain, refuse_not_plain, to_bytes
from .refusal import Refusal, step_to
from .unions import union_of

__all__ = ["ArgumentsSchema", "arguments_of", "describe_arguments", "json_digest"]

_encode = msgspec.json.Encoder().encode
_blake2b = hashlib.blake2b
_Parameter = inspect.Parameter
_BY_POSITION = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)


def json_digest(data: bytes) -> bytes:
    """The 16-byte blake2b digest of JSON bytes.

    >>> json_digest(b"{}").hex()
    '2afb9b83f9314e5d029766197f539792'
    """
    return _blake2b(data, digest_size=16).digest()


class ArgumentsSchema:
    """How the arguments of one function are stored. Made by `arguments_of`."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.name = getattr(fn, "__qualname__", repr(fn))
        self.signature = inspect.signature(fn)
        self._parameters = dict(self.signature.parameters)
        self._hints: Callable[[], dict[str, Any]] = lambda: hints_of(fn)
        self._nodes: dict[str, Node] | None = None
        self._recursive = False
        self._simple = all(each.kind is _Parameter.POSITIONAL_OR_KEYWORD for each in self._parameters.values())
        self._names = list(self._parameters)
        required = [each.default is _Parameter.empty for each in self._parameters.values()]
        self._required = sum(required)
        # `{"topic":` and `,"depth":`: what stands before each value when they are given in order.
        self._before = [(b"," if index else b"{") + _encode(name) + b":" for index, name in enumerate(self._names)]

    # ── of workflows ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def nodes(self) -> dict[str, Node]:
        """The node of each parameter, from its annotation; compiled at first use. `NotStorable` names an unstorable one."""
        if self._nodes is None:
            hints, builder = self._hints(), Builder()
            pairs = self._parameters.items()
            nodes = {name: self._node(parameter, hints.get(name, Any), builder) for name, parameter in pairs}
            self._recursive, self._nodes = builder.recursive, nodes
        return self._nodes

    def _node(self, parameter: inspect.Parameter, annotation: Any, builder: Builder) -> Node:
        try:
            node = builder.node(annotation)
        except Refusal as refusal:
            raise refusal.not_storable(f"parameter of {self.name}", parameter.name) from None
        if parameter.default is None and not isinstance(node, Deferred) and node is not ANY:
            return union_of([node, builder.node(None)])  # `limit: int = None` means what it says
        return node

    def check(self) -> None:
        """Raises `NotStorable` if an annotation can be seen to be unstorable."""
        self.nodes  # noqa: B018 - compiles them

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, where: str = "") -> bytes:
        """JSON bytes of a call's arguments by parameter name, each by its annotation.

        Raises `TypeError` for a call that the function would not take, `NotStorable` naming the parameter.

        >>> def research(topic: str, *, depth: int = 2) -> str: ...
        >>> arguments_of(research).encode(("llamas",), {})
        b'{"topic":"llamas"}'
        """
        written: dict[str, Any] = {}
        name = ""
        try:
            for name, value in self._bound(args, kwargs).items():
                written[name] = self._each(name, "dump", value)
            if self._recursive and not is_plain(written):
                raise refuse_not_plain(written) or Refusal("nests too deep")
            return to_bytes(written)
        except Refusal as refusal:
            raise refusal.not_storable(where or f"argument of {self.name}", "") from None
        except RecursionError:
            raise Refusal("nests too deep, or contains itself").not_storable(
                where or f"argument of {self.name}", name
            ) from None

    def decode(self, data: bytes, *, where: str = "") -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments to call the function with.

        Raises `NotRestorable` for data that fits the function's parameters no more.

        >>> def research(topic: str, *, depth: int = 2) -> str: ...
        >>> arguments_of(research).decode(b'{"topic":"llamas","depth":3}')
        (('llamas',), {'depth': 3})
        """
        try:
            plain = from_bytes(data)
            if type(plain) is list:  # started by name, where nobody knew the parameters' names
                plain = self._by_position(plain)
            if type(plain) is not dict:
                raise Refusal("are stored as something else than an object")
            for name in plain:
                if name not in self._parameters:
                    raise Refusal(
                        f"hold {name!r}, which {self.name} does not take",
                        "keep the parameter until the runs begun with it have ended",
                    )
            return self._call({name: self._each(name, "load", value) for name, value in plain.items()})
        except Refusal as refusal:
            raise refusal.not_restorable(where, "arguments", f"arguments of {self.name}") from None
        except RecursionError:
            raise Refusal("nest too deep").not_restorable(where, "arguments", f"arguments of {self.name}") from None

    def _by_position(self, values: list[Any]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        left = list(values)
        for name, parameter in self._parameters.items():
            if parameter.kind is _Parameter.VAR_POSITIONAL:
                named[name], left = left, []
            elif parameter.kind in (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD) and left:
                named[name] = left.pop(0)
        if left:
            raise Refusal(f"are {len(values)}, more than {self.name} takes", "start it with the arguments it takes")
        return named

    def _each(self, name: str, way: str, value: Any) -> Any:
        kind = self._parameters[name].kind
        convert = getattr(self.nodes[name], way)
        step: Any = None
        try:
            if kind is _Parameter.VAR_POSITIONAL:
                done = []
                for step, each in enumerate(value):  # noqa: B007 - the path of a refusal
                    done.append(convert(each))
                return done
            if kind is _Parameter.VAR_KEYWORD:
                pairs = {}
                for step, each in value.items():
                    pairs[step] = convert(each)
                return pairs
            return convert(value)
        except Refusal as refusal:
            if step is not None:
                refusal.at(step_to(step))
            raise refusal.at(name if way == "dump" else step_to(name)) from None

    def _call(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        by_name = False  # a positional one was left to its default, so those after it go by name
        for name, parameter in self._parameters.items():
            if parameter.kind is _Parameter.VAR_POSITIONAL:
                args.extend(values.get(name, ()))
            elif parameter.kind is _Parameter.VAR_KEYWORD:
                kwargs.update(values.get(name, {}))
            elif name not in values:
                if parameter.default is _Parameter.empty:
                    raise Refusal(f"lack {name!r}, which {self.name} requires", "give the new parameter a default")
                if parameter.kind in _BY_POSITION and self._needs_place(name, values):
                    args.append(parameter.default)
                else:
                    by_name = True
            elif parameter.kind in _BY_POSITION and not (by_name and parameter.kind is _Parameter.POSITIONAL_OR_KEYWORD):
                args.append(values[name])
            else:
                kwargs[name] = values[name]
        return tuple(args), kwargs

    def _needs_place(self, name: str, values: dict[str, Any]) -> bool:
        """Whether something after this parameter can only be given by position."""
        later = self._names[self._names.index(name) + 1 :]
        for kind, given in ((self._parameters[other].kind, values.get(other)) for other in later if other in values):
            if kind is _Parameter.POSITIONAL_ONLY or (kind is _Parameter.VAR_POSITIONAL and given):
                return True
        return False

    # ── of steps ────────────────────────────────────────────────────────────────────────────────────────────────────

    def describe_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, bytes]:
        """JSON bytes for people, and the 16-byte digest that counts. Never refuses a value.

        What cannot be stored (a client, a callable) shows as `{"$opaque": "module.Class"}` and is left out of the digest.
        Raises `TypeError` for a call that the function would not take.

        >>> def search(query, client): ...
        >>> arguments_of(search).describe_arguments(("llamas", object()), {})[0]
        b'{"query":"llamas","client":{"$opaque":"builtins.object"}}'
        """
        count = len(args)
        if self._simple and not kwargs and self._required <= count <= len(self._names):
            if not count:
                return b"{}", _blake2b(b"{}", digest_size=16).digest()
            parts = []
            for before, value in zip(self._before, args, strict=False):
                if type(value) is not str and not is_plain(value):
                    break
                parts.append(before)
                try:
                    parts.append(_encode(value))
                except UnicodeEncodeError:
                    break
            else:
                parts.append(b"}")
                data = b"".join(parts)
                return data, _blake2b(data, digest_size=16).digest()
        return self._described(args, kwargs)

    def _described(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, bytes]:
        return _shown({name: describe(value) for name, value in self._bound(args, kwargs).items()})

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The given arguments by parameter name, in the order of the parameters. Defaults are left out."""
        return dict(self.signature.bind(*args, **kwargs).arguments)


def arguments_of(fn: Callable[..., Any]) -> ArgumentsSchema:
    """The schema of a function's arguments. Annotations are looked at when they are first needed, or by `check`.

    >>> def greet(name: str) -> None: ...
    >>> arguments_of(greet).encode((), {"name": "Ada"})
    b'{"name":"Ada"}'
    """
    return ArgumentsSchema(fn)


def describe_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, bytes]:
    """As `ArgumentsSchema.describe_arguments`, where there is no function whose parameters name the values.

    JSON is a list of the values, and behind them an object of those given by name.

    >>> describe_arguments((1, "a"), {"b": None})[0]
    b'[1,"a",{"b":null}]'
    """
    values: list[Any] = [*args, kwargs] if kwargs else list(args)
    if is_plain(values):
        try:
            data = _encode(values)
            return data, _blake2b(data, digest_size=16).digest()
        except UnicodeEncodeError:
            pass
    return _shown(describe(values))


def _shown(plain: Any) -> tuple[bytes, bytes]:
    data, kept = to_bytes(plain), strip_opaque(plain)
    return data, json_digest(data if kept == plain else to_bytes(kept))
