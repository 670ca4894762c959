"""`perdure db`, and every bad place for a database."""

import os
import sqlite3
import sys

import pytest

READING = [
    ["runs", "list"],
    ["runs", "show", "x"],
    ["runs", "why", "x"],
    ["runs", "cancel", "x"],
    ["runs", "send", "x", "note"],
    ["inbox"],
    ["answer", "x", "yes"],
    ["db", "info"],
    ["db", "check"],
]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_no_command_makes_a_database_that_is_not_there(perdure, tmp_path, command):
    missing = tmp_path / "missing.db"
    err = perdure(*command, "--db", f"sqlite:///{missing}", code=3).err
    assert "PRD-604" in err and str(missing) in err.replace("\n", "") and "it was not made" in err and "--db" in err
    assert list(tmp_path.glob("missing*")) == []


@pytest.mark.parametrize("command", [*READING, ["db", "upgrade"]], ids=" ".join)
def test_a_folder_is_no_database(perdure, tmp_path, command):
    (tmp_path / "folder").mkdir()
    assert "PRD-604" in perdure(*command, "--db", f"sqlite:///{tmp_path}/folder", code=1).err
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("command", [*READING, ["db", "upgrade"]], ids=" ".join)
def test_a_file_that_is_no_database_is_left_alone(perdure, tmp_path, command):
    file = tmp_path / "letter.db"
    file.write_text("dear database, " * 50)
    assert "PRD-602" in perdure(*command, "--db", f"sqlite:///{file}", code=1).err
    assert file.read_text() == "dear database, " * 50
    assert [each.name for each in tmp_path.glob("letter*")] == ["letter.db"]


def test_another_programs_database_is_left_alone(perdure, tmp_path):
    file = tmp_path / "other.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE recipes (name)")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    assert "another program's" in perdure("runs", "list", "--db", f"sqlite:///{file}", code=1).err
    assert file.read_bytes() == before


def test_a_newer_database_is_left_alone(perdure, url):
    file = url.removeprefix("sqlite:///")
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    for command in (["runs", "list"], ["db", "upgrade"]):
        err = perdure(*command, code=1).err
        assert "PRD-603" in err and "999" in err and "upgrade perdure" in err


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not hold for this user")
def test_a_folder_that_cannot_be_written(perdure, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    err = perdure("db", "upgrade", "--db", f"sqlite:///{folder}/new.db", code=1).err
    assert "PRD-604" in err and "permission" in err


def test_a_folder_that_is_not_there(perdure, tmp_path):
    err = perdure("db", "upgrade", "--db", f"sqlite:///{tmp_path}/none/new.db", code=1).err
    assert "PRD-604" in err and "mkdir -p" in err


@pytest.mark.parametrize("url", ["mysql://host/db", "perdure.db", "sqlite://host/file.db"])
def test_urls_that_mean_nothing(perdure, url):
    err = perdure("runs", "list", "--db", url, code=1).err
    assert "PRD-703" in err and "sqlite:///" in err


def test_memory_belongs_to_one_process(perdure):
    assert "PRD-703" in perdure("runs", "list", "--db", "sqlite:///:memory:", code=1).err


def test_upgrade_makes_a_database_and_may_be_repeated(perdure, tmp_path):
    url = f"sqlite:///{tmp_path}/new.db"
    first = perdure("db", "upgrade", "--db", url).out
    assert "schema version" in first and first == perdure("db", "upgrade", "--db", url).out
    assert "there are no runs yet" in perdure("runs", "list", "--db", url).err


def test_info_counts(perdure):
    found = perdure("db", "info", "--json").json
    assert found["runs"]["failed"] == 1 and found["rows"]["runs"] == sum(found["runs"].values())
    assert found["workers"] == [] and found["schema"] >= 1 and found["bytes"] > 0
    out = perdure("db", "info").out
    assert "KiB" in out and "failed" in out


def test_check_finds_nothing_wrong(perdure):
    assert perdure("db", "check").out == "nothing is wrong with it\n"
    assert perdure("db", "check", "--json").json == {"problems": []}


def test_check_names_what_is_wrong_and_exits_with_1(perdure, url):
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.execute("DELETE FROM entries WHERE rowid IN (SELECT min(rowid) FROM entries)")
    connection.commit()
    connection.close()
    result = perdure("db", "check", code=1)
    assert "journal of run" in result.out and "nothing was changed" in result.err
    assert perdure("db", "check", "--json", code=1).json["problems"]
