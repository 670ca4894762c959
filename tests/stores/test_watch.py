"""`changed`: a hint that another process has committed."""

import pytest

from perdure.stores.sqlite import SqliteStore

from .hand import Hand


@pytest.fixture
def other(path, file_store):
    store = SqliteStore(path)
    store.open()
    yield store
    store.close()


def settled(store):
    """Ask until nothing is new."""
    for _ in range(3):
        store.changed()


def test_nothing_has_changed(file_store):
    hand = Hand(file_store)
    settled(file_store)
    assert not any(file_store.changed() for _ in range(10))
    for n in range(5):
        hand.start(f"run-{n}")
        assert not file_store.changed(), "its own commits do not count"


def test_each_foreign_commit_is_seen_once(file_store, other):
    theirs = Hand(other)
    settled(file_store)
    for n in range(50):
        theirs.start(f"run-{n}")
        seen = [file_store.changed() for _ in range(3)]
        assert seen.count(True) == 1, "however coarse the clock of the file system is"


def test_a_foreign_commit_between_ones_of_our_own_is_seen(file_store, other):
    ours, theirs = Hand(file_store), Hand(other)
    settled(file_store)
    ours.start("one")
    theirs.start("two")
    ours.start("three")
    assert file_store.changed()
    assert not file_store.changed()


def test_while_a_batch_is_written_the_question_waits_for_nothing(file_store, other):
    theirs = Hand(other)
    settled(file_store)
    theirs.start("run")
    with file_store._write_lock:
        assert not file_store.changed()
    assert file_store.changed()


def test_an_idle_worker_asks_the_database_nothing(file_store):
    settled(file_store)
    asked = []
    file_store._opened.writer._raw.trace_v2(1, asked.append)
    file_store._opened.reader._raw.trace_v2(1, asked.append)
    for _ in range(100):
        file_store.changed()
        file_store.dead_workers()
    assert asked == []


def test_in_memory_nobody_else_commits(store):
    hand = Hand(store)
    hand.start()
    if store.path == ":memory:":
        assert not store.changed()


def test_a_closed_store_has_no_news(file_store):
    file_store.close()
    assert not file_store.changed()


def test_a_foreign_checkpoint_is_no_news_for_long(file_store, other):
    settled(file_store)
    other._opened.writer.script("PRAGMA wal_checkpoint(TRUNCATE)")
    settled(file_store)
    assert not file_store.changed()
