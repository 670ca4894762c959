"""`perdure demo`, played in a real process without a terminal: what it prints, and what it left in ledger and journal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.demo.ledger import Event, follow
from perdure.demo.tally import count

from . import evidence

pytestmark = pytest.mark.crash

CALLS = ["plan", "write 1/3", "write 2/3", "write 3/3"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, evidence.Evidence, Path]:
    """One performance, looked at by several tests."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    output = evidence.run(["perdure", "demo", "--keep", str(folder)])
    return output, evidence.read(folder, "report-1"), folder


def test_the_worker_is_killed_in_the_middle_of_a_model_call(played: tuple[str, evidence.Evidence, Path]) -> None:
    output, found, _ = played
    assert "KILLED" in output
    asked = [event for event in found.events if event.what == "asked" and event.step == "write 2/3"]
    assert len(asked) == 2
    assert asked[0].process != asked[1].process
    assert asked[0].key == asked[1].key != ""


def test_no_answer_is_paid_for_twice(played: tuple[str, evidence.Evidence, Path]) -> None:
    _, found, _ = played
    assert found.calls("answered") == dict.fromkeys(CALLS, 1)
    assert found.calls("asked") == dict.fromkeys(CALLS, 1) | {"write 2/3": 2}
    assert found.recorded == {"plan": 1, "search": 3, "write": 3, "publish": 1}
    assert found.times("searched", "search") == 3


def test_it_publishes_once_and_ends(played: tuple[str, evidence.Evidence, Path]) -> None:
    output, found, folder = played
    assert found.times("published", "publish") == 1
    assert found.status == "succeeded"
    assert (folder / "report.txt").read_text(encoding="utf-8").count("\n\n") == 3
    assert "Published: 1 time." in output


def test_it_fits_80_columns_and_has_no_colour_when_piped(played: tuple[str, evidence.Evidence, Path]) -> None:
    output, _, folder = played
    prose = [line for line in output.splitlines() if str(folder) not in line]  # a path may be longer than a line
    assert max(map(len, prose)) <= 80
    assert "\x1b" not in output


def test_a_folder_that_holds_a_demo_is_left_alone(played: tuple[str, evidence.Evidence, Path]) -> None:
    _, _, folder = played
    before = (folder / "ledger.jsonl").read_bytes()
    output = evidence.run(["perdure", "demo", "--keep", str(folder)], code=1)
    assert "holds a demo already" in " ".join(output.split())
    assert (folder / "ledger.jsonl").read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_person_at_the_terminal_may_say_no(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"n\n")
        output = evidence.run(["perdure", "demo", "--keep", str(tmp_path / "kept")], stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    found = evidence.read(tmp_path / "kept", "report-1")
    assert "not published" in output
    assert found.times("published", "publish") == 0
    assert found.status == "succeeded"


@pytest.mark.skipif(sys.platform == "win32", reason="looks the worker up by its process number")
def test_a_killed_conductor_takes_its_worker_along(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "perdure", "demo", "--keep", str(tmp_path)]
    conductor = subprocess.Popen(arguments, cwd=evidence.CLONE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        news = follow(tmp_path / "ledger.jsonl")
        while (first := next(news)) is None:
            assert conductor.poll() is None
            time.sleep(0.05)
    finally:
        conductor.kill()
        conductor.wait()
    until = time.monotonic() + 10
    while alive(first.process):
        assert time.monotonic() < until, "the worker outlived its conductor"
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Whether there is a process with this number; one that has ended and that nobody waits for is not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_tally_counts_what_a_kill_cut_off_and_what_it_spared() -> None:
    events = [
        Event("asked", "plan", at=1),
        Event("token", "plan", at=2),
        Event("answered", "plan", prompt_tokens=5, completion_tokens=1, at=3),
        Event("asked", "write 1/1", at=4),
        Event("token", "write 1/1", at=5),
        Event("asked", "write 1/1", at=7),
        Event("token", "write 1/1", at=8),
        Event("token", "write 1/1", at=9),
        Event("answered", "write 1/1", completion_tokens=2, at=10),
    ]
    tally = count(events, ["plan", "write"], [6.0, 11.0])
    assert (tally.calls, tally.tokens, tally.spared, tally.lost, tally.twice) == (2, 8, [6, 8], 1, [])
    assert [(work.name, work.recorded, work.begun) for work in tally.works] == [("plan", 1, 1), ("write 1/1", 1, 2)]


def test_the_tally_tells_when_an_answer_was_paid_for_twice() -> None:
    events = [Event("asked", "plan"), Event("answered", "plan"), Event("asked", "plan"), Event("answered", "plan")]
    assert count(events, ["plan"], [1.0]).twice == ["plan"]
