"""`check` finds what is wrong."""

from pathlib import Path

import pytest

from perdure.core.entry import Entry, Note
from perdure.core.payload import pack
from perdure.stores.base import Blob, End

from .hand import Hand, a_promise

LONG, BLOBS = pack(b"[" + b",".join(b'"%s%d"' % (b"x" * 2000, n) for n in range(100)) + b"]", cap=1 << 30)


@pytest.fixture
def busy(hand, store):
    """A store with some of everything, in order."""
    owned = hand.take(messages=[])
    hand.advance(owned, 3, opened=[a_promise("p")], published=[("k", b"v")], replies=[("u", b"v")])
    hand.advance(owned, 1, blobs=BLOBS, entries=[_entry(owned, LONG)])
    hand.send("run")
    done = hand.take("done")
    hand.advance(done, 1, end=End(status="succeeded", value=b"v", failed=False, at=hand.at))
    hand.start("queued", due_at=900, tags=["t"])
    return store


def _entry(owned, value, **note):
    return Entry(owned.sequence + 1, "step", "k", 100, value, False, Note(**note) if note else None)


def test_a_healthy_database(busy):
    assert len(BLOBS) > 100, "indexes among them"
    assert busy.check() == []


@pytest.mark.parametrize(
    "damage, said",
    [
        ("DELETE FROM entries WHERE place & 4294967295 = 2", "the journal of run 1 has"),
        ("DELETE FROM entries WHERE place = 1 << 32 | 1", "the journal of run 1 has"),
        ("INSERT INTO entries (place, kind, key, time, failed) VALUES (99 << 32 | 1, 'step', '', 1, 0)", "entries has 1 rows of run 99"),
        ("UPDATE inbox SET run = 99", "inbox has 1 rows of run 99"),
        ("UPDATE promises SET run = 99", "promises has 1 rows of run 99"),
        ("UPDATE published SET run = 99", "published has 1 rows of run 99"),
        ("UPDATE run_tags SET run = 99", "run_tags has 1 rows of run 99"),
        ("DELETE FROM run_values WHERE run = 1", "run run has no arguments"),
        ("UPDATE entries SET note = x'ff00' WHERE place = 1 << 32 | 1", "the note of entry 1 of run 1 cannot be read"),
        ("UPDATE entries SET value = x'03ffff' WHERE place = 1 << 32 | 2", "entry 2 of run 1 cannot be read"),
        ("UPDATE runs SET owner = 0 WHERE id = 'run'", "run run is running without an owner"),
        ("UPDATE workers SET ended_at = 5", "run run is owned by a worker that has ended"),
        ("UPDATE runs SET due_at = 5 WHERE id = 'done'", "run done has ended but is due"),
        ("UPDATE runs SET status = 'waiting' WHERE id = 'done'", "run done has a status that does not fit its end"),
    ],
)  # fmt: skip
def test_damage_is_named(busy, damage, said):
    busy._opened.writer.script(damage)
    found = busy.check()
    assert any(line.startswith(said) for line in found), found


def test_each_missing_piece_is_found_however_deep(busy):
    addresses = [row[0] for row in busy._opened.writer.script("SELECT address FROM blobs")]
    for address in addresses[::10]:
        busy._opened.writer.script(f"UPDATE blobs SET address = x'{'00' * 32}' WHERE address = x'{address.hex()}'")
        assert any(address.hex() in line for line in busy.check())
        busy._opened.writer.script(f"UPDATE blobs SET address = x'{address.hex()}' WHERE address = x'{'00' * 32}'")
    assert busy.check() == []


def test_missing_pieces_of_stored_arguments_are_found(hand, store):
    owned = hand.take()
    hand.advance(owned, 1, entries=[_entry(owned, b"v", arguments=LONG)])
    assert any(line.startswith("the arguments of entry 2 of run 1 names the piece") for line in store.check())
    owned.sequence = 2
    hand.advance(owned, 1, blobs=BLOBS)
    assert store.check() == []


def test_a_piece_named_twice_is_kept_once(hand, store):
    owned = hand.take()
    hand.advance(owned, 1, blobs=[Blob(b"a", b"d"), Blob(b"a", b"d")])
    assert store.info()["rows"]["blobs"] == 1


def test_damage_of_the_file_is_found(file_store, path):
    hand = Hand(file_store)
    for n in range(20):
        hand.start(f"run-{n}")
    file_store.close()
    content = Path(path).read_bytes()
    assert content.count(b"run-7") == 2, "in the table and in the index of ids"
    Path(path).write_bytes(content.replace(b"run-7", b"run-X", 1))
    file_store.open()
    [*_, line] = file_store.check()
    assert "missing from index" in line
