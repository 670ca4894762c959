"""`perdure runs why`: what a run waits for, since when, and its last error, in every state."""

import re

import pytest

PROGRAMS = "tests.cli.programs"


def test_an_ask_with_the_command_that_answers_it(perdure):
    out = perdure("runs", "why", "asking-bool").out
    assert "ask  What is your bool?, to ann" in out
    assert "perdure answer ask-" in out and " yes" in out
    assert "since" in out and "no step of it has failed so far" in out


def test_the_command_names_the_store_when_it_is_another(perdure, url, monkeypatch):
    monkeypatch.setenv("PERDURE_URL", "sqlite:///elsewhere.db")
    assert f"--db {url}" in perdure("runs", "why", "asking-bool", "--db", url).out


def test_a_promise(perdure):
    assert "promise  payment" in perdure("runs", "why", "promising").out


def test_a_timer(perdure):
    out = perdure("runs", "why", "sleeping").out
    assert "timer" in out and re.search(r"in (1h 5\dm|2h)", out)


def test_a_child_and_where_to_look_next(perdure):
    out = perdure("runs", "why", "parent").out
    assert "of cli.asking, waiting" in out and "perdure runs why 'parent/cli.asking#0'" in out


def test_a_message_by_elimination(perdure):
    assert "message  a message: nothing else is open" in perdure("runs", "why", "hearing").out


def test_a_retry_with_its_error_and_time(perdure):
    found = perdure("runs", "why", "retrying", "--json").json
    wait = found["waits"][0]
    assert wait["kind"] == "retry" and "ConnectionError: the model is overloaded" in wait["what"] and wait["until"]
    assert found["last_error"]["message"] == "ConnectionError: the model is overloaded"
    assert found["last_error"]["attempt"] == 1
    assert "next attempt" in perdure("runs", "why", "retrying").out


def test_a_start_that_was_put_off(perdure):
    out = perdure("runs", "why", "later").out
    assert "its start was put off" in out and "starts" in out


def test_a_queue_without_workers(perdure):
    out = perdure("runs", "why", "queued").out
    assert "none is running" in out and "perdure worker FILE" in out


def test_blocked_with_its_reason_place_and_what_to_do(perdure):
    out = perdure("runs", "why", "stuck").out
    assert "It is blocked: workflow code waits for something that nothing can ever bring" in out
    assert "PRD-404" in out and "resume()" in out


def test_ended_with_its_outcome(perdure):
    assert "it succeeded" in perdure("runs", "why", "research-1").out
    out = perdure("runs", "why", "failing").out
    assert "It failed" in out and "ValueError: there is no such topic" in out and "last error" in out


def test_loaded_code_knows_every_timer_and_message(perdure):
    found = perdure("runs", "why", "listening", "--load", PROGRAMS, "--json").json
    assert found["exact"]
    kinds = {wait["kind"]: wait for wait in found["waits"]}
    assert "message or stop" in kinds["message"]["what"]
    assert "timeout" in kinds["timer"]["what"] and kinds["timer"]["until"]


def test_looking_changes_nothing(perdure):
    before = perdure("runs", "show", "listening", "--json").json
    perdure("runs", "why", "listening", "--load", PROGRAMS)
    assert perdure("runs", "show", "listening", "--json").json == before


def test_code_that_does_not_define_the_workflow_is_told(perdure, tmp_path):
    (tmp_path / "another.py").write_text("from perdure import workflow\n\n@workflow\nasync def another() -> None: ...\n")
    perdure("runs", "why", "listening", "--load", str(tmp_path / "another.py"))


@pytest.mark.parametrize(
    "id", ["asking-bool", "retrying", "sleeping", "stuck", "failing", "research-1", "later", "queued", "parent"]
)
def test_json_has_the_same_fields_for_every_state(perdure, id):
    found = perdure("runs", "why", id, "--json").json
    assert set(found) == {"run", "summary", "since", "waits", "last_error", "notes", "where", "exact"}
    assert found["summary"] and found["since"]
