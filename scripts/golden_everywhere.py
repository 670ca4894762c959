"""Replays the golden journals, and runs the core's tests, on every Python here and on the lowest dependencies allowed.

    python scripts/golden_everywhere.py [pytest's arguments]

Each interpreter from 3.11 on that is found (on PATH, in a version manager's folder) gets a small environment of its own,
kept in `.venv-3.12` and so on, and another hash seed. `.venv-lowest` has the oldest release of each dependency that
pyproject.toml allows. Ends with pytest's own closing line.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROBE = "import sys, ensurepip; print('%d.%d' % sys.version_info[:2], sys.implementation.name)"
FOLDERS = ("tests/golden", "tests/core")


def interpreters():
    """The first working CPython of each minor version from 3.11 on, oldest first."""
    names = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    names += sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
    names += sorted(Path.home().glob(".local/share/uv/python/*/bin/python3"))
    found = {}
    for name in filter(None, names):
        probe = subprocess.run([name, "-c", PROBE], capture_output=True, text=True, check=False)
        if probe.returncode == 0 and probe.stdout.split()[1] == "cpython":
            found.setdefault(tuple(map(int, probe.stdout.split()[0].split("."))), str(name))
    return {f"{major}.{minor}": found[major, minor] for major, minor in sorted(found) if (major, minor) >= (3, 11)}


def lowest():
    """Pins of the lower bounds of all direct dependencies."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return [re.sub(r"^([\w.-]+)>=([\w.]+).*$", r"\1==\2", dependency) for dependency in dependencies]


def environment(label, python, pins=()):
    """The interpreter of the environment of this name, made or brought up to date if pyproject.toml is newer."""
    folder = ROOT / f".venv-{label}"
    own, stamp = folder / "bin" / "python", folder / ".test"
    if stamp.exists() and own.exists() and stamp.stat().st_mtime >= (ROOT / "pyproject.toml").stat().st_mtime:
        return own
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    quiet = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*quiet, "--upgrade", "pip>=25.1"], check=True, stderr=subprocess.DEVNULL)
    install = [own, ROOT / "scripts" / "install.py", f"perdure for {label}"]
    subprocess.run([*install, "--editable", ".", "--group", "test", *pins], check=True, cwd=ROOT)
    stamp.touch()
    return own


def main():
    folders = [folder for folder in FOLDERS if (ROOT / folder).is_dir()]
    if not folders:
        print("nothing to replay: neither", " nor ".join(FOLDERS), "exists")
        return 0
    found = interpreters()
    print("found Python", ", ".join(found), flush=True)
    cases = [(label, python, ()) for label, python in found.items()]
    cases.insert(0, ("lowest", next(iter(found.values())), lowest()))
    failed = []
    for number, (label, python, pins) in enumerate(cases):
        try:
            own = environment(label, python, pins)
        except subprocess.CalledProcessError:
            failed.append(label)
            continue
        seed = str(1 + 7919 * number)
        print(f"── {label}, hash seed {seed}", flush=True)
        command = [own, "-m", "pytest", "-q", "-n", "auto", *folders, *sys.argv[1:]]
        if subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, check=False).returncode:
            failed.append(label)
    if failed:
        print("failed on:", ", ".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
