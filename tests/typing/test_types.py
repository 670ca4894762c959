"""The typed API under two checkers. Nothing else here is run: what is asserted in `calls.py` and `waits.py`, they check.

A wrong use carries `# type: ignore[code]`: mypy complains if that code does not come, pyright if nothing does.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(checker: str, *options: str) -> tuple[int, str]:
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed: it comes with the dependency group `check`")
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", checker, *options], cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_mypy() -> None:
    code, output = check("mypy", "--strict", "tests/typing")
    assert code == 0, output


@pytest.mark.timeout(300)
def test_pyright() -> None:
    code, output = check("pyright", "--pythonpath", sys.executable)
    assert code == 0, output


@pytest.mark.timeout(300)
def test_mypy_sees_what_is_wrong(tmp_path: Path) -> None:
    """The checks above are worth something only if a wrong type is found."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from typing import assert_type\n"
        "from perdure import ask, workflow\n"
        "@workflow\n"
        "async def flow() -> str: return await ask('?', schema=str)\n"
        "async def f() -> None: assert_type(await ask('?'), int)\n"
    )
    code, output = check("mypy", "--strict", str(wrong))
    assert code == 1
    assert output.count("error:") == 1
    assert "[assert-type]" in output


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src/perdure/py.typed").exists()
