"""What both decorators return: a callable that stands for the function wherever frameworks look at one.

It carries the function's name, signature, annotations and docstring, and counts as a coroutine function, because calling it
gives an awaitable. (A plain function that returns a `Call` would be taken for a blocking one and run in a thread.)
"""

from __future__ import annotations

import asyncio.coroutines
import functools
import inspect
import types
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from perdure.core.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Definable", "function_kind", "refuse_unknown"]

P = ParamSpec("P")
R = TypeVar("R")


class Definable(Generic[P, R]):
    """The common part of `Step` and `Workflow`."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        functools.update_wrapper(self, fn)  # type: ignore[arg-type]  # it sets attributes on whatever it is given
        self.fn = fn
        self.name = name
        self.__defaults__ = getattr(fn, "__defaults__", None)
        self.__kwdefaults__ = getattr(fn, "__kwdefaults__", None)
        self.__globals__ = getattr(fn, "__globals__", {})
        code = getattr(fn, "__code__", None)
        if isinstance(code, types.CodeType):
            # Frameworks ask `inspect.iscoroutinefunction`, which looks at the flags of `__code__` (and on 3.12 at the mark).
            self.__code__ = code.replace(co_flags=code.co_flags | inspect.CO_COROUTINE)
        if hasattr(inspect, "markcoroutinefunction"):
            inspect.markcoroutinefunction(self)
        self._is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"


def refuse_unknown(decorator: str, unknown: Iterable[str], known: Callable[..., Any]) -> None:
    """Raises `DefinitionError` for options that a decorator does not have, with the nearest one that it has."""
    options = [each.name for each in inspect.signature(known).parameters.values() if each.kind is each.KEYWORD_ONLY]
    for option in unknown:
        near = get_close_matches(option, options, n=1)
        raise DefinitionError(
            f"@{decorator} has no option {option!r}", hint=f"{near[0]}=?" if near else f"its options are {', '.join(options)}"
        )


def function_kind(decorator: str, fn: Any) -> str:
    """`async` or `def`.

    Raises `DefinitionError` for anything that is not such a function.
    """
    target = fn.func if isinstance(fn, functools.partial) else fn
    what = None
    if isinstance(fn, staticmethod | classmethod):
        what = f"a {type(fn).__name__}"
    elif inspect.isclass(fn):
        what = f"the class {fn.__name__}"
    elif isinstance(fn, Definable):
        what = f"{fn!r}, which is one already"
    elif inspect.isasyncgenfunction(target) or inspect.isgeneratorfunction(target):
        what = f"the generator function {getattr(fn, '__name__', fn)}"
    elif not callable(fn) or not hasattr(fn, "__qualname__"):
        what = f"{fn!r}"
    if what is not None:
        raise DefinitionError(
            f"@{decorator} was put on {what}",
            hint=f"put @{decorator} on a plain `async def` function" + (" or `def` function" if decorator == "step" else ""),
        )
    return "async" if inspect.iscoroutinefunction(target) else "def"
