"""Annotations of functions and classes as objects: text is evaluated where it was written, type variables are filled in.

A name that is not defined (yet) becomes an `Unresolved`, which is tried again at first use and is an error only then.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

from .refusal import Refusal

__all__ = ["Unresolved", "class_hints", "hints_of", "type_bindings"]


class Unresolved:
    """An annotation whose name was not found when its function was looked at."""

    def __init__(self, text: str, name: str, resolve: Callable[[], Any]) -> None:
        self.text = text
        self.name = name
        self._resolve = resolve

    def resolve(self) -> Any:
        """The annotation, now that it is needed; `Refusal` that names what is still missing."""
        try:
            return self._resolve()
        except Exception as problem:  # noqa: BLE001 - whatever foreign code raises
            raise unresolved(self.text, problem) from None

    def __repr__(self) -> str:
        return f"Unresolved({self.text!r})"


def unresolved(text: str, problem: Exception) -> Refusal:
    """The refusal of an annotation that cannot be evaluated."""
    name = getattr(problem, "name", None)
    reason = (
        f"the name {name!r} is not defined"
        if isinstance(problem, NameError) and name
        else f"{type(problem).__name__}: {problem}"
    )
    return Refusal(
        f"has the annotation {text!r}, which cannot be resolved: {reason}",
        "import it where the function or class is defined, outside of `if TYPE_CHECKING`",
    )


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The function's annotations by parameter name, and under `return`; text is evaluated, also of local classes.

    >>> def search(query: str, limit: int = 3) -> list[Hit]: ...
    >>> hints_of(search)
    {'query': <class 'str'>, 'limit': <class 'int'>, 'return': Unresolved('list[Hit]')}
    """
    target: Any = inspect.unwrap(fn)
    target = getattr(target, "__func__", target)
    if not hasattr(target, "__annotations__") and callable(target):
        target = type(target).__call__
    space = dict(getattr(target, "__globals__", {}))
    parameters = {each.__name__: each for each in getattr(target, "__type_params__", ())}
    return {
        name: _evaluated(annotation, space, lambda: _closure(target) | parameters)
        for name, annotation in _annotations(target).items()
    }


def _annotations(target: Any) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):  # annotations are evaluated on access, so one missing name would hide all others
        import annotationlib

        return annotationlib.get_annotations(target, format=annotationlib.Format.FORWARDREF)
    return getattr(target, "__annotations__", {})


def _closure(target: Any) -> dict[str, Any]:
    """The variables that the function closes over: where a local class is found, once it is bound."""
    found: dict[str, Any] = {}
    code = getattr(target, "__code__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(target, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _evaluated(annotation: Any, space: dict[str, Any], local: Callable[[], dict[str, Any]]) -> Any:
    def resolve() -> Any:
        holder = type("Holder", (), {"__annotations__": {"it": annotation}, "__module__": None})
        return typing.get_type_hints(holder, globalns=space, localns=local(), include_extras=True)["it"]

    if annotation is None:
        return type(None)
    try:
        return resolve()
    except NameError as problem:
        return Unresolved(_text(annotation), problem.name or "", resolve)
    except Exception:  # noqa: BLE001 - whatever foreign code raises
        return Unresolved(_text(annotation), "", resolve) if isinstance(annotation, str) else annotation


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", None) or repr(annotation)


# ── classes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def class_hints(kind: type, bindings: dict[type, dict[Any, Any]]) -> dict[str, Any]:
    """The class's annotations with its type variables filled in. `NameError` passes: the caller tries again later."""
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError:  # a class inside a function may name itself
        hints = typing.get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)
    filled: dict[str, Any] = {}
    for name, annotation in hints.items():
        owner = next((base for base in kind.__mro__ if name in inspect.get_annotations(base)), kind)
        filled[name] = substituted(annotation, bindings.get(owner, {}))
    return filled


def substituted(annotation: Any, binding: dict[Any, Any]) -> Any:
    """The annotation with type variables replaced; those without a value stay as they are."""
    if not binding:
        return annotation
    if isinstance(annotation, typing.TypeVar):
        return binding.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) and not hasattr(annotation, "__origin__"):
        return annotation  # a bare generic class: its parameters are its own
    return annotation[tuple(binding.get(parameter, parameter) for parameter in parameters)] if parameters else annotation


def type_bindings(kind: type, arguments: tuple[Any, ...]) -> dict[type, dict[Any, Any]]:
    """For a generic class and each of its bases, what their type variables stand for.

    >>> from typing import Generic, TypeVar
    >>> T = TypeVar("T")
    >>> class Box(Generic[T]): ...
    >>> type_bindings(Box, (int,))[Box][T]
    <class 'int'>
    """
    found: dict[type, dict[Any, Any]] = {}

    def visit(owner: type, given: tuple[Any, ...]) -> None:
        parameters = getattr(owner, "__parameters__", ())
        found[owner] = binding = dict(zip(parameters, given, strict=False))
        for base in owner.__dict__.get("__orig_bases__", ()):
            origin = typing.get_origin(base)
            if isinstance(origin, type) and origin is not typing.Generic and origin is not typing.Protocol:
                visit(origin, tuple(substituted(argument, binding) for argument in typing.get_args(base)))
        for base in owner.__bases__:
            if base not in found and base is not object:
                visit(base, ())

    visit(kind, arguments)
    return found
