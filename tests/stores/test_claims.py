"""Who gets which run, and setting runs aside."""

import pytest

from perdure.core.entry import Note
from perdure.core.errors import RunEnded, UnknownRun
from perdure.stores.base import End, Park
from perdure.stores.rows import Blocked

from .hand import Hand, is_lost


def ids(owned):
    return [each.id for each in owned]


def test_a_claim_makes_the_worker_the_owner(hand, store):
    run = hand.start(version="v7")
    hand.at = 150
    [owned] = hand.claim()
    row = store.run("run")
    assert row == owned.row
    assert (row.owner, row.claim, row.status, row.started_at, row.due_at) == (hand.number, 1, "running", 150, None)
    assert row.number == run.number


def test_the_first_claim_begins_the_journal(hand, store):
    hand.start("a", version="v1")
    hand.start("b", version="v2")
    started = Note(seed=b"s" * 16, format=1, python="3.11.7")
    first, second = hand.claim(started=started)
    for owned, version in ((first, "v1"), (second, "v2")):
        [entry] = store.journal(owned.number)
        assert (entry.sequence, entry.kind, entry.key, entry.time, entry.value) == (1, "started", "", hand.at, None)
        assert (entry.note.seed, entry.note.version, entry.note.python) == (b"s" * 16, version, "3.11.7")
        assert owned.row.sequence == 1
    hand.advance(first, park=Park(status="queued"))
    [again] = hand.claim()
    assert (again.row.sequence, again.claim, again.row.started_at) == (1, 2, first.row.started_at)


def test_longest_due_first_and_priority_among_equals(hand):
    for name, due_at, priority in (("late", 90, 9), ("low", 50, 0), ("high", 50, 5), ("early", 10, 0)):
        hand.start(name, at=due_at, priority=priority)
    assert ids(hand.claim(limit=3)) == ["early", "high", "low"]
    assert ids(hand.claim(limit=3)) == ["late"]
    assert hand.claim(limit=3) == []


def test_a_run_of_another_version_is_not_taken(hand):
    for version in ("", "v1", "v2"):
        hand.start(f"run {version}", version=version)
    assert ids(hand.claim(versions={"other": "v2"})) == ["run "]
    assert ids(hand.claim(versions={"flow": "v2"})) == ["run v2"]
    assert ids(hand.claim(versions={})) == []
    assert ids(hand.claim()) == ["run v1"]


def test_equals_are_taken_in_the_order_of_their_start(hand):
    for n in range(20):
        hand.start(f"run-{n:02}")
    assert ids(hand.claim(limit=20)) == [f"run-{n:02}" for n in range(20)]


def test_what_is_not_due_is_not_taken(hand):
    owned = hand.take()
    hand.advance(owned, park=Park(status="waiting", wake_at=500))
    assert hand.claim() == []
    hand.at = 500
    assert ids(hand.claim()) == ["run"]


def test_only_workflows_that_are_known(hand):
    hand.start("a", workflow="one")
    hand.start("b", workflow="two")
    assert hand.claim(workflows=[]) == []
    assert ids(hand.claim(workflows=["two", "three"])) == ["b"]
    assert ids(hand.claim(workflows=None)) == ["a"]


def test_only_one_run(hand):
    hand.start("a")
    wanted = hand.start("b")
    assert ids(hand.claim(only=wanted.number)) == ["b"]
    assert hand.claim(only=wanted.number) == []


def test_a_claim_of_nothing(hand):
    hand.start()
    assert hand.claim(limit=0) == []


def test_two_workers_never_get_the_same_run(hand, store):
    other = Hand(store)
    for n in range(10):
        hand.start(f"run-{n}")
    assert not set(ids(hand.claim(limit=6))) & set(ids(other.claim(limit=6)))


def test_p44_runs_that_were_there_when_workers_died_can_be_told_apart(hand, store):
    for _ in range(2):
        other = Hand(store)
        hand.start("suspect")
        assert ids(other.claim()) == ["suspect"]
        hand.take_over(other.number)
    hand.start("fresh")
    assert store.run("suspect").crashes == 2
    assert ids(hand.claim(most_crashes=1)) == ["fresh"]
    assert ids(hand.claim(least_crashes=2)) == ["suspect"]


def test_s21_a_run_blocked_for_one_build_is_taken_by_another_at_once(hand, store):
    owned = hand.take()
    blocked = Blocked(code="PRD-401", reason="diverged", recorded=["a"], asked=["b"], build="b1", at=100)
    hand.advance(owned, park=Park(status="blocked", blocked=blocked))
    row = store.run("run")
    assert (row.status, row.blocked, row.blocked_builds) == ("blocked", blocked, ["b1"])
    assert hand.claim() == []
    other = Hand(store, build="b2")
    [again] = other.claim()
    assert (again.row.status, again.row.blocked, again.row.blocked_builds) == ("running", None, ["b1"])
    other.advance(again, park=Park(status="blocked", blocked=Blocked(code="PRD-401", reason="too", build="b2")))
    assert other.claim() == [] and hand.claim() == []
    assert store.run("run").blocked_builds == ["b1", "b2"]
    assert ids(Hand(store, build="b3").claim()) == ["run"]


def test_a_run_blocked_without_a_build_waits_for_a_person(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="blocked", blocked=Blocked(code="PRD-405", reason="poison")))
    assert store.run("run").due_at is None
    hand.send("run")
    assert Hand(store, build="b2").claim() == []
    assert hand.resume() == "blocked"
    row = store.run("run")
    assert (row.status, row.blocked, row.blocked_builds, row.crashes) == ("queued", None, [], 0)
    assert ids(hand.claim()) == ["run"]


def test_resuming_lets_every_build_try_again(hand):
    owned = hand.take()
    hand.advance(owned, park=Park(status="blocked", blocked=Blocked(code="PRD-401", reason="x", build="b1")))
    hand.resume()
    assert ids(hand.claim()) == ["run"]


def test_pausing_a_run_that_nobody_owns(hand, store):
    hand.start()
    assert hand.pause() == "queued"
    assert hand.pause() == "paused"
    row = store.run("run")
    assert (row.status, row.due_at) == ("paused", None)
    hand.send("run")
    assert hand.claim() == []
    assert hand.resume() == "paused"
    [owned] = hand.claim()
    assert len(owned.messages) == 1, "what came meanwhile is there"


def test_pausing_a_run_that_is_owned_is_a_message(hand, store):
    owned = hand.take()
    assert hand.pause() == "running"
    assert hand.resume() == "running"
    assert [message.kind for message in store.messages(hand.number, 0)] == ["pause", "resume"]
    assert store.run("run").status == "running"
    assert store.run("run").inbox == 2
    assert hand.advance(owned, 1) is None


def test_resuming_what_is_not_set_aside_changes_nothing(hand, store):
    hand.start(due_at=900)
    before = store.run("run")
    assert hand.resume() == "delayed"
    assert store.run("run") == before


def test_parked_as_paused(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="paused", wake_at=50))
    assert store.run("run").status == "paused"
    assert hand.claim() == []


def test_a_paused_run_unwinds_when_it_is_cancelled(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="paused"))
    assert hand.cancel() == "paused"
    assert store.run("run").status == "paused"
    [owned] = hand.claim()
    assert (owned.row.status, owned.row.cancel_at) == ("running", hand.at)
    assert [message.kind for message in owned.messages] == ["cancel"]


def test_pausing_a_run_that_is_told_to_cancel_does_not_hold_it(hand):
    owned = hand.take()
    hand.advance(owned, park=Park(status="waiting"))
    hand.cancel()
    hand.pause()
    assert ids(hand.claim()) == ["run"]


def test_p08_a_run_that_has_ended_is_not_moved(hand, store):
    owned = hand.take()
    end = End(status="succeeded", value=b"v", failed=False, at=hand.at)
    hand.advance(owned, 1, end=end)
    before = store.run("run")
    for verb in (hand.pause, hand.resume):
        with pytest.raises(RunEnded):
            verb()
    assert hand.cancel() == "succeeded"
    assert hand.claim() == []
    assert is_lost(hand.advance(owned, 1, end=end))
    assert store.run("run") == before


def test_moving_a_run_that_does_not_exist(hand):
    for verb in (hand.pause, hand.resume, hand.cancel):
        with pytest.raises(UnknownRun):
            verb("nowhere")


@pytest.mark.parametrize("status", ["running", "succeeded", "nonsense"])
def test_parking_under_another_status_is_refused(hand, store, status):
    owned = hand.take()
    outcome = hand.commit(hand.an_advance(owned, 1, park=Park(status=status)))[0]
    assert isinstance(outcome, Exception)
    assert store.run("run").owner == hand.number


def test_active_time_never_goes_back(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="queued", active=70))
    [owned] = hand.claim()
    hand.advance(owned, park=Park(status="queued"))
    assert store.run("run").active == 70
