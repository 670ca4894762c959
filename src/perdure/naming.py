"""The name under which a definition is stored and found: module and qualified name, stable between ways of running a file."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.core.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_names", "is_class_method", "is_method", "module_name", "name_of"]


def module_name(module: str) -> str:
    """A module's name; for the main script the name it has when imported: a run may be recovered by another process."""
    if module != "__main__":
        return module
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in ("__main__", ""):
        name: str = spec.name
        return name.removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "notebook"


def name_of(fn: Callable[..., Any]) -> str:
    """The default name of a workflow or step."""
    qualified = fn.__qualname__.replace(".<locals>", "")
    return f"{module_name(fn.__module__)}.{qualified}"


def check_names(decorator: str, name: Any, aliases: Any) -> None:
    """Raises `DefinitionError` for names that are not text: they are stored with every run."""
    if name is not None and (not isinstance(name, str) or not name):
        raise DefinitionError(f"name= of @{decorator} must be text, not {name!r}", hint="leave it out for module and function")
    if isinstance(aliases, str) or not all(isinstance(alias, str) and alias for alias in aliases):
        raise DefinitionError(
            f"aliases= of @{decorator} must be a list of former names, not {aliases!r}", hint='aliases=["old"]'
        )


def is_class_method(fn: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class body and takes `cls`."""
    return _first_parameter(fn) == "cls"


def is_method(fn: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class body and takes `self`."""
    return _first_parameter(fn) == "self"


def _first_parameter(fn: Callable[..., Any]) -> str:
    """The first parameter of a function that is defined in a class body; nothing for others."""
    parents = fn.__qualname__.split(".")[:-1]
    if not parents or parents[-1] == "<locals>":
        return ""
    return next(iter(inspect.signature(fn).parameters), "")
