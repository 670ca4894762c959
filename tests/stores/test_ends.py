"""How runs end, and how they are cancelled with their families."""

import pytest

from perdure.core.errors import StoreError
from perdure.stores.base import End, Park
from perdure.stores.rows import Blocked

from .hand import Hand, a_promise, is_lost


def an_end(hand, status="succeeded", value=b"result", **options):
    return End(**{"status": status, "value": value, "failed": status != "succeeded", "at": hand.at} | options)


def family(hand, *, grandchild=True):
    """A parent, its child and grandchild, all owned by the hand."""
    parent = hand.take("parent")
    hand.advance(parent, 1, children=[hand.a_start("child", parent_key="child#1")])
    [child] = hand.claim()
    if not grandchild:
        return parent, child
    hand.advance(child, 1, children=[hand.a_start("grandchild", parent_key="child#1")])
    [last] = hand.claim()
    return parent, child, last


def kinds(store, owned):
    return [message.kind for message in store.messages_for(owned.number)]


def test_an_end_leaves_nothing_open(hand, store):
    owned = hand.take()
    hand.send("run")
    hand.advance(owned, 1, opened=[a_promise("p")])
    hand.at = 300
    assert hand.advance(owned, 1, end=an_end(hand, active=42)) is None
    row = store.run("run")
    assert (row.status, row.result, row.failed, row.ended_at, row.active) == ("succeeded", b"result", False, 300, 42)
    assert (row.owner, row.due_at) == (0, None)
    assert store.messages_for(owned.number) == []
    assert store.promise("p").state == "cancelled"
    assert is_lost(hand.advance(owned, 1))


def test_an_end_without_a_value(hand, store):
    owned = hand.take()
    hand.advance(owned, 1, end=an_end(hand, "cancelled", None))
    row = store.run("run")
    assert (row.status, row.result, row.failed) == ("cancelled", None, True)


def test_a_run_ends_in_a_final_state_only(hand, store):
    owned = hand.take()
    with pytest.raises(StoreError):
        hand.advance(owned, 1, end=an_end(hand, "waiting"))
    assert store.run("run").status == "running"


def test_a_child_tells_its_parent(hand, store):
    parent, child = family(hand, grandchild=False)
    hand.advance(parent, park=Park(status="waiting"))
    hand.advance(child, 1, end=an_end(hand, "failed", b"error"))
    [again] = hand.claim()
    [message] = again.messages
    assert again.id == "parent"
    assert (message.kind, message.name, message.key, message.value) == ("child_ended", "failed", "child#1", b"error")
    assert (message.failed, message.by) == (True, "child")


def test_a_child_of_a_parent_that_has_ended_tells_nobody(hand, store):
    parent, child = family(hand, grandchild=False)
    hand.advance(parent, 1, end=an_end(hand))
    assert kinds(store, child) == ["cancel"]
    hand.advance(child, 1, end=an_end(hand))
    assert store.messages_for(parent.number) == []


def test_the_end_of_a_parent_asks_its_descendants_to_end(hand, store):
    parent, child, grandchild = family(hand)
    hand.advance(parent, 1, end=an_end(hand))
    assert kinds(store, child) == kinds(store, grandchild) == ["cancel"]
    assert store.run("child").cancel_at == store.run("grandchild").cancel_at == hand.at
    assert store.run("child").status == "running"


def test_p60_cancelling_is_recursive(hand, store):
    parent, child, grandchild = family(hand)
    hand.advance(grandchild, 1, opened=[a_promise("p")])
    hand.at = 300
    assert hand.cancel("parent", reason="too dear") == "running"
    for owned in (parent, child, grandchild):
        [message] = store.messages_for(owned.number)
        assert (message.kind, message.by, message.name) == ("cancel", "ann", "too dear")
        assert store.run(owned.id).cancel_at == 300
    assert store.promise("p").state == "cancelled"


def test_a_cancellation_is_recorded_once(hand, store):
    _, child, _ = family(hand)
    hand.cancel("child")
    hand.at = 400
    assert hand.cancel("child") == "running"
    assert hand.cancel("parent") == "running"
    assert kinds(store, child) == ["cancel"]
    assert store.run("child").cancel_at == 100
    assert store.run("parent").cancel_at == 400


def test_detached_children_are_spared(hand, store):
    parent = hand.take("parent")
    hand.advance(parent, 1, children=[hand.a_start("free", detached=True), hand.a_start("bound")])
    hand.cancel("parent")
    assert store.run("free").status == "queued" and store.run("free").cancel_at == 0
    assert store.run("bound").status == "cancelled"


@pytest.mark.parametrize("options", [{}, {"due_at": 900}])
def test_a_run_that_never_began_is_cancelled_at_once(hand, store, options):
    run = hand.start(**options)
    assert hand.cancel() == run.status
    row = store.run("run")
    assert (row.status, row.ended_at, row.due_at, row.cancel_at) == ("cancelled", hand.at, None, hand.at)
    assert hand.cancel() == "cancelled"


def test_a_run_paused_before_it_began_is_cancelled_at_once(hand, store):
    hand.start()
    hand.pause()
    hand.cancel()
    assert store.run("run").status == "cancelled"


def test_a_run_handed_back_has_begun_and_unwinds(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="queued"))
    assert hand.cancel() == "queued"
    assert store.run("run").status == "queued"
    [again] = hand.claim()
    assert [message.kind for message in again.messages] == ["cancel"]


def test_a_blocked_run_is_cancelled_at_once(hand, store):
    parent, child = family(hand, grandchild=False)
    hand.advance(child, park=Park(status="blocked", blocked=Blocked(code="PRD-402", reason="open()")))
    assert hand.cancel("child") == "blocked"
    assert store.run("child").status == "cancelled"
    assert kinds(store, parent) == ["child_ended"]


def test_a_waiting_run_is_woken_by_its_cancellation(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="waiting", wake_at=900))
    hand.cancel()
    assert store.run("run").due_at == hand.at
    assert [each.id for each in hand.claim()] == ["run"]


def test_s20_children_cancelled_before_they_began_are_reported(hand, store):
    """The parent unwinds and learns of each child's end."""
    parent = hand.take("parent")
    children = [hand.a_start(f"child-{n}", parent_key=f"child#{n}") for n in range(3)]
    hand.advance(parent, 3, children=children)
    hand.cancel("parent")
    messages = store.messages_for(parent.number)
    assert [message.kind for message in messages] == ["cancel", "child_ended", "child_ended", "child_ended"]
    assert [message.key for message in messages[1:]] == ["child#0", "child#1", "child#2"]


@pytest.mark.parametrize("park", [None, Park(status="waiting", inbox=1)])
def test_p60_a_child_started_under_a_cancelled_parent_is_born_cancelled(hand, store, park):
    parent = hand.take("parent")
    Hand(store).cancel("parent")
    assert hand.advance(parent, 1, children=[hand.a_start("child", parent_key="k")], park=park) is None
    child = store.run("child")
    assert (child.status, child.ended_at, child.due_at) == ("cancelled", hand.at, None)
    told = store.messages_for(parent.number)[-1]
    assert (told.kind, told.name, told.key, told.value, told.failed) == ("child_ended", "cancelled", "k", None, True)
    if park:
        assert store.run("parent").due_at == hand.at, "it is woken by what it left for itself"


def test_p60_a_grandchild_under_a_cancelled_grandparent(hand, store):
    _, child = family(hand, grandchild=False)
    hand.cancel("parent")
    hand.advance(child, 1, children=[hand.a_start("late")])
    assert store.run("late").status == "cancelled"


def test_a_detached_child_under_a_cancelled_parent_starts(hand, store):
    parent = hand.take("parent")
    hand.cancel("parent")
    hand.advance(parent, 1, children=[hand.a_start("free", detached=True)])
    assert store.run("free").status == "queued"


def test_a_start_for_a_parent_that_has_ended_is_born_cancelled(hand, store):
    parent = hand.take("parent")
    hand.advance(parent, 1, end=an_end(hand))
    assert hand.start("late", parent=parent.number).status == "cancelled"


def test_cancelling_thousands_of_children_is_one_transaction(hand, store):
    parent = hand.take("parent")
    hand.advance(parent, 1, children=[hand.a_start(f"child-{n}", parent_key=f"k{n}") for n in range(2_000)])
    hand.cancel("parent")
    assert store.count_runs() == {"cancelled": 2_000, "running": 1}
