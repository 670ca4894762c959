"""Every journal that any release recorded replays on this one: by the core alone, as it went when it was recorded.

The journals are in `journals/<release>/<python>/`. When one of these tests fails, runs in flight would break: the code is
wrong, not the journal.
"""

import os
import subprocess
import sys

import pytest

from perdure.core.entry import JOURNAL_FORMAT, Kind
from tests.golden import programs
from tests.golden.journal import FOLDER, comparable, read, state_of
from tests.golden.record import PROGRAMS

PATHS = sorted(FOLDER.glob("*/*/*.json"))
EVERY = pytest.mark.parametrize("path", PATHS, ids=[path.relative_to(FOLDER).with_suffix("").as_posix() for path in PATHS])


@pytest.fixture
def golden(path, monkeypatch):
    journal = read(path)
    monkeypatch.setattr(programs, "RELEASED", journal.released)
    return journal


@EVERY
def test_a_journal_replays_as_it_was_recorded(golden):
    execution, asked = golden.replay()
    try:
        assert asked == golden.asked  # the same operations and timers, in the same order, after the same entries
        assert not execution.drifts
        assert {name: listed for name, listed in state_of(execution).items() if listed} == golden.open
        if golden.outcome is None:
            assert execution.ended is None
        else:
            assert comparable(execution.ended.status, execution.ended.data) == comparable(*golden.outcome)
    finally:
        assert execution.drop() == []


@EVERY
def test_every_prefix_of_a_journal_replays(golden):
    for length in range(1, len(golden.entries)):
        execution, asked = golden.replay(length)
        try:
            assert not execution.drifts
            assert execution.ended is None or golden.outcome is not None
            if not any(entry.kind == Kind.PATCHED for entry in golden.entries[length:]):
                # A run that stopped there asks for nothing else than the one that went on. (The last entry may be followed
                # by a change that the code makes only in runs that have not passed its place.)
                assert asked[: length - 1] == golden.asked[: length - 1]
        finally:
            assert execution.drop() == []


def test_p65_changed_code_takes_the_path_that_the_journal_says():
    """A run that passed a place before the code was changed there goes on along the old path."""
    for old in FOLDER.glob("*/*/not_changed.json"):
        execution, _ = read(old).replay()
        try:
            assert not execution.patches["golden-change"]
            assert execution.ended is not None
        finally:
            execution.drop()


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_s09_every_python_records_the_same(program):
    """But for the seed and what hangs on it."""
    recorded = [read(path) for path in PATHS if path.stem == program]
    for release in {journal.perdure for journal in recorded}:
        journals = [
            [
                (entry.kind, entry.key, entry.time, entry.failed, asked)
                for entry, asked in zip(each.entries, each.asked, strict=True)
            ]
            for each in recorded
            if each.perdure == release
        ]
        assert all(journal == journals[0] for journal in journals)


def test_a_journal_says_what_wrote_it():
    for journal in map(read, PATHS):
        assert journal.format <= JOURNAL_FORMAT
        assert journal.entries[0].kind == Kind.STARTED
        assert journal.entries[0].note.format == journal.format
        assert journal.entries[0].note.python == journal.python
        assert [entry.sequence for entry in journal.entries] == list(range(1, len(journal.entries) + 1))
        times = [entry.time for entry in journal.entries]
        assert times == sorted(times)


def test_the_journals_of_a_release_cover_every_kind_of_entry_and_every_program():
    folders = {path.parent for path in PATHS}
    assert folders
    for folder in folders:
        journals = [read(path) for path in PATHS if path.parent == folder]
        assert {entry.kind for journal in journals for entry in journal.entries} == set(Kind), folder
    newest = {path.stem for path in PATHS if path.parent.parent == max(folders).parent}
    assert newest == set(PROGRAMS)


@pytest.mark.parametrize("seed", ["0", "1", "271828"])
def test_s09_the_journals_replay_in_a_fresh_process_with_another_hash_seed(seed):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, "-c", REPLAY_ALL], cwd=FOLDER.parents[2], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == f"{len(PATHS)} replayed"


REPLAY_ALL = """
from tests.golden import programs
from tests.golden.journal import FOLDER, comparable, read
paths = sorted(FOLDER.glob("*/*/*.json"))
for path in paths:
    golden = read(path)
    programs.RELEASED = golden.released
    execution, asked = golden.replay()
    assert asked == golden.asked, path
    assert golden.outcome is None or comparable(execution.ended.status, execution.ended.data) == comparable(*golden.outcome), path
    execution.drop()
print(len(paths), "replayed")
"""
