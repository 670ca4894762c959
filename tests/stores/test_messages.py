"""Inboxes: nothing is lost, nothing comes twice, everything wakes."""

import pytest

from perdure.core.errors import RunEnded, UnknownRun
from perdure.stores.base import Conflict, End, Park

from .hand import Hand, a_send


def test_p16_a_message_waits_for_the_run_to_begin(hand):
    hand.start()
    hand.send("run", "early", value=b"v", by="ann", uid="u", failed=False)
    [owned] = hand.claim()
    [message] = owned.messages
    assert (message.name, message.value, message.by, message.uid, message.at) == ("early", b"v", "ann", "u", hand.at)
    assert owned.row.inbox == 1


def test_a_message_makes_a_parked_run_due(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="waiting", wake_at=900))
    hand.at = 200
    hand.send("run")
    row = store.run("run")
    assert (row.due_at, row.inbox, row.status) == (200, 1, "waiting")
    hand.at = 300
    hand.send("run")
    assert store.run("run").due_at == 200


def test_s12_a_message_sent_in_the_instant_of_parking_wakes_the_run(hand, store):
    owned = hand.take()
    sender = Hand(store)
    sender.send("run")
    outcome = hand.advance(owned, 1, park=Park(status="waiting", inbox=owned.inbox))
    assert isinstance(outcome, Conflict) and outcome.kind == "inbox"
    row = store.run("run")
    assert (row.owner, row.sequence) == (hand.number, 1), "nothing of the change was written"
    [message] = store.messages(hand.number, 0)
    assert hand.advance(owned, 1, consumed=[message.number], park=Park(status="waiting", inbox=1)) is None
    assert store.run("run").due_at is None


def test_s12_the_other_way_round(hand, store):
    owned = hand.take()
    hand.advance(owned, 1, park=Park(status="waiting", inbox=owned.inbox))
    Hand(store).send("run")
    assert [each.id for each in hand.claim()] == ["run"]


def test_the_message_and_the_parking_in_one_batch(hand):
    owned = hand.take()
    number, outcome = hand.commit(a_send("run"), hand.an_advance(owned, 1, park=Park(status="waiting")))
    assert number > 0 and isinstance(outcome, Conflict)


def test_a_run_that_sends_to_itself_and_parks_is_due_at_once(hand, store):
    """The message is its own: it must neither be refused for it for ever nor sleep over it."""
    owned = hand.take()
    assert hand.advance(owned, 1, sends=[a_send("run")], park=Park(status="waiting", wake_at=900)) is None
    assert store.run("run").due_at == hand.at
    [owned] = hand.claim()
    assert len(owned.messages) == 1


def test_consuming_and_recording_is_one_change(hand, store):
    owned = hand.take()
    first, second = hand.send("run", "one"), hand.send("run", "two")
    assert hand.advance(owned, 1, consumed=[first]) is None
    assert [message.number for message in store.messages_for(owned.number)] == [second]
    outcome = hand.advance(owned, 1, consumed=[first, second])
    assert isinstance(outcome, Conflict) and outcome.kind == "consumed"
    assert [message.number for message in store.messages_for(owned.number)] == [second]
    assert store.run("run").sequence == 2


def test_the_message_of_another_run_cannot_be_consumed(hand, store):
    owned = hand.take()
    hand.start("other")
    number = hand.send("other")
    assert isinstance(hand.advance(owned, 1, consumed=[number]), Conflict)
    assert store.messages_for(store.run("other").number)


def test_s19_a_message_comes_once_even_after_it_was_consumed(hand, store):
    owned = hand.take()
    number = hand.send("run", uid="webhook-1")
    assert hand.send("run", uid="webhook-1") == 0
    hand.advance(owned, 1, consumed=[number])
    assert hand.send("run", uid="webhook-1") == 0
    assert store.messages_for(owned.number) == []
    assert store.run("run").inbox == 1
    hand.start("other")
    assert hand.send("other", uid="webhook-1") > 0, "another run has its own"


def test_a_message_for_nobody(hand):
    with pytest.raises(UnknownRun):
        hand.send("nowhere")
    owned = hand.take()
    hand.send("run", uid="u")
    hand.advance(owned, 1, end=End(status="succeeded", value=None, failed=False, at=hand.at))
    with pytest.raises(RunEnded):
        hand.send("run")
    assert hand.send("run", uid="u") == 0, "that one had arrived"


def test_a_run_sends_to_another(hand, store):
    owned = hand.take()
    hand.start("other")
    assert hand.advance(owned, 1, sends=[a_send("other", "hello")]) is None
    [message] = store.messages_for(store.run("other").number)
    assert message.name == "hello"
    outcome = hand.advance(owned, 1, sends=[a_send("other"), a_send("nowhere")])
    assert (outcome.kind, outcome.index) == ("send", 1)
    assert len(store.messages_for(store.run("other").number)) == 1


def test_a_child_can_be_sent_to_in_the_change_that_starts_it(hand, store):
    owned = hand.take()
    assert hand.advance(owned, 2, children=[hand.a_start("child")], sends=[a_send("child")]) is None
    assert len(store.messages_for(store.run("child").number)) == 1


def test_a_worker_sees_the_new_messages_of_its_runs_only(hand, store):
    other = Hand(store)
    mine, theirs = hand.take("mine"), other.take("theirs")
    first = hand.send("mine", "one")
    hand.send("theirs", "two")
    third = hand.send("mine", "three")
    assert [message.number for message in store.messages(hand.number, 0)] == [first, third]
    assert [message.number for message in store.messages(hand.number, first)] == [third]
    assert store.messages(hand.number, third) == []
    hand.advance(mine, park=Park(status="queued", inbox=2))
    assert store.messages(hand.number, 0) == []
    assert theirs


def test_numbers_grow_though_messages_are_consumed(hand):
    owned = hand.take()
    seen = []
    for _ in range(5):
        seen.append(hand.send("run"))
        hand.advance(owned, 1, consumed=[seen[-1]])
    assert seen == sorted(set(seen))


def test_replies_and_published_values(hand, store):
    owned = hand.take()
    hand.advance(owned, 1, replies=[("uid", b"first")], published=[("progress", b"1"), ("state", b"x")])
    hand.at = 200
    hand.advance(owned, 1, replies=[("uid", b"second")], published=[("progress", b"2")])
    assert store.reply("uid") == b"first"
    assert store.reply("other") is None
    assert [(row.key, row.value, row.at) for row in store.published(owned.number)] == [
        ("progress", b"2", 200),
        ("state", b"x", 100),
    ]
