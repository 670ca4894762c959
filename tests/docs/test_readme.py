"""The README's code runs, and its transcript is what happens."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def test_every_block_is_of_a_kind_that_is_run_here() -> None:
    assert {kind for kind, _ in BLOCKS} == {"sh", "python", "console"}


def test_first_program_is_the_example_file() -> None:
    assert blocks("python")[0] == (ROOT / "examples/report.py").read_text(encoding="utf-8")


def test_shell_commands_exist() -> None:
    """`perdure demo` and the two make targets are run by tests/demo and by CI; here: that they are there."""
    words = " ".join(blocks("sh"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", words):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    shown = subprocess.run([sys.executable, "-m", "perdure", "demo", "--help"], capture_output=True, check=False)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize("index", range(1, len(blocks("python"))))
def test_python_blocks(index: int, tmp_path: Path) -> None:
    """Later blocks are tests: put into a file, `pytest` runs them as a reader's would."""
    text = blocks("python")[index]
    (tmp_path / "test_readme_block.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_readme_block.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    count = len(re.findall("^async def test_", text, re.MULTILINE))
    assert count and f"{count} passed" in done.stdout


class Program:
    """report.py as a process whose output is read line by line."""

    def __init__(self, folder: Path, output: Path) -> None:
        self.output = output
        with output.open("ab") as file:
            environment = {key: value for key, value in os.environ.items() if key != "PERDURE_URL"}
            self.process = subprocess.Popen(
                [sys.executable, str(folder / "report.py")], cwd=folder, stdout=file, stderr=subprocess.STDOUT, env=environment
            )

    def wait_for(self, text: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.output.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline, self.output.read_text(encoding="utf-8")
            time.sleep(0.02)


@pytest.mark.crash
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kill -9 is a POSIX thing")
def test_transcript(tmp_path: Path) -> None:
    """Kill, go on, answer: the lines of the transcript, in its order."""
    (tmp_path / "report.py").write_text(blocks("python")[0], encoding="utf-8")
    expected = [line for line in blocks("console")[0].splitlines() if not line.startswith("$")]
    output = tmp_path / "output.txt"
    first = Program(tmp_path, output)
    first.wait_for("searching llamas 2025")
    first.process.kill()
    first.process.wait()
    second = Program(tmp_path, output)
    try:
        second.wait_for("searching llamas 2026")
        ask = _open_ask(tmp_path)
        subprocess.run([sys.executable, "-m", "perdure", "answer", ask, "yes"], cwd=tmp_path, check=True, capture_output=True)
        second.wait_for("published")
        assert second.process.wait(timeout=30) == 0
    finally:
        second.process.kill()
        second.process.wait()
    assert output.read_text(encoding="utf-8").splitlines() == expected


def _open_ask(folder: Path) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        shown = subprocess.run(
            [sys.executable, "-m", "perdure", "inbox", "--json"], cwd=folder, capture_output=True, text=True, check=False
        )
        found = re.search(r"ask-\w+", shown.stdout)
        if found:
            return found[0]
    raise AssertionError("no ask was opened")
