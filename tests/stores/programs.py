"""What other processes do in tests of stores. Each function runs in a process of its own, started by `spawn`."""

import multiprocessing
import os
import queue
import time

from perdure.core.errors import PerdureError
from perdure.stores.sqlite import SqliteStore

from .hand import Hand

SPAWN = multiprocessing.get_context("spawn")
PATIENCE = 60


def together(function, count, *arguments):
    """Run `function(barrier, *arguments)` in several processes at once; what each returned."""
    barrier, results = SPAWN.Barrier(count), SPAWN.Queue()
    processes = [SPAWN.Process(target=_report, args=(function, results, barrier, *arguments)) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        return [results.get(timeout=PATIENCE) for _ in processes]
    except queue.Empty:
        raise AssertionError(f"exit codes {[process.exitcode for process in processes]}") from None
    finally:
        for process in processes:
            process.join(PATIENCE)
            process.close()
        results.close()


def _report(function, results, barrier, *arguments):
    try:
        results.put(function(barrier, *arguments))
    except BaseException as error:
        barrier.abort()
        results.put(repr(error))
        raise


def open_all(barrier, paths):
    """Open each path together with the others; the identities seen."""
    seen = []
    for path in paths:
        store = SqliteStore(path)
        barrier.wait(PATIENCE)
        store.open()
        seen.append(store.uid)
        store.close()
    return seen


def start_one_id(barrier, path, rounds):
    """Start the same ids together with the others; how many this process created, and the numbers it got."""
    store = SqliteStore(path)
    store.open()
    hand = Hand(store)
    created, numbers = 0, []
    for each in range(rounds):
        barrier.wait(PATIENCE)
        started = hand.do(hand.a_start(f"run-{each}"))
        created += started.created
        numbers.append(started.run.number)
    store.close()
    return created, numbers


def claim_all(barrier, path):
    """Claim a few runs at a time until there are none; the numbers claimed."""
    store = SqliteStore(path)
    store.open()
    hand = Hand(store)
    barrier.wait(PATIENCE)
    claimed = []
    while some := hand.claim(limit=3):
        claimed += [owned.number for owned in some]
    store.close()
    return claimed


def answer_once(barrier, path, promises):
    """Answer the same promises together with the others; how many times this process was the one."""
    store = SqliteStore(path)
    store.open()
    hand = Hand(store)
    won = 0
    for promise in promises:
        barrier.wait(PATIENCE)
        try:
            hand.answer(promise, uid=f"{os.getpid()}")
            won += 1
        except PerdureError:
            pass
    store.close()
    return won


def own_a_run_and_hang(path, connection, *, fork):
    """Claim the due runs and wait to be killed, perhaps with a forked child that outlives this process."""
    store = SqliteStore(path)
    store.open()
    hand = Hand(store)
    hand.claim()
    child = 0
    if fork:
        child = os.fork()
        if child == 0:
            time.sleep(PATIENCE)
            os._exit(0)
    connection.send((hand.number, child))
    time.sleep(PATIENCE)
