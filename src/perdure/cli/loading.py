"""Finding the code that a worker runs: `pkg.mod`, `pkg.mod:app`, `file.py` or `file.py:app`.

A file is imported under its stem, as if it were run as a script: so the names of its workflows are the same either way,
and modules beside it can be imported.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perdure.app import App
from perdure.core.errors import ConfigurationError, PerdureError
from perdure.importing import import_file, import_module
from perdure.registry import definitions
from perdure.workflow import Workflow

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Loaded", "MissingCode", "load"]


class MissingCode(ConfigurationError):
    """The file, module or attribute that should hold the workflows is not there."""

    code = ConfigurationError.code


class Loaded(NamedTuple):
    """What a target named: its module, the app in it if there is one, and the names of the workflows known now."""

    module: ModuleType
    app: App | None
    workflows: list[str]


def load(target: str) -> Loaded:
    """Import what `target` names. Raises `ConfigurationError` with one clear reason."""
    place, attribute = _split(target)
    before = set(definitions.names())
    module = _import_file(place) if place.endswith(".py") else _import_module(place)
    app = _app_of(module, target, attribute)
    workflows = sorted((app.definitions if app is not None else definitions).names())
    own = any(isinstance(value, Workflow) for value in vars(module).values())
    if not workflows or (app is None and not own and not set(workflows) - before):
        raise ConfigurationError(
            f"{place} defines no workflow", hint="decorate an async function with @workflow, or name the module that does"
        )
    return Loaded(module, app, workflows)


def _split(target: str) -> tuple[str, str]:
    if target.endswith(".py") or ":" not in target:
        return target, ""
    place, _, attribute = target.rpartition(":")
    return place, attribute


def _import_file(place: str) -> ModuleType:
    file = Path(place).resolve()
    if not file.exists():
        raise MissingCode(f"there is no file {file}", hint="name a Python file, or a module as pkg.mod")
    if not file.is_file():
        raise ConfigurationError(f"{file} is a folder, not a file", hint="name the Python file in it")
    name = file.stem
    known = sys.modules.get(name)
    if known is not None:
        if Path(getattr(known, "__file__", None) or "").resolve() == file:
            return known
        raise ConfigurationError(
            f"{place} cannot be imported as {name!r}: another module has that name", hint="rename the file"
        )
    _first_on_path(file.parent)
    try:
        return import_file(name, file)
    except BaseException as error:
        raise _failed(place, error, file) from error


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(f"{name!r} is neither a module nor a .py file", hint="write pkg.mod, pkg.mod:app or file.py")
    _first_on_path(Path.cwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _failed(name, error) from error
        raise MissingCode(
            f"there is no module {error.name!r}",
            hint=f"looked in {Path.cwd()} and the installed packages; for a file write {name}.py",
        ) from error
    except BaseException as error:
        raise _failed(name, error) from error


def _first_on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _failed(place: str, error: BaseException, file: Path | None = None) -> BaseException:
    """What to raise when user code could not be imported: the reason and the line, not the whole way there."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return error
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}:{error.lineno}"
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        own = [frame for frame in frames if file is not None and frame.filename == str(file)]
        user = own or [frame for frame in frames if Path(__file__).parent != Path(frame.filename).parent] or frames
        where = f"{user[-1].filename}:{user[-1].lineno}" if user else ""
    if isinstance(error, PerdureError):
        hint = "; ".join(filter(None, (error.hint, f"at {where}" if where else "")))
        error.hint = hint
        return error
    return ConfigurationError(
        f"{place} could not be imported: {type(error).__name__}: {error}", hint=f"look at {where}" if where else None
    )


def _app_of(module: ModuleType, target: str, attribute: str) -> App | None:
    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    listed = f"its apps are: {', '.join(apps)}" if apps else "it has no App: leave the :attribute away, perdure makes one"
    if attribute:
        if not hasattr(module, attribute):
            raise MissingCode(f"{module.__name__} has no attribute {attribute!r}", hint=listed)
        app = getattr(module, attribute)
        if not isinstance(app, App):
            raise ConfigurationError(f"{target} is not an App, but of type {type(app).__name__}", hint=listed)
        return app
    distinct = {id(app): app for app in apps.values()}
    if len(distinct) > 1:
        names = " or ".join(f"{target}:{name}" for name in apps)
        raise ConfigurationError(f"{target} has more than one App", hint=f"say which: {names}")
    return next(iter(distinct.values()), None)
