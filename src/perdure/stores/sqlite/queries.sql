-- Every statement of the SQLite store, by name. The line under a name is its purpose; {words} are the fragments on top.
-- Positional ?1 for those that run often, :names for those with many parameters.

-- fragment: run_columns
r.number, r.id, r.workflow, r.status, r.version, v.input, r.digest, r.tags, r.priority, r.created_at, r.started_at,
r.ended_at, r.due_at, r.deadline_at, r.active, r.owner, r.claim,
coalesce((SELECT e.place & 4294967295 FROM entries AS e WHERE e.place BETWEEN r.number << 32 AND r.number << 32 | 4294967295
          ORDER BY e.place DESC LIMIT 1), 0),
r.inbox, r.crashes, r.recoveries, r.cancel_at, r.parent, r.parent_key, r.detached, v.result, r.failed, r.blocked,
r.blocked_builds

-- fragment: message_columns
i.number, i.run, i.kind, i.name, i.key, i.value, i.failed, i.by, i.uid, i.at

-- fragment: promise_columns
p.id, p.run, p.key, p.kind, p.name, p.question, p.addressee, p.schema, p.state, p.opened_at, p.deadline, p.resolved_at,
p.by, p.problem, r.id, r.workflow, p.number

-- fragment: worker_columns
w.number, w.name, w.host, w.pid, w.build, w.version, w.role, w.workflows, w.started_at, w.seen_at, w.lease_until, w.ended_at,
w.ending,
(SELECT count(*) FROM runs AS r WHERE r.owner = w.number AND r.owner <> 0)

-- fragment: entry_columns
e.place, e.kind, e.key, e.time, e.value, e.failed, e.note

-- fragment: claimable
r.owner = 0 AND r.due_at <= :at AND r.crashes BETWEEN :least AND :most
AND (:workflows IS NULL OR r.workflow IN (SELECT value FROM json_each(:workflows)))
AND (r.version = '' OR :versions IS NULL
     OR r.version = coalesce((SELECT value FROM json_each(:versions) AS v WHERE v.key = r.workflow), ''))
AND (r.blocked_builds IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(r.blocked_builds) AS b WHERE b.value = :build))
AND (r.status <> 'paused' OR r.cancel_at <> 0)

-- ── the batch ──────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: begin
-- Take the write lock before anything is read, so that nothing read can be outdated when it is written.
BEGIN IMMEDIATE

-- name: commit
-- Make the transaction durable.
COMMIT

-- name: rollback
-- Undo the transaction.
ROLLBACK

-- name: mark
-- Remember this place of the transaction.
SAVEPOINT mark

-- name: keep
-- Forget the last mark and keep what came after it.
RELEASE mark

-- name: undo
-- Go back to the last mark.
ROLLBACK TO mark

-- name: mark_part
-- The same inside one change.
SAVEPOINT part

-- name: keep_part
-- Keep the part.
RELEASE part

-- name: undo_part
-- Undo the part.
ROLLBACK TO part

-- name: enter_batch
-- Fence, number and lease in one: no row changes if the worker has ended or wrote this batch before.
UPDATE workers SET batch = ?1, lease_until = max(lease_until, ?2), seen_at = max(seen_at, ?3)
WHERE number = ?4 AND ended_at = 0 AND batch < ?1

-- name: worker_batch
-- Why enter_batch changed nothing, and whether a batch of unknown outcome was written.
SELECT batch, ended_at FROM workers WHERE number = ?1

-- name: held_runs
-- What a worker holds of these runs: claim, last entry, crashes. The one check of owner, claim and sequence of a batch.
SELECT r.number, r.claim,
    coalesce((SELECT e.place & 4294967295 FROM entries AS e WHERE e.place BETWEEN r.number << 32 AND r.number << 32 | 4294967295
              ORDER BY e.place DESC LIMIT 1), 0),
    r.crashes
FROM runs AS r WHERE r.owner = ?1 AND r.number IN (SELECT value FROM json_each(?2))

-- ── journals and blobs ─────────────────────────────────────────────────────────────────────────────────────────────

-- name: add_entry
-- Append one entry to a journal.
INSERT INTO entries (place, kind, key, time, value, failed, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: journal
-- A stretch of one journal.
SELECT {entry_columns} FROM entries AS e WHERE e.place > ?1 AND e.place <= ?2 ORDER BY e.place LIMIT ?3

-- name: journals
-- The whole journals of several runs.
SELECT {entry_columns} FROM json_each(?1) AS n CROSS JOIN entries AS e
WHERE e.place BETWEEN n.value << 32 AND n.value << 32 | 4294967295 ORDER BY n.id, e.place

-- name: keep_blob
-- Store a piece, or touch it if it is there and was not touched for a day (the pruner waits longer than that).
INSERT INTO blobs (address, data, touched_at) VALUES (?1, ?2, ?3)
ON CONFLICT (address) DO UPDATE SET touched_at = excluded.touched_at
WHERE excluded.touched_at - touched_at > 86400000000

-- name: blob
-- One piece by address.
SELECT data FROM blobs WHERE address = ?1

-- ── runs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: add_run
-- Insert a new run's row.
INSERT INTO runs (id, workflow, status, version, digest, tags, priority, created_at, ended_at, due_at, deadline_at, cancel_at,
    parent, parent_key, detached, failed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)

-- name: add_run_values
-- Insert a new run's arguments.
INSERT INTO run_values (run, input) VALUES (?1, ?2)

-- name: add_tag
-- Index a run by a tag.
INSERT OR IGNORE INTO run_tags (tag, run) VALUES (?1, ?2)

-- name: run_by_id
-- A run by id.
SELECT {run_columns} FROM runs AS r JOIN run_values AS v ON v.run = r.number WHERE r.id = ?1

-- name: runs_by_number
-- Runs by number.
SELECT {run_columns} FROM runs AS r JOIN run_values AS v ON v.run = r.number
WHERE r.number IN (SELECT value FROM json_each(?1)) ORDER BY r.number

-- name: children
-- The children of a run, oldest first.
SELECT {run_columns} FROM runs AS r JOIN run_values AS v ON v.run = r.number
WHERE r.parent = ?1 AND r.parent <> 0 ORDER BY r.number

-- name: list_runs
-- A page of runs, newest first. The conditions are some of the list_* ones below.
SELECT {run_columns} FROM runs AS r JOIN run_values AS v ON v.run = r.number WHERE {conditions}
ORDER BY r.number DESC LIMIT :limit

-- name: count_runs
-- How many runs have each status.
SELECT status, count(*) FROM runs GROUP BY status

-- name: state_by_id
-- The facts that decide whether a run may be changed from outside.
SELECT number, id, status, owner, started_at, cancel_at, ended_at, parent, parent_key FROM runs WHERE id = ?1

-- name: state_by_number
-- The same, by number.
SELECT number, id, status, owner, started_at, cancel_at, ended_at, parent, parent_key FROM runs WHERE number = ?1

-- name: rename_run
-- Take the id away from a replaced run; its number, and all that hangs on it, stays.
UPDATE runs SET id = id || '~' || number WHERE number = ?1

-- name: claimable_runs
-- The runs that have been due longest.
SELECT r.number, r.started_at, r.version FROM runs AS r WHERE {claimable} ORDER BY r.due_at, r.priority DESC, r.number LIMIT :limit

-- name: suspects
-- Due runs that were running when their worker died, and have not got anywhere since; the worst first.
SELECT r.number, r.id, r.workflow, r.crashes FROM runs AS r
WHERE r.crashes >= ?1 AND r.crashes > 0 AND r.owner = 0 AND r.due_at IS NOT NULL AND r.blocked IS NULL
ORDER BY r.crashes DESC, r.number LIMIT ?2

-- name: claimable_run
-- The same for one run.
SELECT r.number, r.started_at, r.version FROM runs AS r WHERE r.number = :only AND {claimable} LIMIT :limit

-- name: take_runs
-- Make a worker the owner of runs under a fresh claim.
UPDATE runs SET owner = ?1, claim = claim + 1, status = 'running', due_at = NULL, blocked = NULL,
    started_at = CASE started_at WHEN 0 THEN ?2 ELSE started_at END
WHERE number IN (SELECT value FROM json_each(?3)) AND owner = 0

-- name: set_status
-- What an owned run is doing, for people; due_at shows when it would wake.
UPDATE runs SET status = ?2, due_at = ?3 WHERE number = ?1

-- name: clear_crashes
-- A run has got further: the deaths before do not count any more.
UPDATE runs SET crashes = 0 WHERE number = ?1

-- name: parking_facts
-- What parking depends on.
SELECT inbox, blocked_builds FROM runs WHERE number = ?1

-- name: park_run
-- Let go of a run. A message that the same change left for the run itself (inbox above the counter seen) keeps it due.
UPDATE runs SET owner = 0, status = :status, active = max(active, :active), blocked = :blocked, blocked_builds = :builds,
    due_at = CASE WHEN :status = 'waiting' AND inbox > :inbox THEN :at ELSE :due_at END
WHERE number = :run

-- name: end_run
-- Give a live run its final outcome.
UPDATE runs SET status = ?2, ended_at = ?3, failed = ?4, active = max(active, ?5), owner = 0, due_at = NULL, blocked = NULL
WHERE number = ?1 AND ended_at = 0

-- name: set_result
-- Keep a run's result or error.
UPDATE run_values SET result = ?2 WHERE run = ?1

-- name: live_descendants
-- The attached descendants of a run that live and were not told to cancel, parents before children.
WITH RECURSIVE family (number) AS (
    SELECT number FROM runs WHERE parent = ?1 AND parent <> 0 AND detached = 0 AND ended_at = 0 AND cancel_at = 0
    UNION ALL
    SELECT c.number FROM family AS f CROSS JOIN runs AS c ON c.parent = f.number
    WHERE c.parent <> 0 AND c.detached = 0 AND c.ended_at = 0 AND c.cancel_at = 0
)
SELECT number, id, status, owner, started_at, cancel_at, ended_at, parent, parent_key FROM runs
WHERE number IN family ORDER BY number

-- name: mark_cancelled
-- Record that cancellation was requested, once; due at once in any case.
UPDATE runs SET cancel_at = ?2, due_at = CASE owner WHEN 0 THEN ?2 ELSE due_at END WHERE number = ?1 AND cancel_at = 0

-- name: pause_run
-- Set an unowned run aside; one that is told to cancel stays due, and a delayed one keeps its start time.
UPDATE runs SET status = 'paused', due_at = CASE WHEN cancel_at <> 0 OR status IN ('delayed', 'paused') THEN due_at END
WHERE number = ?1 AND owner = 0

-- name: resume_run
-- Let every build claim an unowned run again; one whose start time is still to come waits for it.
UPDATE runs SET status = CASE WHEN status = 'paused' AND due_at > ?2 THEN 'delayed' ELSE 'queued' END,
    due_at = CASE WHEN status = 'paused' AND due_at > ?2 THEN due_at ELSE ?2 END,
    blocked = NULL, blocked_builds = NULL, crashes = 0
WHERE number = ?1 AND owner = 0

-- name: forget_pauses
-- A request to pause that nobody has carried out is undone.
DELETE FROM inbox WHERE run = ?1 AND kind = 'pause'

-- name: wake_run
-- Count a message and make an unowned run due, unless a person or its own start time has to come first.
UPDATE runs SET inbox = inbox + 1,
    due_at = CASE WHEN owner = 0 AND status NOT IN ('paused', 'blocked', 'delayed') THEN min(coalesce(due_at, ?2), ?2)
                  ELSE due_at END
WHERE number = ?1

-- ── the inbox, replies, published values ───────────────────────────────────────────────────────────────────────────

-- name: add_message
-- Leave a message.
INSERT INTO inbox (run, kind, name, key, value, failed, by, uid, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

-- name: mark_delivered
-- Remember a message's id; no row changes if the run got it before.
INSERT OR IGNORE INTO delivered (run, uid) VALUES (?1, ?2)

-- name: was_delivered
-- Whether a run got this message before.
SELECT 1 FROM delivered WHERE run = ?1 AND uid = ?2

-- name: consume
-- Take messages out of a run's inbox.
DELETE FROM inbox WHERE run = ?1 AND number IN (SELECT value FROM json_each(?2))

-- name: empty_inbox
-- Forget what is left for a run that has ended.
DELETE FROM inbox WHERE run = ?1

-- name: messages_of_worker
-- New messages for the runs of a worker. CROSS JOIN: only the new end of the inbox is walked, however many runs it owns.
SELECT {message_columns} FROM inbox AS i CROSS JOIN runs AS r ON r.number = i.run
WHERE i.number > ?2 AND r.owner = ?1 ORDER BY i.number

-- name: messages_of_runs
-- The inboxes of several runs.
SELECT {message_columns} FROM inbox AS i WHERE i.run IN (SELECT value FROM json_each(?1)) ORDER BY i.number

-- name: add_reply
-- Reply to a message; the first reply stands.
INSERT OR IGNORE INTO replies (uid, run, value, at) VALUES (?1, ?2, ?3, ?4)

-- name: reply
-- The reply to a message.
SELECT value FROM replies WHERE uid = ?1

-- name: publish
-- Publish a value; the newest one stands.
INSERT INTO published (run, key, value, at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (run, key) DO UPDATE SET value = excluded.value, at = excluded.at

-- name: published
-- What a run has published.
SELECT key, value, at FROM published WHERE run = ?1 ORDER BY key

-- ── promises ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: open_promise
-- Open a promise or ask.
INSERT INTO promises (id, run, key, kind, name, question, addressee, schema, state, opened_at, deadline)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'open', ?9, ?10)

-- name: promise_state
-- What decides whether a promise may be answered.
SELECT p.run, p.key, p.state, p.deadline, p.uid, p.by, r.id
FROM promises AS p JOIN runs AS r ON r.number = p.run WHERE p.id = ?1

-- name: resolve_promise
-- Give an open promise its outcome.
UPDATE promises SET state = ?2, resolved_at = ?3, by = ?4, uid = ?5, problem = '' WHERE id = ?1 AND state = 'open'

-- name: close_promise
-- The same, by its own run.
UPDATE promises SET state = ?3, resolved_at = ?4 WHERE id = ?1 AND run = ?2 AND state = 'open'

-- name: reopen_promise
-- Send an answer back: the promise is open again and says why.
UPDATE promises SET state = 'open', problem = ?3, resolved_at = 0, by = '', uid = ''
WHERE id = ?1 AND run = ?2 AND state IN ('answered', 'rejected')

-- name: cancel_promises
-- Cancel what a run still has open.
UPDATE promises SET state = 'cancelled', resolved_at = ?2 WHERE run = ?1 AND state = 'open'

-- name: promise
-- One promise by id.
SELECT {promise_columns} FROM promises AS p JOIN runs AS r ON r.number = p.run WHERE p.id = ?1

-- name: list_promises
-- A page of promises, oldest first. The conditions are some of the promises_* ones below.
SELECT {promise_columns} FROM promises AS p CROSS JOIN runs AS r ON r.number = p.run WHERE {conditions}
ORDER BY p.number LIMIT :limit

-- ── workers ────────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: add_worker
-- Insert a worker's row.
INSERT INTO workers (name, host, pid, build, version, role, workflows, started_at, seen_at, lease_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

-- name: end_worker
-- End a worker's row: the fence.
UPDATE workers SET ended_at = ?2, ending = ?3 WHERE number = ?1 AND ended_at = 0

-- name: forget_client
-- Remove the row of a process that hosts no worker.
DELETE FROM workers WHERE number = ?1 AND role = 'client'

-- name: worker_lease
-- Whether a worker's row has ended, and until when its lease runs.
SELECT ended_at, lease_until FROM workers WHERE number = ?1

-- name: hand_back_runs
-- Free a closing worker's runs: no crash is counted, but a step that was cut off begins its next attempt under a new number.
UPDATE runs SET owner = 0, status = 'queued', due_at = ?2, recoveries = recoveries + (status = 'running')
WHERE owner = ?1 AND owner <> 0

-- name: free_runs
-- Free a dead worker's runs and count the death against those that were running.
UPDATE runs SET owner = 0, status = 'queued', due_at = ?2, crashes = crashes + (status = 'running'),
    recoveries = recoveries + (status = 'running')
WHERE owner = ?1 AND owner <> 0 RETURNING number

-- name: heartbeat
-- Renew a worker's lease, if its row has not ended, and look round: whose lease is over, who owns runs without having a place
-- any more (its row ended or is gone: that may never be, and heals here), and when the next run is due.
-- The owners are found by one seek each, however many runs they own.
WITH RECURSIVE owners (number) AS (
    SELECT min(r.owner) FROM runs AS r WHERE r.owner <> 0 AND r.owner > 0
    UNION ALL SELECT (SELECT min(r.owner) FROM runs AS r WHERE r.owner <> 0 AND r.owner > o.number) FROM owners AS o
    WHERE o.number IS NOT NULL)
UPDATE workers SET seen_at = max(seen_at, ?2), lease_until = max(lease_until, ?3) WHERE number = ?1 AND ended_at = 0
RETURNING
    (SELECT json_group_array(gone.number) FROM (
        SELECT w.number FROM workers AS w WHERE w.ended_at = 0 AND w.lease_until < ?2 AND w.number <> ?1
        UNION ALL SELECT o.number FROM owners AS o
        WHERE o.number IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.number = o.number AND w.ended_at = 0)
    ) AS gone),
    (SELECT r.due_at FROM runs AS r WHERE r.owner = 0 AND r.due_at IS NOT NULL
     AND (r.status <> 'paused' OR r.cancel_at <> 0)
     AND (r.blocked_builds IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(r.blocked_builds) AS b WHERE b.value = workers.build))
     ORDER BY r.due_at LIMIT 1)

-- name: workers
-- All workers.
SELECT {worker_columns} FROM workers AS w ORDER BY w.number

-- name: live_workers
-- Workers whose row has not ended.
SELECT {worker_columns} FROM workers AS w WHERE w.ended_at = 0 ORDER BY w.number

-- name: worker
-- One worker.
SELECT {worker_columns} FROM workers AS w WHERE w.number = ?1

-- ── conditions of lists ────────────────────────────────────────────────────────────────────────────────────────────

-- name: list_before
-- Older than the last one seen.
r.number < :before

-- name: list_statuses
-- In one of these states.
r.status IN (SELECT value FROM json_each(:statuses))

-- name: list_workflow
-- Of one workflow.
r.workflow = :workflow

-- name: list_tags
-- With all of these tags.
r.number IN (SELECT run FROM run_tags WHERE tag IN (SELECT value FROM json_each(:tags)) GROUP BY run HAVING count(*) = :tag_count)

-- name: list_prefix
-- Ids that begin so: a range, so that the index serves.
r.id >= :prefix AND r.id < :prefix_end

-- name: list_created_from
-- Created at or after.
r.created_at >= :created_from

-- name: list_created_until
-- Created before.
r.created_at < :created_until

-- name: promises_open
-- Not resolved yet.
p.state = 'open'

-- name: promises_run
-- Of one run.
p.run = :run

-- name: promises_kind
-- Promises, or asks.
p.kind = :kind

-- name: promises_to
-- Addressed to one person.
p.addressee = :to

-- name: promises_after
-- After the last one seen.
p.number > (SELECT number FROM promises WHERE id = :after)

-- ── the database itself ────────────────────────────────────────────────────────────────────────────────────────────

-- name: read_fact
-- A fact about the database.
SELECT value FROM meta WHERE key = ?1

-- name: write_fact
-- Set a fact about the database, once.
INSERT OR IGNORE INTO meta (key, value) VALUES (?1, ?2)

-- name: tables
-- Its tables.
SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name

-- name: look_for_others
-- A number that changes when another connection has committed, and only then.
PRAGMA data_version

-- ── the check ──────────────────────────────────────────────────────────────────────────────────────────────────────

-- name: check_integrity
-- Damage of the file itself.
PRAGMA integrity_check

-- name: check_gaps
-- Journals that do not count from 1 without a gap.
SELECT place >> 32, count(*), max(place & 4294967295) FROM entries
GROUP BY place >> 32 HAVING count(*) <> max(place & 4294967295)

-- name: check_orphans
-- Rows of runs that do not exist.
SELECT 'entries', place >> 32, count(*) FROM entries WHERE place >> 32 NOT IN (SELECT number FROM runs) GROUP BY place >> 32
UNION ALL SELECT 'inbox', run, count(*) FROM inbox WHERE run NOT IN (SELECT number FROM runs) GROUP BY run
UNION ALL SELECT 'promises', run, count(*) FROM promises WHERE run NOT IN (SELECT number FROM runs) GROUP BY run
UNION ALL SELECT 'published', run, count(*) FROM published WHERE run NOT IN (SELECT number FROM runs) GROUP BY run
UNION ALL SELECT 'run_values', run, count(*) FROM run_values WHERE run NOT IN (SELECT number FROM runs) GROUP BY run
UNION ALL SELECT 'run_tags', run, count(*) FROM run_tags WHERE run NOT IN (SELECT number FROM runs) GROUP BY run
UNION ALL SELECT 'delivered', run, count(*) FROM delivered WHERE run NOT IN (SELECT number FROM runs) GROUP BY run

-- name: check_runs
-- Runs whose row contradicts itself: owned and ended, owned by a worker that has ended, ended and due, no values.
SELECT r.id, CASE
    WHEN v.run IS NULL THEN 'has no arguments'
    WHEN r.ended_at <> 0 AND r.owner <> 0 THEN 'has ended but is owned'
    WHEN r.ended_at <> 0 AND r.due_at IS NOT NULL THEN 'has ended but is due'
    WHEN (r.ended_at <> 0) <> (r.status IN ('succeeded', 'failed', 'cancelled')) THEN 'has a status that does not fit its end'
    WHEN r.owner = 0 AND r.status = 'running' THEN 'is running without an owner'
    ELSE 'is owned by a worker that has ended' END
FROM runs AS r LEFT JOIN run_values AS v ON v.run = r.number LEFT JOIN workers AS w ON w.number = r.owner
WHERE v.run IS NULL OR (r.ended_at <> 0 AND (r.owner <> 0 OR r.due_at IS NOT NULL))
    OR (r.ended_at <> 0) <> (r.status IN ('succeeded', 'failed', 'cancelled'))
    OR (r.owner = 0 AND r.status = 'running')
    OR (r.owner <> 0 AND coalesce(w.ended_at, 1) <> 0)

-- name: check_notes
-- Every note with its place.
SELECT place, note FROM entries WHERE note IS NOT NULL

-- name: check_payloads
-- Every stored payload with its place.
SELECT 'entry ' || (place & 4294967295) || ' of run ' || (place >> 32), value FROM entries WHERE value IS NOT NULL
UNION ALL SELECT 'the arguments of run ' || run, input FROM run_values
UNION ALL SELECT 'the result of run ' || run, result FROM run_values WHERE result IS NOT NULL
UNION ALL SELECT 'message ' || number || ' of run ' || run, value FROM inbox WHERE value IS NOT NULL
UNION ALL SELECT 'what run ' || run || ' published as ' || key, value FROM published
UNION ALL SELECT 'the reply to message ' || uid, value FROM replies
