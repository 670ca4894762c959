-- The first schema. Times are µs since the epoch, 0 or NULL means never; flags are 0 or 1.
-- Text that people chose (ids, names, keys) is TEXT, whatever the codec packed is BLOB.

-- Facts about the database itself: its random identity.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per start of a process with an app. AUTOINCREMENT: an incarnation's number is never given again.
CREATE TABLE workers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    build TEXT NOT NULL,
    version TEXT NOT NULL,
    role TEXT NOT NULL,
    workflows TEXT NOT NULL, -- a JSON list of names
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    ended_at INTEGER NOT NULL DEFAULT 0,
    ending TEXT NOT NULL DEFAULT '',
    batch INTEGER NOT NULL DEFAULT 0 -- the last batch it committed: decides after an unknown outcome
) STRICT;
CREATE INDEX workers_live ON workers (lease_until) WHERE ended_at = 0;

-- The runs. Kept narrow, since claiming, parking and waking rewrite the row: big values are in run_values.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workflow TEXT NOT NULL,
    status TEXT NOT NULL,
    version TEXT NOT NULL,
    digest BLOB NOT NULL,
    tags TEXT, -- a JSON list, NULL for none
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER, -- while unowned: when a worker may claim it; while owned: when it would wake, for people
    deadline_at INTEGER NOT NULL,
    active INTEGER NOT NULL DEFAULT 0,
    owner INTEGER NOT NULL DEFAULT 0,
    claim INTEGER NOT NULL DEFAULT 0,
    inbox INTEGER NOT NULL DEFAULT 0, -- counts the messages ever left, not those that are there
    crashes INTEGER NOT NULL DEFAULT 0,
    recoveries INTEGER NOT NULL DEFAULT 0,
    cancel_at INTEGER NOT NULL DEFAULT 0,
    parent INTEGER NOT NULL,
    parent_key TEXT NOT NULL,
    detached INTEGER NOT NULL,
    failed INTEGER NOT NULL DEFAULT 0,
    blocked TEXT, -- a Blocked as JSON
    blocked_builds TEXT -- a JSON list, NULL for none
) STRICT;
-- Only runs that may be claimed some day are in it, in the order of claiming: 100,000 parked runs without a timer cost it nothing.
CREATE INDEX runs_due ON runs (due_at, priority DESC, number, workflow) WHERE owner = 0 AND due_at IS NOT NULL;
CREATE INDEX runs_owned ON runs (owner) WHERE owner <> 0;
CREATE INDEX runs_suspect ON runs (crashes) WHERE crashes > 0;
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> 0;
CREATE INDEX runs_by_workflow ON runs (workflow, number);
CREATE INDEX runs_by_status ON runs (status, number);

-- What a run was given and what it gave: written once each.
CREATE TABLE run_values (
    run INTEGER PRIMARY KEY,
    input BLOB NOT NULL,
    result BLOB
) STRICT;

CREATE TABLE run_tags (
    tag TEXT NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (tag, run)
) STRICT, WITHOUT ROWID;

-- The journals, in the order of commits: the entries of all runs lie one after the other, so that a batch fills a few new
-- pages instead of dirtying one page per run (half the CPU and a third of the WAL, measured). `place` is
-- run << 32 | sequence: its index holds a journal together, finds its last entry by one seek and refuses a second one at a
-- place. A rowid table on purpose: a WITHOUT ROWID table keeps at most a quarter of a page in a cell, so that every entry
-- with a 1 KiB payload would get an overflow page of its own.
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    place INTEGER NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    time INTEGER NOT NULL,
    value BLOB,
    failed INTEGER NOT NULL,
    note BLOB -- a Note in msgpack
) STRICT;

-- What outsiders left for a run's owner. AUTOINCREMENT: numbers grow in commit order and are never given again.
CREATE TABLE inbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    value BLOB,
    failed INTEGER NOT NULL,
    by TEXT NOT NULL,
    uid TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX inbox_by_run ON inbox (run);

-- Which messages a run has ever got, so that one sent again after it was consumed is still known. Goes with the run.
CREATE TABLE delivered (
    run INTEGER NOT NULL,
    uid TEXT NOT NULL,
    PRIMARY KEY (run, uid)
) STRICT, WITHOUT ROWID;

CREATE TABLE replies (
    uid TEXT PRIMARY KEY,
    run INTEGER NOT NULL, -- the run that replied
    value BLOB NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX replies_by_run ON replies (run);

-- Promises and asks. number orders them: the id is free text.
CREATE TABLE promises (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    run INTEGER NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    question TEXT NOT NULL,
    addressee TEXT NOT NULL,
    schema TEXT NOT NULL,
    state TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    resolved_at INTEGER NOT NULL DEFAULT 0,
    by TEXT NOT NULL DEFAULT '',
    problem TEXT NOT NULL DEFAULT '',
    uid TEXT NOT NULL DEFAULT '' -- of the answer that resolved it
) STRICT;
CREATE INDEX promises_by_run ON promises (run);
CREATE INDEX promises_open ON promises (number) WHERE state = 'open';

CREATE TABLE published (
    run INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (run, key)
) STRICT;

-- Content-addressed pieces of payloads. touched_at keeps the pruner away from one that was just named again.
CREATE TABLE blobs (
    address BLOB PRIMARY KEY,
    data BLOB NOT NULL,
    touched_at INTEGER NOT NULL
) STRICT;
