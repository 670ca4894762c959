"""Crash tests are async functions; each runs on a loop of its own. They may take `nursery` and `place`."""

import asyncio
import inspect
import os

import pytest

from tests.crash.processes import Nursery, Place

collect_ignore_glob = [] if hasattr(os, "fork") else ["test_*.py"]  # the nursery forks


@pytest.fixture
def place(tmp_path):
    """A store and a file of effects."""
    return Place(tmp_path)


@pytest.fixture
def nursery(tmp_path):
    """Bears processes; open while the test runs."""
    return Nursery(tmp_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run the test, with its nursery open; what the processes logged is shown if it fails."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def test():
        nursery = arguments.get("nursery")
        if nursery is None:
            await pyfuncitem.obj(**arguments)
            return
        async with nursery:
            try:
                await pyfuncitem.obj(**arguments)
            except BaseException:
                print("the processes logged:\n" + nursery.log.read_text()[-6000:])
                raise

    asyncio.run(test())
    return True
