"""Every behaviour test runs twice: as it is, and with every run evicted and replayed before every single entry."""

import asyncio
import inspect

import pytest

from perdure import step, workflow
from perdure.testing import TestApp

from .several import Bodies

MODES = ("normal", "replay_every_await")


def pytest_generate_tests(metafunc):
    for name in ("perdure_app", "make_app"):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, MODES, indirect=True)


@pytest.fixture
def make_app(request):
    """Makes apps with other options, or several on one file: `make_app(url, clock=, **options)`. The test opens them."""

    def make(url=None, *, clock=None, lease=None, **options):
        app = TestApp(url, replay_every_await=request.param == "replay_every_await", **options)
        if clock is not None:
            app.clock = clock
        if lease is not None:
            app._options.lease = lease * 1_000_000
        return app

    return make


@pytest.fixture
def bodies():
    return Bodies()


@pytest.fixture
def held(bodies):
    """A workflow with one step whose body waits for the test; it returns which body was recorded."""

    @step
    async def slow() -> int:
        return await bodies.enter()

    @workflow
    async def holding() -> int:
        return await slow()

    return holding


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Async tests run on a loop of their own; those that take `perdure_app` are the plugin's."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or "perdure_app" in pyfuncitem.fixturenames:
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
