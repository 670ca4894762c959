"""Opening databases: what is refused is not touched, and says why."""

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest

from perdure.core.errors import StoreCorrupt, StoreError, StoreNewer, StoreUnavailable
from perdure.stores.base import Filter
from perdure.stores.sqlite import SqliteStore, schema

from .hand import Hand


def opened(path):
    store = SqliteStore(path)
    store.open()
    return store


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def refused(path, folder, kind):
    before = contents(folder)
    with pytest.raises(kind) as caught:
        opened(str(path))
    assert contents(folder) == before
    assert str(path) in str(caught.value)
    assert caught.value.hint
    return str(caught.value)


def patched(path, offset, number):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack(">I", number))


def test_a_database_keeps_its_identity_and_its_rows(path):
    store = opened(path)
    Hand(store).start("run")
    uid = store.uid
    store.close()
    again = opened(path)
    assert again.uid == uid and len(uid) == 32
    assert again.run("run").id == "run"
    again.open()
    again.close()
    assert opened_uid(path + "2") != uid


def opened_uid(path):
    store = opened(path)
    store.close()
    return store.uid


def test_nothing_is_done_before_open(tmp_path):
    SqliteStore(str(tmp_path / "perdure.db"))
    assert list(tmp_path.iterdir()) == []


def test_full_durability(file_store):
    for connection in (file_store._opened.writer, file_store._opened.reader):
        assert connection.script("PRAGMA synchronous") == [(2,)]
        assert connection.script("PRAGMA journal_mode") == [("wal",)]


def test_a_relative_path_does_not_follow_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = opened("perdure.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Hand(store).leave()
    store.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_a_link_leads_to_the_same_locks(file_store, path, tmp_path):
    (tmp_path / "link.db").symlink_to(path)
    other = opened(str(tmp_path / "link.db"))
    hand = Hand(other)
    assert file_store.dead_workers() == []
    other.close()
    assert file_store.dead_workers() == [hand.number]


def test_an_empty_file_becomes_a_database(tmp_path):
    (tmp_path / "empty.db").touch()
    store = opened(str(tmp_path / "empty.db"))
    assert store.check() == []
    store.close()


def test_two_stores_of_one_process_share_a_file(file_store, path):
    second = opened(path)
    assert second.uid == file_store.uid
    Hand(second).start("run")
    assert file_store.run("run")
    second.close()
    assert Hand(file_store).start("again")


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("content", [b"not a database, " * 500, b"x", b"SQLite format 3\0 and then it was cut"])
def test_another_kind_of_file_is_refused_untouched(tmp_path, content):
    path = tmp_path / "other.db"
    path.write_bytes(content)
    assert "not touched" in refused(path, tmp_path, StoreCorrupt)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_another_program_is_refused_untouched(tmp_path, mode):
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    connection.execute("CREATE TABLE mine (a); INSERT INTO mine VALUES (1)")
    connection.close()
    assert "another program" in refused(path, tmp_path, StoreCorrupt)


def test_the_database_of_another_program_in_use_is_refused(tmp_path):
    """All of it is in its -wal file still: seen only under the lock, and not written either."""
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = wal").fetchall()
    connection.execute("CREATE TABLE mine (a); INSERT INTO mine VALUES (1)")
    before = path.read_bytes(), (tmp_path / "other.db-wal").read_bytes()
    with pytest.raises(StoreCorrupt):
        opened(str(path))
    assert (path.read_bytes(), (tmp_path / "other.db-wal").read_bytes()) == before
    assert connection.execute("SELECT a FROM mine").fetchall() == [(1,)]
    connection.close()


def test_an_empty_database_marked_by_another_program_is_refused(tmp_path):
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA application_id = 7")
    connection.close()
    refused(path, tmp_path, StoreCorrupt)


def test_a_newer_database_is_refused_untouched(tmp_path):
    path = tmp_path / "perdure.db"
    opened(str(path)).close()
    patched(path, 60, schema.VERSION + 1)
    text = refused(path, tmp_path, StoreNewer)
    assert str(schema.VERSION + 1) in text and "upgrade" in text


def test_a_newer_database_whose_mark_is_still_in_the_wal_is_refused(file_store, path):
    file_store._opened.writer.script(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(StoreNewer):
        opened(path)


def test_a_damaged_database_is_refused_untouched(tmp_path):
    path = tmp_path / "perdure.db"
    opened(str(path)).close()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 8000 + content[8100:])
    refused(path, tmp_path, StoreCorrupt)


def test_damage_found_later_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "perdure.db"
    store = opened(str(path))
    hand = Hand(store)
    for n in range(50):
        hand.start(f"run-{n}", input=bytes(2000))
    store.close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    with pytest.raises(StoreError) as caught:
        store = opened(str(path))
        try:
            store.list_runs(Filter())
        finally:
            store.close()
    assert isinstance(caught.value, StoreCorrupt) and str(path) in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "missing" / "perdure.db"
    assert "mkdir" in refused(path, tmp_path, StoreUnavailable)


def test_a_folder_is_no_database(tmp_path):
    (tmp_path / "folder").mkdir()
    refused(tmp_path / "folder", tmp_path, StoreUnavailable)


def test_a_path_below_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file" / "perdure.db", tmp_path, StoreUnavailable)


FORBIDDEN = """
import os, sys
from perdure.core.errors import StoreUnavailable
from perdure.stores.sqlite import SqliteStore

SqliteStore(":memory:").open()  # all that is needed is loaded
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for path in sys.argv[1:]:
    try:
        SqliteStore(path).open()
    except StoreUnavailable as error:
        print(path in str(error) and "permission" in str(error).lower(), bool(error.hint))
    else:
        print("opened", path)
"""


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="needs users")
def test_places_where_one_may_not_write():
    with tempfile.TemporaryDirectory() as place:  # not pytest's folder, which other users may not even enter
        folder = Path(place)
        opened(str(folder / "there.db")).close()
        (folder / "there.db").chmod(0o600 if os.geteuid() == 0 else 0o000)
        folder.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", FORBIDDEN, str(folder / "new.db"), str(folder / "there.db")],
            capture_output=True,
            text=True,
            timeout=60,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        folder.chmod(0o755)
    assert done.stdout.split() == ["True"] * 4, done.stdout + done.stderr


# ── migrations ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_older_database_is_brought_up_to_date(path, monkeypatch):
    opened(path).close()
    more = [*schema._MIGRATIONS, "CREATE TABLE more (a)", "ALTER TABLE more ADD COLUMN b"]
    monkeypatch.setattr(schema, "_MIGRATIONS", more)
    monkeypatch.setattr(schema, "VERSION", len(more))
    store = opened(path)
    store._opened.writer.script("INSERT INTO more VALUES (1, 2)")
    assert store._opened.writer.script("PRAGMA user_version") == [(len(more),)]
    uid = store.uid
    store.close()
    again = opened(path)
    assert again.uid == uid
    again.close()


def test_a_migration_that_fails_leaves_the_old_version(path, monkeypatch):
    opened(path).close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_MIGRATIONS", [*schema._MIGRATIONS, "CREATE TABLE more (a)", "nonsense"])
        patch.setattr(schema, "VERSION", schema.VERSION + 2)
        with pytest.raises(StoreError):
            opened(path)
    store = opened(path)
    assert store.check() == []
    assert ("more",) not in store._opened.reader.rows("tables")
    store.close()
