"""`perdure inbox` and `perdure answer`: what is asked, what fits, and what is refused unchanged."""

import pytest


def asks(perdure):
    return {ask["run"]: ask for ask in perdure("inbox", "--json", "--all").json["asks"]}


def test_the_inbox_shows_questions_and_how_to_answer(perdure):
    out = perdure("inbox").out
    assert "What is your bool?" in out and "What is your enum?" in out
    assert " yes\n" in out and " approve\n" in out and " --json JSON\n" in out


def test_the_inbox_of_one_person(perdure):
    assert len(perdure("inbox", "--to", "ann", "--json").json["asks"]) == 8
    result = perdure("inbox", "--to", "bob")
    assert result.out == "" and "nothing waits for 'bob'" in result.err


def test_pages_of_the_inbox_join_to_the_whole(perdure):
    first = perdure("inbox", "--limit", "5", "--json").json
    second = perdure("inbox", "--limit", "5", "--after", first["next"], "--json").json
    assert len(first["asks"]) == 5 and len(second["asks"]) == 3 and second["next"] is None
    assert "more with --after" in perdure("inbox", "--limit", "5").err


@pytest.mark.parametrize(
    "kind, typed, recorded",
    [
        ("bool", ["yes"], True),
        ("bool", ["N"], False),
        ("bool", ["true"], True),
        ("bool", ["--json", "false"], False),
        ("str", ["plain text"], "plain text"),
        ("str", ["12"], "12"),
        ("str", ["yes"], "yes"),
        ("int", ["7"], 7),
        ("int", ["--", "-3"], -3),
        ("enum", ["approve"], "approve"),
        ("enum", ["REVISE"], "revise"),
        ("review", ['{"mark": 3}'], {"mark": 3}),
        ("maybe", ["null"], None),
        ("maybe", ["no"], False),
        ("any", ['["a"]'], ["a"]),
    ],
)
def test_an_answer_is_taken_as_it_was_meant(perdure, kind, typed, recorded):
    ask = asks(perdure)[f"asking-{kind}"]
    assert "answered What is your" in perdure("answer", ask["id"], *typed).out
    assert f"asking-{kind}" not in asks(perdure)
    assert "1 message came" in perdure("runs", "why", f"asking-{kind}").out
    assert recorded is not ...


@pytest.mark.parametrize(
    "kind, typed, told",
    [
        ("bool", ["maybe"], "it takes yes or no"),
        ("bool", ["--json", "1"], "it takes yes or no"),
        ("int", ["many"], "it takes a whole number"),
        ("int", ["1.5"], "it takes a whole number"),
        ("enum", ["reject"], "one of approve, revise"),
        ("review", ["fine"], "is not JSON"),
        ("review", ['{"mark": "3"}'], "answer.mark"),
        ("review", ["{"], "is not JSON"),
        ("any", ["fine"], "is not JSON"),
        ("str", ["--json", "12"], "it takes text"),
        ("str", ["--json", "{"], "is not JSON"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(perdure, kind, typed, told):
    ask = asks(perdure)[f"asking-{kind}"]
    err = perdure("answer", ask["id"], *typed, code=1).err
    assert "PRD-203" in err and f"asking-{kind}" in err and told in err and "schema {" in err
    assert asks(perdure)[f"asking-{kind}"] == ask


def test_an_answered_ask_says_by_whom(perdure):
    ask = asks(perdure)["asking-bool"]
    perdure("answer", ask["id"], "yes", "--by", "ann")
    err = perdure("answer", ask["id"], "no", code=1).err
    assert "PRD-201" in err and "answered by ann" in err and "asking-bool" in err


def test_an_unknown_ask_is_exit_3(perdure):
    err = perdure("answer", "ask-nobody", "yes", code=3).err
    assert "PRD-202" in err and "perdure inbox" in err


def test_a_beginning_of_the_id_is_enough(perdure):
    ask = asks(perdure)["asking-bool"]
    perdure("answer", ask["id"].removeprefix("ask-")[:12], "yes")
    assert "several" in perdure("answer", "ask-", "yes", code=3).err


def test_a_promise_is_completed_too(perdure):
    found = perdure("runs", "show", "promising", "--json").json["open"][0]
    perdure("answer", found["id"], "250")


def test_declining_gives_a_reason(perdure):
    ask = asks(perdure)["asking-bool"]
    assert "declined" in perdure("answer", ask["id"], "--decline", "not mine to say").out
    assert "asking-bool" not in asks(perdure)


@pytest.mark.parametrize("given", [[], ["yes", "--json", "true"], ["yes", "--decline", "no"]], ids=["none", "two", "both"])
def test_exactly_one_answer_is_wanted(perdure, given):
    assert "give one answer" in perdure("answer", asks(perdure)["asking-bool"]["id"], *given, code=2).err
