"""The pytest plugin: the fixture `perdure_app`, and async tests that use it without any other plugin.

Loaded by every pytest run in an environment that has perdure, so it imports nothing of perdure's before it is used.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .app import TestApp

__all__ = ["perdure_app"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--perdure-replay-every-await`: run everything in the hardest mode."""
    group = parser.getgroup("perdure")
    group.addoption(
        "--perdure-replay-every-await",
        action="store_true",
        default=False,
        help="evict and replay every run before every entry, to find code that is not deterministic",
    )


@pytest.fixture
def perdure_app(request: pytest.FixtureRequest) -> TestApp:
    """A `TestApp`. In an `async def` test it is open for the time of the test."""
    from .app import TestApp

    mode = getattr(request, "param", None)
    replay = request.config.getoption("--perdure-replay-every-await") if mode is None else mode == "replay_every_await"
    return TestApp(replay_every_await=replay)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that takes `perdure_app` on a loop of its own, with the app open."""
    if "perdure_app" not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}

    async def test() -> None:
        app: Any = pyfuncitem.funcargs["perdure_app"]
        async with app:
            await pyfuncitem.obj(**arguments)

    asyncio.run(test())
    return True
