"""What `commit` guarantees: all or nothing, the fence, the owner, isolation of faults, unknown outcomes."""

import apsw
import pytest

from perdure.core.entry import Entry, Note
from perdure.core.errors import StoreBusy, StoreError, StoreFull, UnknownRun
from perdure.stores.base import Blob, Conflict, End, Fenced, Lost, Park
from perdure.stores.sqlite import SqliteStore

from .hand import LEASE, Hand, a_promise, a_send, is_lost


def test_entries_come_back_as_they_were_written(hand, store):
    owned = hand.take()
    entries = [
        Entry(2, "step", "a#1", 110, b"\x00value", False, Note(attempt=2, digest=b"d", began=5, by="ünïcode")),
        Entry(3, "step", "a#2", 120, None, True, None),
        Entry(4, "timer", "", 2**62, b"", False, Note()),
    ]
    assert hand.do(hand.an_advance(owned, 0, entries=entries)) is None
    assert store.journal(owned.number, after=1) == entries
    assert store.run("run").sequence == 4


def test_only_the_advance_of_a_lost_run_is_left_out(hand, store):
    first, second, third = (hand.take(name) for name in ("first", "second", "third"))
    wrong_claim = hand.an_advance(second, 1, claim=second.claim + 1)
    wrong_place = hand.an_advance(third, 1, sequence=third.sequence + 1)
    outcomes = hand.commit(wrong_claim, hand.an_advance(first, 2), wrong_place, hand.an_advance(second, 1))
    assert [is_lost(outcome) for outcome in outcomes] == [True, False, True, False]
    assert [store.run(name).sequence for name in ("first", "second", "third")] == [3, 2, 1]


def test_a_run_of_nobody_or_of_another_worker_is_lost(hand, store):
    other = Hand(store)
    owned = hand.take()
    assert is_lost(other.advance(owned, 1))
    assert is_lost(hand.do(hand.an_advance(owned, run=999)))
    assert hand.advance(owned, park=Park(status="waiting")) is None
    assert is_lost(hand.advance(owned, 1))


def test_two_advances_of_one_run_in_one_batch_follow_each_other(hand, store):
    owned = hand.take()
    first = hand.an_advance(owned, 2)
    owned.sequence += 2
    second = hand.an_advance(owned, 3)
    stale = hand.an_advance(owned, 1)
    assert [is_lost(outcome) for outcome in hand.commit(first, second, stale)] == [False, False, True]
    assert [entry.sequence for entry in store.journal(owned.number)] == [1, 2, 3, 4, 5, 6]


def test_after_its_end_or_parking_a_run_is_lost_in_the_same_batch(hand):
    ended, parked = hand.take("ended"), hand.take("parked")
    outcomes = hand.commit(
        hand.an_advance(ended, 0, end=End(status="succeeded", value=b"v", failed=False, at=hand.at)),
        hand.an_advance(ended, 1),
        hand.an_advance(parked, 0, park=Park(status="waiting")),
        hand.an_advance(parked, 1),
    )
    assert [is_lost(outcome) for outcome in outcomes] == [False, True, False, True]


def test_a_fenced_worker_writes_nothing(hand, store):
    other = Hand(store)
    owned = hand.take()
    other.take_over(hand.number)
    with pytest.raises(Fenced):
        hand.commit(hand.an_advance(owned, 1), hand.a_start("new"))
    assert store.run("new") is None
    assert store.run("run").sequence == 1


def test_a_worker_that_does_not_exist_is_fenced(hand):
    hand.number = 99
    with pytest.raises(Fenced):
        hand.commit()


def test_each_batch_renews_the_lease_and_never_shortens_it(hand, store):
    hand.at = 500
    hand.commit()
    assert store.worker(hand.number).lease_until == 500 + LEASE
    assert store.worker(hand.number).seen_at == 500
    hand.at, hand.lease = 600, 1
    hand.commit()
    assert store.worker(hand.number).lease_until == 500 + LEASE


def test_s17_one_change_of_64_can_never_be_written(hand, store):
    owned = [hand.take(f"run-{n}") for n in range(64)]
    changes = [hand.an_advance(each, 2) for each in owned]
    changes[31].entries[1].value = "text where bytes belong"
    outcomes = hand.commit(*changes)
    assert isinstance(outcomes[31], StoreError)
    assert outcomes[:31] + outcomes[32:] == [None] * 63
    assert [store.run(each.id).sequence for each in owned] == [3] * 31 + [1] + [3] * 32
    assert hand.advance(owned[31], 1) is None, "the run itself is not lost by it"


def test_the_error_of_a_guilty_change_names_the_database(hand, store):
    [outcome] = hand.commit(hand.a_start(version="\ud800"))
    assert isinstance(outcome, StoreError)
    assert store.path in str(outcome)


def test_a_guilty_change_leaves_no_part_of_itself_behind(hand, store):
    """Its promise is fine and its published value is not; the advance before it and the one after it are written."""
    owned, other = hand.take(), hand.take("other")
    hand.send("run", "m")
    [message] = store.messages_for(owned.number)
    bad = hand.an_advance(owned, 1, consumed=[message.number], opened=[a_promise("p")], published=[("k", "no bytes")])
    before, after = hand.an_advance(other, 1), hand.an_advance(owned, 2)
    outcomes = hand.commit(before, bad, after)
    assert outcomes[0] is None and isinstance(outcomes[1], StoreError) and outcomes[2] is None
    assert store.promise("p") is None
    assert store.messages_for(owned.number) == [message]
    assert store.run("run").sequence == 3


def test_entries_with_a_gap_are_refused(hand, store):
    owned = hand.take()
    gap = hand.an_advance(owned, 2)
    gap.entries.pop(0)
    [outcome] = hand.commit(gap)
    assert isinstance(outcome, StoreError)
    assert store.run("run").sequence == 1


def test_an_outcome_for_each_change_in_order(hand):
    outcomes = hand.commit(hand.a_start(), a_send("run"), a_send("nowhere"))
    assert outcomes[0].created
    assert outcomes[1] == 1
    assert isinstance(outcomes[2], UnknownRun)


def break_commit(store, *, before):
    """Make the next COMMIT fail: before it happens, or after it has (the answer is lost)."""
    connection = store._opened.writer
    do = connection.do

    def failing(query):
        if query != "commit":
            return do(query)
        connection.do = do
        if not before:
            do(query)
        raise apsw.IOError("the answer was lost")

    connection.do = failing


def test_s16_the_answer_to_commit_is_lost_and_it_had_happened(hand, store):
    owned = hand.take()
    break_commit(store, before=False)
    assert hand.commit(hand.an_advance(owned, 1), hand.a_start("new"))[0] is None
    assert store.run("run").sequence == 2
    assert store.run("new") is not None


def test_s16_the_answer_to_commit_is_lost_and_it_had_not_happened(hand, store):
    owned = hand.take()
    advance, start = hand.an_advance(owned, 1), hand.a_start("new")
    break_commit(store, before=True)
    with pytest.raises(StoreError, match="the answer was lost"):
        hand.commit(advance, start, number=50)
    assert store.run("run").sequence == 1
    assert store.run("new") is None
    assert hand.commit(advance, start, number=50)[0] is None
    assert store.run("run").sequence == 2


def test_s16_a_batch_whose_outcome_cannot_be_read_is_not_written_twice(hand, store):
    """The connection is gone for a while after COMMIT; the committer sends the same batch again."""
    owned = hand.take()
    break_commit(store, before=False)
    connection = store._opened.writer
    row = connection.row

    def gone(query, bindings=()):
        if query == "worker_batch":
            raise apsw.IOError("still gone")
        return row(query, bindings)

    connection.row = gone
    changes = [hand.an_advance(owned, 1), hand.a_start("new"), a_send("run")]
    with pytest.raises(StoreError, match="still gone"):
        hand.commit(*changes, number=50)
    connection.row = row
    first, second, third = hand.commit(*changes, number=50)
    assert first is None and second.created and third == 1
    assert store.run("run").sequence == 2
    assert len(store.messages_for(owned.number)) == 1


def test_a_batch_number_is_written_once(hand, store):
    hand.commit(hand.a_start("one"), number=7)
    with pytest.raises(StoreError):
        hand.commit(hand.a_start("two"), number=7)
    with pytest.raises(StoreError):
        hand.commit(hand.a_start("two"), number=6)
    assert store.run("two") is None


def test_a_full_disk_fails_the_whole_batch_and_the_next_one_goes_on(hand, store):
    owned = hand.take()
    pages = store._opened.writer.script("PRAGMA page_count")[0][0]
    store._opened.writer.script(f"PRAGMA max_page_count = {pages + 2}")
    big = hand.an_advance(owned, 1)
    big.entries[0].value = bytes(100_000)
    with pytest.raises(StoreFull) as caught:
        hand.commit(hand.a_start("new"), big, number=50)
    assert store.path in str(caught.value)
    assert store.run("new") is None
    store._opened.writer.script("PRAGMA max_page_count = 100000")
    assert hand.commit(hand.a_start("new"), big, number=50)[1] is None
    assert store.run("run").sequence == 2


def test_a_locked_database_is_busy_and_free_again_later(path):
    store = SqliteStore(path, busy_timeout=0.05)
    store.open()
    hand = Hand(store)
    blocker = apsw.Connection(path)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy) as caught:
        hand.commit(hand.a_start(), number=50)
    assert path in str(caught.value)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert hand.commit(hand.a_start(), number=50)[0].created
    store.close()


def test_a_closed_store_says_so(hand, store):
    store.close()
    with pytest.raises(StoreError, match="not open"):
        hand.commit()
    with pytest.raises(StoreError, match="not open"):
        store.run("run")
    store.close()


def test_blobs_are_kept_once_and_touched_when_named_again(hand, store):
    owned = hand.take()
    blob = Blob(b"address", b"data" * 1000)
    day = 86_400_000_000
    touched = []
    for at in (100, 200, 100 + day + 1):
        hand.at = at
        assert hand.advance(owned, 1, blobs=[blob]) is None
        touched.append(store._opened.writer.script("SELECT touched_at FROM blobs")[0][0])
    assert touched == [100, 100, 100 + day + 1]
    assert store.blobs([b"address", b"missing"]) == {b"address": blob.data}


def test_a_conflict_writes_nothing_of_its_change(hand, store):
    owned = hand.take()
    hand.take("taken")
    child = hand.a_start("taken", parent=owned.number, parent_key="child#1")
    outcome = hand.advance(
        owned, 1, blobs=[Blob(b"a", b"d")], opened=[a_promise("p")], sends=[a_send("taken")], children=[child]
    )
    assert isinstance(outcome, Conflict) and outcome.kind == "child" and outcome.index == 0
    assert store.promise("p") is None
    assert store.messages_for(store.run("taken").number) == []
    assert store.blobs([b"a"]) == {}
    assert hand.advance(owned, 1) is None


def test_a_loss_is_told_apart(hand):
    owned = hand.take()
    outcome = hand.do(hand.an_advance(owned, sequence=5))
    assert isinstance(outcome, Lost) and "entry is 1" in outcome.reason


def test_crashes_are_forgotten_with_progress(hand, store):
    other = Hand(store)
    owned = other.take()
    hand.take_over(other.number)
    assert store.run("run").crashes == 1
    [owned] = hand.claim()
    assert hand.advance(owned, 1) is None
    assert store.run("run").crashes == 1
    assert hand.advance(owned, 1, progress=True) is None
    assert store.run("run").crashes == 0
    assert store.run("run").recoveries == 1


def test_a_status_is_shown_while_owned(hand, store):
    owned = hand.take()
    hand.advance(owned, status="waiting", wake_at=900)
    row = store.run("run")
    assert (row.status, row.due_at, row.owner) == ("waiting", 900, hand.number)
    hand.advance(owned, status="running")
    assert store.run("run").due_at is None
    with pytest.raises(StoreError):
        hand.advance(owned, status="paused")
