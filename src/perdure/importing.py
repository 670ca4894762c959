"""Importing the modules in which workflows are defined, for a worker, or for one run in a process of its own.

A program may run itself when it is imported: `asyncio.run(main())` at its end, without a guard. It is stopped where it opens
its App, and what it has defined until then stands. Otherwise `perdure worker program.py` would be that program, and a process
that imports it to run one suspect alone would start another such process, without end.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

__all__ = ["import_file", "import_module", "stop_programs"]

logger = logging.getLogger("perdure")

_importing = False


class _Opened(BaseException):
    """An App was opened by a module that is only imported. No `Exception`: the program may not go on after it."""


def import_module(name: str) -> ModuleType:
    """Import a module by its name. Raises `ModuleNotFoundError`, and whatever the module raises."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = _executed(name, spec)
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules[package], last, module)
    return module


def import_file(name: str, file: Path) -> ModuleType:
    """Import a file under a name of your choice. Raises `ImportError` for one that holds no Python, and what the code raises."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise ImportError(f"{file} is no Python file", name=name)
    return _executed(name, spec)


def stop_programs() -> None:
    """Called when an App opens: ends a program that is only imported."""
    if _importing:
        raise _Opened


def _executed(name: str, spec: importlib.machinery.ModuleSpec) -> ModuleType:
    global _importing
    if spec.loader is None:
        raise ImportError(f"{name} is a folder without code", name=name)
    module = importlib.util.module_from_spec(spec)
    before, _importing = _importing, True
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except _Opened:
        logger.warning(
            "%s opens an App when it is imported, and was stopped there: put what runs it under if __name__ == '__main__':",
            spec.origin or name,
        )
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        _importing = before
    return module
