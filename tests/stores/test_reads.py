"""Reading: journals, lists, counts, facts."""

import apsw
import pytest

from perdure.core.entry import Entry
from perdure.stores.base import End, Filter

from .hand import Hand, is_lost


def ids(rows):
    return [row.id for row in rows]


def test_parts_of_a_journal(hand, store):
    owned = hand.take()
    hand.advance(owned, 9)
    assert [entry.sequence for entry in store.journal(owned.number)] == list(range(1, 11))
    assert [entry.sequence for entry in store.journal(owned.number, after=7)] == [8, 9, 10]
    assert [entry.sequence for entry in store.journal(owned.number, after=2, limit=3)] == [3, 4, 5]
    assert store.journal(owned.number, after=10) == []
    assert store.journal(999) == []


def test_journals_of_several_runs_do_not_mix(hand, store):
    runs = [hand.take(f"run-{n}") for n in range(4)]
    for round_ in range(3):
        hand.commit(*(hand.an_advance(owned, entries=[Entry(2 + round_, "step", owned.id, 100)]) for owned in runs))
        for owned in runs:
            owned.sequence += 1
    wanted = [runs[2].number, runs[0].number, 999]
    journals = store.journals(wanted)
    assert list(journals) == wanted
    assert journals[999] == []
    for owned in (runs[0], runs[2]):
        assert journals[owned.number] == store.journal(owned.number)
        assert {entry.key for entry in journals[owned.number][1:]} == {owned.id}
        assert [entry.sequence for entry in journals[owned.number]] == [1, 2, 3, 4]
    assert store.journals([]) == {}


def test_reads_see_what_is_committed_only(hand, store):
    owned = hand.take()
    assert is_lost(hand.do(hand.an_advance(owned, 1, claim=9)))
    assert len(store.journal(owned.number)) == 1


def test_runs_by_number(hand, store):
    first, second = hand.start("first"), hand.start("second")
    assert store.runs_by_number([second.number, 999, first.number]) == [first, second]
    assert store.runs_by_number([]) == []
    assert store.run("nowhere") is None


def test_children_oldest_first(hand, store):
    parent = hand.take("parent")
    hand.advance(parent, 1, children=[hand.a_start(name) for name in ("c", "a", "b")])
    assert ids(store.children(parent.number)) == ["c", "a", "b"]
    assert store.children(store.run("a").number) == []
    assert store.children(0) == []


def test_lists_of_runs(hand, store):
    for n in range(6):
        hand.at = 100 + n
        tags = ["even", "all"] if n % 2 == 0 else ["all"]
        hand.start(f"{'ab'[n % 2]}-{n}", workflow="one" if n < 3 else "two", tags=tags)
    hand.claim(only=store.run("a-4").number)

    def listed(**filter):
        return ids(store.list_runs(Filter(**filter)))

    assert listed() == ["b-5", "a-4", "b-3", "a-2", "b-1", "a-0"]
    assert listed(limit=2) == ["b-5", "a-4"]
    assert listed(limit=2, before=store.run("a-4").number) == ["b-3", "a-2"]
    assert listed(statuses=["running"]) == ["a-4"]
    assert listed(statuses=["running", "queued"], limit=2) == ["b-5", "a-4"]
    assert listed(workflow="one") == ["a-2", "b-1", "a-0"]
    assert listed(tags=["even"]) == ["a-4", "a-2", "a-0"]
    assert listed(tags=["even", "all", "even"]) == ["a-4", "a-2", "a-0"]
    assert listed(tags=["even", "odd"]) == []
    assert listed(id_prefix="b-") == ["b-5", "b-3", "b-1"]
    assert listed(created_from=102, created_until=104) == ["b-3", "a-2"]
    assert listed(workflow="two", tags=["even"], statuses=["queued"]) == []


def test_counts_per_status(hand, store):
    for n in range(3):
        hand.start(f"run-{n}")
    hand.start("later", due_at=900)
    owned = hand.take("done")
    hand.advance(owned, 1, end=End(status="succeeded", value=None, failed=False, at=hand.at))
    assert store.count_runs() == {"queued": 3, "delayed": 1, "succeeded": 1}


def test_published_of_a_run_that_published_nothing(store):
    assert store.published(1) == []
    assert store.messages_for(1) == []


def test_facts_for_people(hand, store):
    hand.start()
    facts = store.info()
    assert facts["path"] == store.path
    assert facts["uid"] == store.uid
    assert facts["schema"] == 1
    assert facts["bytes"] > 0
    assert facts["rows"]["runs"] == 1 and facts["rows"]["workers"] == 1


def test_a_reader_cannot_write(file_store):
    with pytest.raises(apsw.ReadOnlyError):
        file_store._opened.reader.script("DELETE FROM runs")


def test_reading_goes_on_while_a_batch_is_written(file_store, path):
    """Readers are apart: another process that holds the write lock does not hold them."""
    hand = Hand(file_store)
    hand.start()
    blocker = apsw.Connection(path)
    blocker.execute("BEGIN IMMEDIATE; UPDATE runs SET priority = 9")
    assert file_store.run("run").priority == 0
    blocker.execute("COMMIT")
    assert file_store.run("run").priority == 9
    blocker.close()
