"""The name under which a definition is stored and found: module and qualified name, stable between ways of running a file."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["is_method", "module_name", "name_of"]


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


def is_method(fn: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class body and takes `self`."""
    parents = fn.__qualname__.split(".")[:-1]
    if not parents or parents[-1] == "<locals>":
        return False
    first = next(iter(inspect.signature(fn).parameters), "")
    return first == "self"
