"""Names of classes as stored, and classes found again by name: among loaded modules only, nothing is ever imported."""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["find_class", "module_of", "name_of"]


def module_of(kind: type) -> str:
    """The module's lasting name: `__main__` is another module in the next process, so a script is named by its file."""
    module = kind.__module__
    return _main_name() if module == "__main__" else module


def name_of(kind: type) -> str:
    """Module and qualified name, as stored.

    >>> from datetime import datetime
    >>> name_of(datetime)
    'datetime.datetime'
    """
    return f"{module_of(kind)}.{kind.__qualname__}"


def find_class(module: str, qualname: str) -> type | None:
    """The class of this name in a module that is loaded already, or None.

    Reads module and class dictionaries and never calls `getattr`: a module's `__getattr__` may import things.
    """
    loaded = sys.modules.get(module)
    if loaded is None and module == _main_name():
        loaded = sys.modules.get("__main__")
    if not isinstance(loaded, ModuleType):
        return None
    found: object = loaded
    for part in qualname.split("."):
        if not isinstance(found, ModuleType | type):
            return None
        found = found.__dict__.get(part)
    return found if isinstance(found, type) else None


def _main_name() -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and isinstance(spec.name, str):
        return spec.name.removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    if not isinstance(file, str):
        return "__main__"
    return file.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
