"""Promises and asks: one outcome each, whoever races."""

import pytest

from perdure.core.errors import AlreadyResolved, StoreError, UnknownWait
from perdure.stores.base import Blob, Conflict, End, Park

from .hand import Hand, a_promise


@pytest.fixture
def owned(hand):
    owned = hand.take()
    ask = a_promise("p", kind="ask", name="n", question="Sure?", to="ann", schema="{}", deadline=500, opened_at=100)
    hand.advance(owned, 1, opened=[ask])
    return owned


def test_an_open_ask_is_found_by_its_id(hand, store, owned):
    row = store.promise("p")
    assert (row.run, row.key, row.kind, row.name, row.question, row.to) == (owned.number, "ask#1", "ask", "n", "Sure?", "ann")
    assert (row.schema, row.state, row.deadline, row.opened_at) == ("{}", "open", 500, 100)
    assert (row.run_id, row.workflow) == ("run", "flow")
    assert store.promises() == [row]
    assert store.promise("q") is None


def test_an_answer_reaches_the_run_in_the_same_transaction(hand, store, owned):
    hand.advance(owned, park=Park(status="waiting", wake_at=500))
    hand.at = 200
    assert hand.answer("p", value=b"yes", blobs=[Blob(b"a", b"d")]) is None
    row = store.promise("p")
    assert (row.state, row.by, row.resolved_at) == ("answered", "ann", 200)
    [again] = hand.claim()
    [message] = again.messages
    assert (message.kind, message.name, message.key, message.value, message.by) == (
        "resolved",
        "answered",
        "ask#1",
        b"yes",
        "ann",
    )
    assert store.blobs([b"a"])
    assert store.promises() == []


def test_a_rejection_is_an_answer_too(hand, store, owned):
    hand.answer("p", state="rejected", value=b"error", failed=True)
    assert store.promise("p").state == "rejected"
    [message] = store.messages_for(owned.number)
    assert (message.name, message.failed) == ("rejected", True)


def test_p02_the_second_answer_is_told_so(hand, store, owned):
    other = Hand(store)
    hand.answer("p", uid="first")
    with pytest.raises(AlreadyResolved):
        other.answer("p", value=b"no", uid="second")
    assert other.answer("p", uid="first") is None, "the same answer again is no error"
    assert len(store.messages_for(owned.number)) == 1


def test_x01_an_answer_to_an_unknown_promise(hand, owned):
    with pytest.raises(UnknownWait):
        hand.answer("q")


def test_p19_a_deadline_is_not_overtaken(hand, store, owned):
    hand.at = 500
    with pytest.raises(AlreadyResolved):
        hand.answer("p")
    assert hand.advance(owned, 1, expired=["p"]) is None
    assert store.promise("p").state == "expired"


def test_s13_an_answer_before_the_deadline_wins_though_the_worker_comes_late(hand, store, owned):
    hand.at = 499
    hand.answer("p")
    hand.at = 900
    outcome = hand.advance(owned, 1, expired=["p"])
    assert isinstance(outcome, Conflict) and (outcome.kind, outcome.index) == ("answered", 0)
    assert store.promise("p").state == "answered"
    assert store.run("run").sequence == 2
    assert len(store.messages_for(owned.number)) == 1


def test_expiring_several_is_all_or_nothing(hand, store, owned):
    hand.advance(owned, 1, opened=[a_promise("q", "ask#2", deadline=500)])
    hand.answer("q")
    hand.at = 600
    outcome = hand.advance(owned, 2, expired=["p", "q"])
    assert (outcome.kind, outcome.index) == ("answered", 1)
    assert store.promise("p").state == "open"


def test_closing_what_nobody_waits_for(hand, store, owned):
    hand.advance(owned, 1, opened=[a_promise("q", "ask#2")])
    hand.answer("q")
    assert hand.advance(owned, 1, closed=["p", "q"]) is None
    assert [store.promise(each).state for each in "pq"] == ["cancelled", "answered"]


def test_an_answer_that_does_not_fit_is_sent_back(hand, store, owned):
    hand.answer("p", uid="u1")
    [message] = store.messages_for(owned.number)
    assert hand.advance(owned, consumed=[message.number], reopened=[("p", "must be a number")]) is None
    row = store.promise("p")
    assert (row.state, row.problem, row.by, row.resolved_at) == ("open", "must be a number", "", 0)
    assert hand.answer("p", uid="u2") is None
    assert store.promise("p").problem == ""
    assert len(store.messages_for(owned.number)) == 1


def test_a_promise_of_another_run_cannot_be_touched(hand, store, owned):
    other = hand.take("other")
    assert isinstance(hand.advance(other, 1, expired=["p"]), Conflict)
    hand.advance(other, 1, closed=["p"])
    assert store.promise("p").state == "open"


def test_the_same_promise_twice_is_a_fault_of_its_own_run(hand, store, owned):
    outcome = hand.commit(hand.an_advance(owned, 1, opened=[a_promise("p")]))[0]
    assert isinstance(outcome, StoreError)
    assert store.run("run").sequence == 2


def test_p35_the_end_of_a_run_cancels_its_promises(hand, store, owned):
    hand.advance(owned, 1, end=End(status="failed", value=b"e", failed=True, at=hand.at))
    assert store.promise("p").state == "cancelled"
    with pytest.raises(AlreadyResolved):
        hand.answer("p")


def test_an_answer_needs_a_state_that_is_one(hand, owned):
    with pytest.raises(StoreError):
        hand.answer("p", state="maybe")


def test_pages_of_promises(hand, store, owned):
    opened = [a_promise(f"z{9 - n}", f"k{n}", kind="promise", to="bob" if n % 2 else "") for n in range(6)]
    hand.advance(owned, 1, opened=opened)
    hand.answer("z9")
    everything = [row.id for row in store.promises(open_only=False)]
    assert everything == ["p", "z9", "z8", "z7", "z6", "z5", "z4"], "oldest first, whatever the ids are"
    assert [row.id for row in store.promises(limit=2)] == ["p", "z8"]
    assert [row.id for row in store.promises(limit=2, after="z8")] == ["z7", "z6"]
    assert [row.id for row in store.promises(to="bob")] == ["z8", "z6", "z4"]
    assert [row.id for row in store.promises(kind="ask")] == ["p"]
    assert store.promises(run=999) == []
    assert len(store.promises(run=owned.number)) == 6
