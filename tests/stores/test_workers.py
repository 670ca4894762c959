"""Workers: leases, fences, takeovers, proofs of death."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.stores.base import Fenced, Park, Takeover
from perdure.stores.rows import Blocked, WorkerRow
from perdure.stores.sqlite import SqliteStore

from . import programs
from .hand import LEASE, Hand, is_lost

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_a_worker_is_shown_as_it_entered(store):
    row = WorkerRow(
        number=0, name="n", host="h", pid=7, build="b", version="v", role="client", workflows=["f"], started_at=5, lease_until=9
    )
    row.number = store.enter(row)
    row.seen_at = 5
    assert store.worker(row.number) == row
    assert store.workers() == [row]
    assert store.worker(99) is None


def test_p32_a_number_is_never_given_again(store):
    first = Hand(store, name="same")
    first.leave()
    store._opened.writer.script("DELETE FROM workers")
    second = Hand(store, name="same")
    assert second.number > first.number
    with pytest.raises(Fenced):
        first.commit()


def test_a_heartbeat_renews_the_lease(hand, store):
    pulse = store.heartbeat(hand.number, 200, 5_000)
    assert (pulse.alive, pulse.expired, pulse.next_due) == (True, [], None)
    assert (store.worker(hand.number).seen_at, store.worker(hand.number).lease_until) == (200, 5_000)
    store.heartbeat(hand.number, 100, 1_000)
    assert (store.worker(hand.number).seen_at, store.worker(hand.number).lease_until) == (200, 5_000)


def test_a_heartbeat_tells_whose_lease_is_over(hand, store):
    late, ended, well = Hand(store), Hand(store), Hand(store, lease=9_000)
    ended.leave()
    now = 100 + LEASE + 1
    assert store.heartbeat(hand.number, now - 1, now).expired == []
    assert store.heartbeat(hand.number, now, 9_999).expired == [late.number]
    assert well.number not in store.heartbeat(hand.number, now, 9_999).expired


def test_a_heartbeat_tells_when_the_next_run_is_due(hand, store):
    hand.start("later", due_at=900)
    hand.start("soon", due_at=500)
    assert store.heartbeat(hand.number, 200, 5_000).next_due == 500
    hand.at = 500
    hand.claim()
    assert store.heartbeat(hand.number, 600, 5_000).next_due == 900


def test_a_run_that_this_build_is_blocked_for_is_not_its_next(hand, store):
    owned = hand.take()
    hand.advance(owned, park=Park(status="blocked", blocked=Blocked(code="PRD-401", reason="x", build="b1")))
    assert store.heartbeat(hand.number, 200, 5_000).next_due is None
    assert store.heartbeat(Hand(store, build="b2").number, 200, 5_000).next_due == 100


def test_a_fenced_worker_learns_it_by_its_heartbeat(hand, store):
    other = Hand(store)
    other.take_over(hand.number)
    before = store.worker(hand.number)
    assert not store.heartbeat(hand.number, 200, 9_000).alive
    assert store.worker(hand.number) == before


def test_p45_leaving_hands_runs_back_without_counting_a_crash(hand, store):
    running, waiting = hand.take("running"), hand.take("waiting")
    hand.advance(waiting, status="waiting", wake_at=900)
    hand.at = 300
    assert store.worker(hand.number).runs == 2
    hand.leave()
    # No crash is counted. A step that the end cut off gets a new attempt number, so the running one is a recovery.
    for owned, recoveries in ((running, 1), (waiting, 0)):
        row = store.run(owned.id)
        assert (row.owner, row.status, row.due_at, row.crashes, row.recoveries) == (0, "queued", 300, 0, recoveries)
    row = store.worker(hand.number)
    assert (row.ended_at, row.end, row.runs) == (300, "closed", 0)
    assert store.workers() == []
    assert [row.number for row in store.workers(live_only=False)] == [hand.number]
    hand.leave()
    with pytest.raises(Fenced):
        hand.commit()


def test_a_clients_row_goes_with_it_and_its_number_never_comes_back(store):
    left, dead = Hand(store, role="client"), Hand(store, role="client")
    worker = Hand(store)
    left.leave()
    worker.at = dead.at + 2 * LEASE
    worker.take_over(dead.number)
    assert [row.number for row in store.workers(live_only=False)] == [worker.number]
    for gone in (left, dead):
        assert store.heartbeat(gone.number, worker.at, worker.at + LEASE).alive is False
        with pytest.raises(Fenced):
            gone.start("after the end")
    assert Hand(store, role="client").number > worker.number


def test_p30_a_takeover_frees_all_runs_of_a_dead_worker(hand, store):
    dead = Hand(store)
    owned = [dead.take(f"run-{n}") for n in range(250)]
    dead.advance(owned[0], 1, status="waiting", wake_at=900)
    hand.at = 400
    assert hand.take_over(dead.number) == [each.number for each in owned]
    row = store.worker(dead.number)
    assert (row.ended_at, row.end, row.runs) == (400, "dead", 0)
    resting, running = store.run("run-0"), store.run("run-1")
    assert (resting.status, resting.due_at, resting.crashes, resting.recoveries) == ("queued", 400, 0, 0)
    assert (running.status, running.due_at, running.crashes, running.recoveries) == ("queued", 400, 1, 1)
    assert len(hand.claim(limit=500)) == 250


def test_a_takeover_without_proof_needs_an_expired_lease(hand, store):
    other = Hand(store)
    other.take()
    hand.at = 100 + LEASE
    assert hand.take_over(other.number, proven=False) == []
    assert store.worker(other.number).ended_at == 0
    hand.at += 1
    assert hand.take_over(other.number, proven=False) == [1]
    assert store.worker(other.number).end == "expired"


def test_a_lease_renewed_meanwhile_saves_its_worker(hand, store):
    other = Hand(store)
    owned = other.take()
    hand.at = 5_000
    other.at = 4_999
    other.commit()
    assert hand.take_over(other.number, proven=False) == []
    assert other.advance(owned, 1) is None


def test_p03_a_second_takeover_finds_nothing(hand, store):
    dead, third = Hand(store), Hand(store)
    dead.take()
    assert hand.take_over(dead.number) == [1]
    [owned] = hand.claim()
    assert third.take_over(dead.number) == []
    assert third.claim() == []
    assert hand.advance(owned, 1) is None
    assert store.worker(dead.number).ended_at == 100


def test_s15_the_old_claim_is_worth_nothing_after_the_run_came_back(hand, store):
    old = hand.take()
    hand.advance(old, park=Park(status="queued"))
    [new] = hand.claim()
    assert new.claim == old.claim + 1
    assert is_lost(hand.do(hand.an_advance(new, 1, claim=old.claim)))
    assert hand.advance(new, 1) is None


def test_p08_who_lost_its_lease_cannot_finish(hand, store):
    slow = Hand(store)
    owned = slow.take()
    hand.take_over(slow.number)
    [again] = hand.claim()
    with pytest.raises(Fenced):
        slow.commit(slow.an_advance(owned, 1))
    assert hand.advance(again, 1) is None


def test_s14_only_what_was_running_is_suspected(hand, store):
    dead = Hand(store)
    dead.take("suspect")
    resting = dead.take("resting")
    dead.advance(resting, status="waiting")
    hand.take_over(dead.number)
    [suspect] = store.suspects(1)
    assert (suspect.id, suspect.workflow, suspect.crashes) == ("suspect", "flow", 1)
    assert store.suspects(2) == []


# ── proofs of death ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_living_worker_is_not_dead(file_store, path):
    hand = Hand(file_store)
    second = SqliteStore(path)
    second.open()
    assert second.dead_workers() == []
    assert file_store.dead_workers() == []
    hand.leave()
    assert second.dead_workers() == []
    second.close()


def test_in_memory_nobody_else_can_be_dead(store):
    assert store.dead_workers() == []


def test_a_store_closed_without_leaving_is_proof(file_store, path):
    second = SqliteStore(path)
    second.open()
    gone = Hand(second)
    gone.take()
    second.close()
    hand = Hand(file_store)
    assert file_store.dead_workers() == [gone.number]
    assert file_store.dead_workers() == [gone.number], "until its row has ended"
    assert hand.take_over(gone.number) == [1]
    assert file_store.dead_workers() == []


def test_a_worker_that_was_fenced_leaves_no_lock_behind(file_store, path, tmp_path):
    hand, other = Hand(file_store), Hand(file_store)
    hand.at += LEASE + 1
    hand.take_over(other.number, proven=False)
    other.leave()
    hand.leave()
    assert list((tmp_path / "perdure.db-workers").iterdir()) == []


def test_a_takeover_of_a_row_that_had_ended_still_removes_the_lock(file_store, path, tmp_path):
    """Its lease ran out first, then its process died: the file would be found free for ever."""
    second = SqliteStore(path)
    second.open()
    gone, hand = Hand(second), Hand(file_store)
    hand.at += LEASE + 1
    hand.take_over(gone.number, proven=False)
    second.close()
    assert file_store.dead_workers() == [gone.number]
    assert hand.take_over(gone.number) == []
    assert file_store.dead_workers() == []


def test_strange_files_among_the_locks_are_left_alone(file_store, tmp_path):
    Hand(file_store)
    folder = tmp_path / "perdure.db-workers"
    (folder / "notes.txt").write_text("mine")
    (folder / "x.lock").write_text("mine")
    (folder / "12.new").write_text("")
    assert file_store.dead_workers() == []


def open_files():
    folder = Path("/proc/self/fd")
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def test_no_descriptor_is_left_open(path):
    def life():
        store = SqliteStore(path)
        store.open()
        hands = [Hand(store) for _ in range(3)]
        store.dead_workers()
        store.changed()
        hands[0].leave()
        store.close()

    life()
    before = open_files()
    for _ in range(3):
        life()
    assert open_files() == before


@pytest.mark.crash
@posix
@pytest.mark.parametrize("fork", [False, True])
def test_s30_a_killed_worker_is_known_dead_at_once_even_if_a_forked_child_lives(file_store, path, fork):
    hand = Hand(file_store)
    hand.start()
    ours, theirs = programs.SPAWN.Pipe()
    process = programs.SPAWN.Process(target=programs.own_a_run_and_hang, args=(path, theirs), kwargs={"fork": fork})
    process.start()
    assert ours.poll(programs.PATIENCE)
    number, child = ours.recv()
    try:
        assert file_store.dead_workers() == []
        assert file_store.run("run").owner == number
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        until = time.monotonic() + 5
        while not file_store.dead_workers() and time.monotonic() < until:
            time.sleep(0.01)
        assert file_store.dead_workers() == [number]
        if child:
            os.kill(child, 0)  # it is still there
        assert hand.commit(Takeover(worker=number, proven=True, at=hand.at)) == [[1]]
        assert [owned.id for owned in hand.claim()] == ["run"]
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        process.close()
        ours.close()
        theirs.close()


FORKED = """
import os, sys
from perdure.core.errors import StoreUnavailable
from perdure.stores.rows import WorkerRow
from perdure.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
store.open()
number = store.enter(WorkerRow(number=0, lease_until=100))
child = os.fork()
if child == 0:
    said = []
    for attempt in (lambda: store.run("run"), lambda: SqliteStore(sys.argv[1]).open()):
        try:
            attempt()
        except StoreUnavailable as error:
            said.append("fork" in str(error))
    store.close()
    sys.exit(0 if said == [True, True] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert store.run("run") is None
other = SqliteStore(sys.argv[1])
other.open()
assert other.dead_workers() == [], "the child's end must not drop our lock"
assert store.worker(number).ended_at == 0
store.leave(number, 5)
print("fine")
"""


@posix
def test_a_forked_child_uses_nothing_of_its_parent(path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, path],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stdout.strip() == "fine", done.stderr


@posix
def test_a_process_that_dies_while_it_enters_is_no_proof_against_another(file_store, tmp_path):
    """A lock file is never seen without its lock: it gets its name when it is locked."""
    names = []
    locks = file_store._locks
    take = locks._path

    def spied(worker):
        names.append(sorted(file.name for file in locks.folder.iterdir()))
        return take(worker)

    locks._path = spied
    hand = Hand(file_store)
    locks._path = take
    assert names == [[]]
    assert [file.name for file in locks.folder.iterdir()] == [f"{hand.number}.lock"]
