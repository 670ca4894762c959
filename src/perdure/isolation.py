"""A last chance for a run that keeps ending its worker: it goes on alone, in a process of its own, beside the others.

The parent starts a Python that calls `main` here: it imports the modules that define the workflows, opens an app that may
claim this one run only, and ends when the run has ended, waits or is blocked. If that process dies too, the death is this
run's doing, and it is set aside as poison.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.importing import import_file, import_module
from perdure.naming import module_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from perdure.registry import Definitions

__all__ = ["isolating", "main"]

_PROGRAM = "import sys; from perdure.isolation import main; main(sys.argv[1:])"


def isolating(url: str, definitions: Definitions) -> Callable[[int], Awaitable[None]]:
    """A function that runs one run, by number, in a process of its own and waits for that process to end."""

    async def isolate(run: int) -> None:
        modules = {}
        for definition in definitions.all():
            module = sys.modules.get(definition.fn.__module__)
            modules[module_name(definition.fn.__module__)] = getattr(module, "__file__", None)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-c", _PROGRAM, url, str(run), json.dumps(modules)]
        # Waited for in a thread: how asyncio watches children differs between platforms, loops and Python versions.
        await asyncio.to_thread(subprocess.run, command, env=environment, check=False, stdin=subprocess.DEVNULL)

    return isolate


def _load(name: str, file: str | None) -> None:
    """Import a module by name, or from its file under that name."""
    try:
        import_module(name)
    except ImportError:
        if file is None or not Path(file).exists():
            raise
        import_file(name, Path(file))


async def _run_alone(url: str, run: int) -> None:
    from perdure.app import App

    app = App(url)
    app._only = run  # noqa: SLF001 - not an option for users
    async with app:
        worker = app.worker
        assert worker is not None
        while not worker.drivers and not worker.quiet:  # noqa: ASYNC110 - it ends with the process
            await asyncio.sleep(0.02)
        while worker.drivers:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.05)


def main(arguments: list[str]) -> None:
    """What the process runs: the store's URL, the run's number, and the modules to import."""
    url, run, modules = arguments
    for name, file in json.loads(modules).items():
        _load(name, file)
    asyncio.run(_run_alone(url, int(run)))
