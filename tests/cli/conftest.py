"""A database with runs in every state, and a runner for commands."""

import asyncio
import json
import logging
import shutil
import time

import pytest
from click.testing import CliRunner

from perdure import App
from perdure.cli import command_line
from perdure.testing import TestApp, VirtualClock
from tests.cli.programs import STARTED, late, research


async def _fill(url):
    app = TestApp(url)
    app.clock = VirtualClock(time.time_ns() // 1000)
    async with app:
        for name, call in STARTED.items():
            await app.start(call, id=name, tags=["research", name] if name.startswith("research") else [])
        await app.start(late(), id="later", delay="2h")
        await app.settle()
    async with App(url, worker=False) as app:
        await app.start(research("guanacos"), id="queued")


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A folder with the filled database, made once. Tests work on copies."""
    folder = tmp_path_factory.mktemp("filled")
    logging.disable(logging.CRITICAL)  # runs that are blocked say so
    try:
        asyncio.run(_fill(f"sqlite:///{folder}/perdure.db"))
    finally:
        logging.disable(logging.NOTSET)
    return folder


@pytest.fixture
def url(filled, tmp_path):
    """A database that the test may change."""
    shutil.copytree(filled, tmp_path / "store")
    return f"sqlite:///{tmp_path}/store/perdure.db"


class Result:
    """What a command did: exit code, standard output, standard error."""

    def __init__(self, result):
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        assert "Traceback" not in self.out + self.err, self.out + self.err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def perdure(url, monkeypatch):
    """Runs a command on the filled database: `perdure("runs", "list")`."""
    monkeypatch.setenv("PERDURE_URL", url)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments, code=0):
        result = CliRunner().invoke(command_line, arguments, prog_name="perdure")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        done = Result(result)
        assert done.code == code, f"exit code {done.code}\n{done.out}{done.err}"
        return done

    return run
