"""`perdure worker` as a real process: what it prints, and how it stops."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perdure as perdure_package
from perdure import App

pytestmark = pytest.mark.crash

AGENT = """
import asyncio, time
from perdure import App, ask, step, workflow

@step
async def long() -> int:
    await asyncio.sleep({long})
    return 1

@step
def blocking() -> int:
    time.sleep(60)
    return 1

@step
async def stubborn() -> int:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@workflow
async def quick(n: int) -> int:
    return n

@workflow
async def failing() -> None:
    raise ValueError("no such topic")

@workflow
async def asking() -> bool:
    return await ask("Publish it?", to="ann")

@workflow
async def stuck() -> None:
    await asyncio.Event().wait()

@workflow
async def working() -> int:
    return await long()

@workflow
async def threaded() -> int:
    return await blocking()

@workflow
async def resisting() -> int:
    return await stubborn()
{rest}
"""


class Process:
    """A command in a process of its own; its lines are gathered as they come."""

    def __init__(self, folder, *arguments, url):
        found = str(Path(perdure_package.__file__).resolve().parents[1])  # this perdure, installed or not
        environment = os.environ | {"PERDURE_URL": url, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "PYTHONPATH": found}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "perdure", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self):
        return "\n".join(self.lines)

    def wait_for(self, pattern, seconds=20):
        """The first match in what it has printed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.text):
                return found
            if self._process.poll() is not None:
                self._reader.join(5)
                if found := re.search(pattern, self.text):
                    return found
                break
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} was not printed:\n{self.text}")

    def signal(self, number):
        self._process.send_signal(number)

    def end(self, seconds=20):
        """Wait for its end; the exit code."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.text}") from None
        self._reader.join(5)
        return code

    def clean_up(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        self._process.stdout.close()


@pytest.fixture
def folder(tmp_path):
    """A folder with `agent.py`."""
    write(tmp_path)
    return tmp_path


def write(folder, long="0.2", rest=""):
    (folder / "agent.py").write_text(AGENT.format(long=long, rest=rest))


@pytest.fixture
def perdure(folder):
    """Starts commands: `perdure("worker", "agent.py")`."""
    started = []

    def start(*arguments, url=f"sqlite:///{folder}/store.db"):
        started.append(Process(folder, *arguments, url=url))
        return started[-1]

    yield start
    for process in started:
        process.clean_up()


def begin(folder, workflow, id, args=(), name="store.db"):
    """Start a run by name, as a process that does not have its code."""

    async def start():
        async with App(f"sqlite:///{folder}/{name}", worker=False, workflows=[]) as app:
            await app.start(f"agent.{workflow}", args=args, id=id)

    asyncio.run(start())


def status(folder, id, name="store.db"):
    async def read():
        async with App(f"sqlite:///{folder}/{name}", worker=False, workflows=[]) as app:
            return await app.handle(id).status()

    return asyncio.run(read())


def test_it_says_what_it_runs_and_what_happens(perdure, folder):
    worker = perdure("worker", "agent.py")
    worker.wait_for("stop +Ctrl-C")
    assert re.search(r"store +sqlite:///.*store\.db", worker.text) and "agent.quick" in worker.text
    begin(folder, "quick", "q1", {"n": 7})
    begin(folder, "failing", "f1")
    begin(folder, "stuck", "s1")
    begin(folder, "asking", "a1")
    worker.wait_for(r"succeeded  q1  agent\.quick")
    worker.wait_for(r"failed     f1  agent\.failing  after .*  ValueError: no such topic")
    worker.wait_for(r"blocked    s1  agent\.stuck  PRD-404 .*\n.*perdure runs why s1")
    answer = worker.wait_for(r"ask        a1  Publish it\? \(to ann\)\n +perdure answer (ask-\w+) yes")
    assert perdure("answer", answer[1], "yes").end() == 0
    worker.wait_for(r"succeeded  a1  agent\.asking")
    worker.signal(signal.SIGINT)
    assert worker.end() == 0
    assert "stopped" in worker.lines[-1] and "Traceback" not in worker.text


def test_many_ends_at_once_are_counted(perdure, folder):
    async def start():
        async with App(f"sqlite:///{folder}/store.db", worker=False, workflows=[]) as app:
            for number in range(100):
                await app.start("agent.quick", args={"n": number})

    asyncio.run(start())
    worker = perdure("worker", "agent.py")
    worker.wait_for(r"and +\d+ more: \d+ succeeded")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_lets_steps_finish(perdure, folder, number):
    write(folder, long="1.0")
    begin(folder, "working", "w1")
    worker = perdure("worker", "agent.py")
    worker.wait_for("stop +Ctrl-C")
    time.sleep(0.3)
    worker.signal(number)
    worker.wait_for("stopping: steps may finish")
    assert worker.end() == 0
    assert [entry for entry in journal(perdure, "w1") if entry == "step"] == ["step"]


def journal(perdure, id):
    shown = perdure("runs", "show", id, "--json")
    assert shown.end() == 0
    return re.findall(r'"kind": "(\w+)"', shown.text)


@pytest.mark.parametrize("workflow", ["working", "threaded", "resisting"])
def test_a_second_signal_stops_at_once_and_loses_nothing(perdure, folder, workflow):
    write(folder, long="60")
    begin(folder, workflow, "w1")
    worker = perdure("worker", "agent.py")
    worker.wait_for("stop +Ctrl-C")
    time.sleep(0.5)
    worker.signal(signal.SIGINT)
    worker.wait_for("stopping: steps may finish")
    began = time.monotonic()
    worker.signal(signal.SIGINT)
    assert worker.end() == 130
    assert time.monotonic() - began < 5
    assert "stopping at once" in worker.text and "Traceback" not in worker.text
    assert status(folder, "w1") == "queued"


def test_the_bound_of_the_drain_holds(perdure, folder):
    begin(folder, "threaded", "t1")
    worker = perdure("worker", "agent.py", "--drain", "500ms")
    worker.wait_for("stop +Ctrl-C")
    time.sleep(0.5)
    worker.signal(signal.SIGTERM)
    worker.wait_for("within 500ms")
    assert worker.end(10) == 0
    assert status(folder, "t1") == "queued"


def test_a_run_goes_on_after_a_kill(perdure, folder):
    begin(folder, "asking", "a1")
    worker = perdure("worker", "agent.py")
    answer = worker.wait_for(r"perdure answer (ask-\w+)")
    worker.signal(signal.SIGKILL)
    worker.end()
    assert perdure("answer", answer[1], "yes").end() == 0
    worker = perdure("worker", "agent.py")
    worker.wait_for(r"succeeded  a1")


def test_the_app_of_the_module_is_used(perdure, folder):
    write(folder, rest="app = App('sqlite:///own.db')")
    begin(folder, "quick", "q1", {"n": 1}, name="own.db")
    worker = perdure("worker", "agent:app")
    worker.wait_for(r"succeeded  q1")
    assert "own.db" in worker.text and not (folder / "store.db").exists()


def test_db_decides_over_the_apps_store(perdure, folder):
    write(folder, rest="app = App('sqlite:///own.db')")
    worker = perdure("worker", "agent.py", "--db", "sqlite:///third.db")
    worker.wait_for("stop +Ctrl-C")
    assert (folder / "third.db").exists() and not (folder / "own.db").exists()


def test_an_app_without_a_worker_gets_one(perdure, folder):
    write(folder, rest="app = App('sqlite:///own.db', worker=False)")
    begin(folder, "quick", "q1", {"n": 1}, name="own.db")
    perdure("worker", "agent.py").wait_for(r"succeeded  q1")


@pytest.mark.parametrize(
    "arguments, code, told",
    [
        (["worker", "missing.py"], 3, "PRD-703 there is no file"),
        (["worker", "agent.py", "--drain", "soon"], 2, "not a length of time"),
        (["worker", "agent.py", "--db", "sqlite:///none/x.db"], 1, "PRD-604"),
        (["worker", "agent.py", "--db", "mysql://x"], 1, "PRD-703"),
        (["worker"], 2, "Missing argument"),
    ],
)
def test_what_cannot_start_says_why(perdure, arguments, code, told):
    process = perdure(*arguments)
    assert process.end() == code
    assert told in process.text and "Traceback" not in process.text


def test_python_m_perdure(perdure):
    process = perdure("--version")
    assert process.end() == 0 and re.fullmatch(r"perdure \d+\.\d+\.\d+", process.text)
