"""`perdure runs list`, `show`, `cancel`, `send`: what they print, and what they refuse."""

import asyncio
import re

import pytest

from perdure import App


async def _state(url, id):
    async with App(url, worker=False) as app:
        return await app.handle(id).info()


def state(url, id):
    return asyncio.run(_state(url, id))


def test_a_list_names_every_run_with_its_state(perdure):
    lines = perdure("runs", "list").out.splitlines()
    assert lines[0].split()[:3] == ["ID", "STATUS", "WORKFLOW"]
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "succeeded" in rows["research-1"] and "research, research-1" in rows["research-1"]
    assert "failed" in rows["failing"]
    assert "blocked" in rows["stuck"]
    assert "delayed" in rows["later"] and re.search(r"wakes in (1h 5\dm|2h)", rows["later"])
    assert "queued" in rows["queued"]


def test_a_list_can_be_narrowed_down(perdure):
    def ids(*options):
        return {run["id"] for run in perdure("runs", "list", "--json", *options).json["runs"]}

    assert ids("--status", "failed") == {"failing"}
    assert ids("--status", "failed", "--status", "blocked") == {"failing", "stuck"}
    assert ids("--workflow", "cli.research") == {"research-1", "research-2", "queued"}
    assert ids("--tag", "research") == {"research-1", "research-2"}
    assert ids("--tag", "research", "--tag", "research-2") == {"research-2"}
    assert ids("--since", "2000-01-01", "--until", "2001-01-01") == set()
    assert "failing" in ids("--since", "2h")
    assert "failing" not in ids("--until", "2h")


def test_pages_join_to_the_whole_list(perdure):
    everything = [run["id"] for run in perdure("runs", "list", "--all", "--json").json["runs"]]
    seen, after = [], []
    while True:
        page = perdure("runs", "list", "--limit", "3", "--json", *after).json
        seen += [run["id"] for run in page["runs"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert seen == everything
    assert len(everything) == len(set(everything)) > 10


def test_a_page_says_how_to_go_on(perdure):
    assert "more with --after" in perdure("runs", "list", "--limit", "2").err


def test_an_empty_list_is_no_error(perdure):
    result = perdure("runs", "list", "--workflow", "nobody's")
    assert result.out == "" and "no run fits" in result.err
    assert perdure("runs", "list", "--workflow", "nobody's", "--json").json == {"runs": [], "next": None}


def test_json_has_times_in_utc_and_plain_statuses(perdure):
    run = perdure("runs", "list", "--json", "--status", "failed").json["runs"][0]
    assert run["status"] == "failed" and run["created_at"].endswith("Z") and run["wakes_at"] is None


@pytest.mark.parametrize(
    "options", [["--status", "gone"], ["--since", "soon"], ["--limit", "0"], ["--limit", "many"], ["--nothing"]], ids=" ".join
)
def test_options_that_mean_nothing_are_a_usage_error(perdure, options):
    assert "Error" in perdure("runs", "list", *options, code=2).err


def test_a_wrong_page_is_told(perdure):
    assert "PRD-703" in perdure("runs", "list", "--after", "x", code=1).err


def test_show_has_state_journal_published_and_result(perdure):
    out = perdure("runs", "show", "research-1").out
    assert out.startswith("research-1  succeeded")
    for part in ('{"topic":"llamas"}', "journal", "find#0", "progress", '{"hits":2}', "result"):
        assert part in out
    assert "x" * 300 not in out


def test_show_full_cuts_nothing(perdure):
    assert "x" * 300 in perdure("runs", "show", "research-1", "--full").out


def test_show_json_has_everything(perdure):
    found = perdure("runs", "show", "research-1", "--json").json
    assert found["run"]["id"] == "research-1" and found["arguments"] == {"topic": "llamas"}
    assert [entry["kind"] for entry in found["journal"]] == ["started", "step", "published"]
    assert found["journal"][1]["value"][1] == "x" * 300
    assert found["published"] == {"progress": {"hits": 2}}
    assert found["result"] == {"topic": "llamas"} and found["error"] is None


def test_show_a_failure_on_one_line_and_its_traceback_in_full(perdure):
    assert "ValueError: there is no such topic" in perdure("runs", "show", "failing").out
    assert "programs.py" in perdure("runs", "show", "failing", "--full").out
    assert perdure("runs", "show", "failing", "--json").json["error"]["name"] == "ValueError"


def test_show_open_asks(perdure):
    assert "What is your bool?" in perdure("runs", "show", "asking-bool").out
    assert perdure("runs", "show", "asking-bool", "--json").json["open"][0]["to"] == "ann"


def test_show_a_run_that_never_began(perdure):
    result = perdure("runs", "show", "queued")
    assert "no worker has claimed the run yet" in result.err


def test_a_beginning_that_one_id_has_is_enough(perdure):
    assert perdure("runs", "show", "list").out.startswith("listening")


def test_a_beginning_that_several_ids_have_is_refused_with_their_names(perdure):
    err = perdure("runs", "show", "research", code=3).err
    assert "PRD-105" in err and "research-1" in err and "research-2" in err


@pytest.mark.parametrize("command", [["show"], ["why"], ["cancel"]], ids=" ".join)
def test_an_unknown_id_is_exit_3(perdure, command):
    err = perdure("runs", *command, "nobody", code=3).err
    assert "PRD-105" in err and "perdure runs list" in err


def test_cancel_asks_a_waiting_run_to_stop(perdure, url):
    assert "was waiting and has been asked to stop" in perdure("runs", "cancel", "sleeping", "--reason", "enough").out
    assert state(url, "sleeping").cancel_requested_at is not None
    assert "asked to stop" in perdure("runs", "why", "sleeping").out


def test_cancel_ends_a_run_that_never_began(perdure, url):
    assert "is cancelled" in perdure("runs", "cancel", "later").out
    assert state(url, "later").status == "cancelled"


def test_cancel_leaves_an_ended_run_alone(perdure, url):
    assert "nothing was changed" in perdure("runs", "cancel", "research-1").err
    assert state(url, "research-1").status == "succeeded"


def test_send_leaves_a_message(perdure):
    assert perdure("runs", "send", "hearing", "note", '{"text": "hello"}').out == "sent note to run hearing\n"
    assert "1 message came for it" in perdure("runs", "why", "hearing").out


def test_send_without_a_value_sends_null(perdure):
    perdure("runs", "send", "hearing", "note")


def test_send_of_plain_text_shows_how_to_quote_it(perdure):
    err = perdure("runs", "send", "hearing", "note", "it's late", code=2).err
    assert "is not JSON" in err and """'"it'"'"'s late"'""" in err.replace("\n", " ")


def test_send_to_an_ended_run_is_refused(perdure):
    err = perdure("runs", "send", "research-1", "note", "1", code=1).err
    assert "PRD-106" in err and "research-1" in err


def test_send_to_nobody_is_exit_3(perdure):
    assert "PRD-105" in perdure("runs", "send", "nobody", "note", code=3).err


def test_an_unknown_command_names_the_nearest(perdure):
    assert "did you mean 'list'?" in perdure("runs", "lst", code=2).err
    assert "did you mean 'runs'?" in perdure("run", code=2).err
    assert "there are" in perdure("xyzzy", code=2).err
