"""The SQL itself: every statement is named, used, says what it is for, and finds its rows by an index."""

import json
import re
from importlib import resources

import apsw
import pytest

from perdure.stores.sqlite import SqliteStore
from perdure.stores.sqlite.queries import QUERIES, parse

SOURCES = [file.read_text() for file in resources.files("perdure.stores.sqlite").iterdir() if file.name.endswith(".py")]


def test_every_statement_is_used():
    unused = [name for name in QUERIES if not any(f'"{name}"' in text for text in SOURCES)]
    built = {name for name in unused if name.endswith("_part") and any("_part" in text for text in SOURCES)}
    assert not set(unused) - built


def test_every_statement_that_is_asked_for_exists():
    call = re.compile(r"\.(?:rows|row|change|insert|many|do|rows_where)\(\s*\"(\w+)\"")
    asked = {name for text in SOURCES for name in call.findall(text)}
    assert asked - set(QUERIES) == set()
    assert len(asked) > 50


def test_every_statement_compiles(store):
    for name, text in QUERIES.items():
        if re.match(r"(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text):
            plan(store, text.replace("{conditions}", "TRUE"))
        elif text.startswith(("r.", "p.")):
            kind = "list_runs" if text.startswith("r.") else "list_promises"
            plan(store, QUERIES[kind].replace("{conditions}", text))
        else:
            assert text.split()[0] in {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA"}, name


@pytest.mark.parametrize(
    "text, said",
    [
        ("-- name: a\nSELECT 1", "does not say"),
        ("-- name: a\n-- purpose", "is empty"),
        ("-- name: a\n-- one\nSELECT 1\n-- name: a\n-- two\nSELECT 2", "twice"),
    ],
)
def test_a_statement_without_purpose_or_text_or_a_name_of_its_own_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse(text)


def test_fragments():
    text = "-- fragment: columns\na, b\n\n-- name: one\n-- Why.\nSELECT {columns}\nFROM t\n\n-- a heading\n"
    assert parse(text) == {"one": "SELECT a, b\nFROM t"}


@pytest.fixture(scope="module")
def store():
    store = SqliteStore(":memory:")
    store.open()
    yield store
    store.close()


def plan(store, text):
    named = dict.fromkeys(re.findall(r":(\w+)", text))
    bindings = named or [None] * max(map(int, re.findall(r"\?(\d+)", text)), default=0)
    rows = store._opened.writer._raw.execute("EXPLAIN QUERY PLAN " + text, bindings).fetchall()
    return [row[3] for row in rows]


HOT = {
    "enter_batch": ["SEARCH workers USING INTEGER PRIMARY KEY (rowid=?)"],
    "held_runs": ["SEARCH r USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH e USING COVERING INDEX"],
    "claimable_runs": ["SEARCH r USING INDEX runs_due (due_at<?)"],
    "claimable_run": ["SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"],
    "heartbeat": [
        "SEARCH workers USING INTEGER PRIMARY KEY (rowid=?)", "INDEX workers_live", "USING INDEX runs_due", "runs_owned (owner>?)",
    ],
    "suspects": ["SEARCH r USING INDEX runs_suspect (crashes>?)"],
    "journal": ["SEARCH e USING INDEX sqlite_autoindex_entries_1 (place>? AND place<?)"],
    "journals": ["SEARCH e USING INDEX sqlite_autoindex_entries_1 (place>? AND place<?)"],
    "messages_of_worker": ["SEARCH i USING INTEGER PRIMARY KEY (rowid>?)", "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"],
    "messages_of_runs": ["SEARCH i USING INDEX inbox_by_run (run=?)"],
    "run_by_id": ["SEARCH r USING INDEX sqlite_autoindex_runs_1 (id=?)"],
    "state_by_id": ["SEARCH runs USING INDEX sqlite_autoindex_runs_1 (id=?)"],
    "live_descendants": ["SEARCH runs USING INDEX runs_by_parent (parent=?)", "SEARCH c USING INDEX runs_by_parent (parent=?)"],
    "cancel_promises": ["SEARCH promises USING INDEX promises_by_run (run=?)"],
    "empty_inbox": ["SEARCH inbox USING INDEX inbox_by_run (run=?)"],
    "free_runs": ["runs_owned (owner=?)"],
    "hand_back_runs": ["runs_owned (owner=?)"],
    "children": ["SEARCH r USING INDEX runs_by_parent (parent=?)"],
    "count_runs": ["SCAN runs USING COVERING INDEX runs_by_status"],
    "blob": ["SEARCH blobs USING INDEX sqlite_autoindex_blobs_1 (address=?)"],
    "reply": ["SEARCH replies USING INDEX sqlite_autoindex_replies_1 (uid=?)"],
}  # fmt: skip


IN_ORDER = {"claimable_runs", "journal", "messages_of_worker", "heartbeat"}
"""Those that must not sort: with a limit or a start they read a few of very many."""


@pytest.mark.parametrize("name", HOT)
def test_hot_statements_find_their_rows_by_an_index(store, name):
    steps = plan(store, QUERIES[name])
    for wanted in HOT[name]:
        assert any(wanted in step for step in steps), steps
    scans = [step for step in steps if step.startswith("SCAN")]
    few = ("VIRTUAL TABLE", "SCAN f", "CONSTANT ROW", "runs_by_status", "runs_due", "SCAN o", "SCAN gone")
    # lists given, families, the due index, lists of workers
    assert not [scan for scan in scans if not any(word in scan for word in few)], steps
    if name in IN_ORDER:
        assert not [step for step in steps if "TEMP B-TREE" in step], steps


@pytest.mark.parametrize(
    "conditions, wanted",
    [
        (["list_workflow"], "runs_by_workflow (workflow=?"),
        (["list_statuses"], "runs_by_status (status=?"),
        (["list_prefix"], "(id>? AND id<?)"),
        (["list_before"], "INTEGER PRIMARY KEY (rowid<?)"),
    ],
)
def test_lists_use_the_index_of_their_condition(store, conditions, wanted):
    text = QUERIES["list_runs"].replace("{conditions}", " AND ".join(QUERIES[condition] for condition in conditions))
    assert any(wanted in step for step in plan(store, text)), plan(store, text)


def test_open_promises_are_found_among_all(store):
    text = QUERIES["list_promises"].replace("{conditions}", QUERIES["promises_open"])
    steps = plan(store, text)
    assert any("USING INDEX promises_open" in step for step in steps), steps


def test_parked_runs_cost_nothing_to_an_idle_worker(tmp_path):
    """With 20,000 parked runs a claim that finds nothing reads as few pages as with none."""
    store = SqliteStore(str(tmp_path / "many.db"))
    store.open()
    connection = store._opened.writer
    connection.script(
        """
        INSERT INTO runs (id, workflow, status, version, digest, priority, created_at, due_at, deadline_at, parent, parent_key,
            detached)
        SELECT 'run-' || value, 'flow', 'waiting', '', x'', 0, 1, CASE value % 2 WHEN 0 THEN 1000000 + value END, 0, 0, '', 0
        FROM (WITH RECURSIVE series (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM series LIMIT 20000) SELECT * FROM series);
        INSERT INTO run_values (run, input) SELECT number, x'' FROM runs;
        """
    )
    bindings = {
        "at": 999,
        "limit": 64,
        "build": "b",
        "workflows": json.dumps(["flow"]),
        "versions": "{}",
        "least": 0,
        "most": 9,
    }
    raw = connection._raw
    assert connection.rows("claimable_runs", bindings) == []
    before = raw.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0]
    assert connection.rows("claimable_runs", bindings) == []
    assert raw.status(apsw.SQLITE_DBSTATUS_CACHE_HIT)[0] - before < 10
    store.close()
