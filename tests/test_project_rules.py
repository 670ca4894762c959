"""Rules about the project itself: what its files may say, what its errors carry, what importing it costs."""

import doctest
import importlib
import inspect
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "perdure"

# Spelled so that this file does not break its own rule.
MACHINE_PATH = re.compile(r"(?<![\w.~$})-])/(?:wo" r"rk|ro" r"ot|home/\w+|Users/\w+|tmp/env)/")
REGISTRY_HOST = re.compile(
    r"\b(?:(?:test\.)?py" r"pi\.org|files\.pythonhos" r"ted\.org|registry\.npm" r"js\.org|deb\.deb" r"ian\.org)\b"
)

package_is_there = pytest.mark.skipif(not (SOURCE / "__init__.py").exists(), reason="the package is not complete yet")


def project_files():
    """What is tracked or about to be; without git, or in a source archive, everything that is neither hidden nor built."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
        return sorted(path for name in set(listed.split("\0")) - {""} if (path := ROOT / name).is_file())
    left_out = (".", "build", "dist", "__pycache__")
    files = (path for path in ROOT.rglob("*") if path.is_file())
    return sorted(path for path in files if not any(part.startswith(left_out) for part in path.relative_to(ROOT).parts))


def texts():
    for path in project_files():
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_HOST], ids=["machine paths", "registry hosts"])
def test_no_file_names_the_machine_it_was_written_on(pattern):
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(["", *found])


def error_classes():
    errors = importlib.import_module("perdure.core.errors")
    return [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.PerdureError)]


def test_each_error_has_its_own_code_and_says_what_it_means():
    codes = {}
    for kind in error_classes():
        assert "code" in vars(kind), f"{kind.__name__} has no code of its own"
        assert re.fullmatch(r"PRD-\d{3}", kind.code), f"{kind.__name__}: {kind.code!r} is not a code"
        assert kind.code not in codes, f"{kind.__name__} and {codes[kind.code].__name__} share {kind.code}"
        assert (vars(kind).get("__doc__") or "").strip(), f"{kind.__name__} has no docstring"
        codes[kind.code] = kind
    assert len(codes) > 1


def test_each_public_error_is_exported_by_its_module():
    errors = importlib.import_module("perdure.core.errors")
    assert sorted(kind.__name__ for kind in error_classes() if not kind.__name__.startswith("_")) == sorted(errors.__all__)


@package_is_there
def test_importing_perdure_loads_no_heavy_module():
    program = "import json, sys, perdure; print(json.dumps(sorted(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    heavy = {"apsw", "attr", "attrs", "click", "pydantic", "pytest", "rich"}
    assert not heavy & set(json.loads(loaded))


@package_is_there
def test_everything_that_perdure_exports_exists():
    perdure = importlib.import_module("perdure")
    missing = [name for name in perdure.__all__ if not hasattr(perdure, name)]
    assert not missing
    assert sorted(perdure.__all__) == sorted(set(perdure.__all__))


def module_names():
    if not (SOURCE / "__init__.py").exists():
        return ["perdure.core.duration"]
    found = pkgutil.walk_packages([str(SOURCE)], "perdure.")
    return sorted(module.name for module in found if not module.name.endswith("__main__"))


@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings_are_true(name):
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0
