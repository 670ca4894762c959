"""Creating runs, and ids that are taken."""

import pytest

from perdure.core.errors import DuplicateRun, RunEnded
from perdure.stores.base import Blob, End, Park
from perdure.stores.rows import InboxKind, Message

from .hand import Hand, a_promise, is_lost


def a_message(name="m", **options):
    return Message(number=0, run=0, kind=InboxKind.SIGNAL, name=name, **options)


def finish(hand, owned, status="succeeded", value=b"result"):
    end = End(status=status, value=value, failed=status != "succeeded", at=hand.at)
    assert hand.advance(owned, 1, end=end) is None


def test_a_new_run_is_queued_with_all_that_was_given(hand, store):
    options = {
        "version": "v2",
        "deadline_at": 9_000,
        "tags": ["blue", "red", "blue"],
        "priority": 3,
        "input": b"\x00packed",
        "digest": b"digest",
        "blobs": [Blob(b"a", b"d")],
    }
    run = hand.start("run", **options)
    assert run == store.run("run")
    assert (run.status, run.due_at, run.created_at, run.owner, run.claim) == ("queued", hand.at, hand.at, 0, 0)
    assert (run.version, run.deadline_at, run.tags, run.priority) == ("v2", 9_000, ["blue", "red"], 3)
    assert (run.input, run.digest) == (b"\x00packed", b"digest")
    assert store.blobs([b"a"]) == {b"a": b"d"}


def test_p25_a_delayed_run_is_not_due_before_its_time(hand, store):
    run = hand.start(due_at=500)
    assert (run.status, run.due_at) == ("delayed", 500)
    hand.send("run", "hello")
    assert hand.claim() == []
    assert store.run("run").due_at == 500, "a message waits for the start as everything else does"
    hand.at = 500
    [owned] = hand.claim()
    assert [message.name for message in owned.messages] == ["hello"]
    assert owned.row.started_at == 500


def test_the_same_start_again_returns_the_run(hand):
    first, second, third = hand.commit(hand.a_start(), hand.a_start(), hand.a_start(if_exists="retry_failed"))
    assert first.created and not second.created and not third.created
    assert first.run == second.run == third.run


@pytest.mark.parametrize("difference", [{"workflow": "other"}, {"digest": b"other"}])
def test_another_call_under_the_same_id_is_a_duplicate(hand, difference):
    hand.start()
    with pytest.raises(DuplicateRun):
        hand.start(**difference)


def test_reject_is_always_a_duplicate(hand):
    hand.start()
    with pytest.raises(DuplicateRun):
        hand.start(if_exists="reject")
    assert hand.start("another", if_exists="reject")


def test_s19_a_replaced_run_keeps_its_number_and_the_new_one_gets_a_new_one(hand, store):
    owned = hand.take()
    hand.advance(owned, 2, opened=[a_promise("p")])
    new = hand.start(digest=b"other", if_exists="replace")
    assert new.number > owned.number
    old = store.run(f"run~{owned.number}")
    assert (old.number, old.status, old.owner, old.ended_at, old.due_at) == (owned.number, "cancelled", 0, hand.at, None)
    assert store.promise("p").state == "cancelled"
    assert store.run("run").number == new.number
    assert store.journal(new.number) == [] and len(store.journal(owned.number)) == 3
    assert is_lost(hand.advance(owned, 1)), "its owner finds out"


def test_a_run_is_replaced_in_the_batch_in_which_its_owner_advances_it(hand, store):
    owned = hand.take()
    before, started, after = hand.commit(
        hand.an_advance(owned, 1), hand.a_start(if_exists="replace"), hand.an_advance(owned, 1, sequence=2)
    )
    assert before is None and started.created and is_lost(after)
    assert len(store.journal(owned.number)) == 2


def test_replacing_again_and_again(hand, store):
    numbers = [hand.start(if_exists="replace").number for _ in range(4)]
    assert numbers == sorted(set(numbers))
    assert [store.run(f"run~{number}").status for number in numbers[:-1]] == ["cancelled"] * 3


def test_replacing_a_child_tells_its_parent(hand, store):
    parent = hand.take("parent")
    hand.advance(parent, 1, children=[hand.a_start("child", parent=parent.number, parent_key="child#1")])
    hand.start("child", if_exists="replace")
    [message] = store.messages_for(parent.number)
    assert (message.kind, message.name, message.key, message.failed) == ("child_ended", "cancelled", "child#1", True)


def test_replacing_a_parent_cancels_its_children(hand, store):
    parent = hand.take("parent")
    hand.advance(parent, 1, children=[hand.a_start("child", parent=parent.number)])
    hand.start("parent", if_exists="replace")
    assert store.run("child").status == "cancelled"


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_retry_failed_starts_anew_what_did_not_succeed(hand, store, status):
    owned = hand.take()
    finish(hand, owned, status)
    new = hand.do(hand.a_start(if_exists="retry_failed"))
    assert new.created
    assert store.run(f"run~{owned.number}").status == status
    assert store.run(f"run~{owned.number}").result == b"result"


def test_retry_failed_returns_what_succeeded_or_lives(hand):
    owned = hand.take()
    assert not hand.do(hand.a_start(if_exists="retry_failed")).created
    finish(hand, owned)
    assert not hand.do(hand.a_start(if_exists="retry_failed")).created


def test_a_start_brings_its_messages(hand, store):
    run = hand.start(messages=[a_message("one"), a_message("two")])
    assert run.inbox == 2
    assert run == store.run("run")
    [owned] = hand.claim()
    assert [message.name for message in owned.messages] == ["one", "two"]
    assert {message.run for message in owned.messages} == {run.number}


def test_a_message_also_reaches_a_run_that_is_there(hand, store):
    hand.start()
    hand.start(messages=[a_message("more", uid="u1")])
    hand.start(messages=[a_message("more", uid="u1")])
    hand.start(messages=[a_message("not for it")], deliver=False)
    assert [message.name for message in store.messages_for(1)] == ["more"]


def test_a_message_for_a_run_that_has_ended_is_not_lost_in_silence(hand):
    owned = hand.take(messages=[a_message(uid="u1")])
    finish(hand, owned)
    assert not hand.do(hand.a_start(messages=[a_message(uid="u1")])).created, "the same call again is no error"
    with pytest.raises(RunEnded):
        hand.start(messages=[a_message(uid="u2")])


def test_numbers_are_never_reused(hand, store):
    first = hand.start("first").number
    store._opened.writer.script("DELETE FROM runs; DELETE FROM run_values")
    assert hand.start("second").number > first


def test_a_child_is_the_same_child_again(hand, store):
    parent = hand.take("parent")
    child = hand.a_start("child", parent=parent.number, parent_key="child#1")
    assert hand.advance(parent, 1, children=[child]) is None
    assert hand.advance(parent, 1, children=[child]) is None
    [row] = store.children(parent.number)
    assert (row.id, row.parent, row.parent_key, row.detached) == ("child", parent.number, "child#1", False)


def test_the_id_of_another_run_is_no_child(hand):
    hand.start("taken")
    parent = hand.take("parent")
    outcome = hand.advance(parent, 1, children=[hand.a_start("free"), hand.a_start("taken")])
    assert (outcome.kind, outcome.index) == ("child", 1)


def test_a_child_belongs_to_the_run_that_started_it(hand, store):
    """Whatever the change says: `parent` is the run that is advanced."""
    parent = hand.take("parent")
    hand.advance(parent, 1, children=[hand.a_start("child", parent_key="k")])
    assert store.run("child").parent == parent.number


def test_starting_a_child_and_parking_is_one_change(hand, store):
    parent = hand.take("parent")
    child = hand.a_start("child", parent_key="k")
    assert hand.advance(parent, 1, children=[child], park=Park(status="waiting")) is None
    assert store.run("parent").due_at is None
    [owned] = hand.claim()
    assert owned.id == "child"


def test_two_workers_start_one_id(store, hand):
    other = Hand(store)
    assert hand.do(hand.a_start()).created
    assert not other.do(other.a_start()).created
