"""Several processes on one file at once."""

import itertools

import pytest

from perdure.stores.sqlite import SqliteStore

from . import programs
from .hand import Hand, a_promise

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


def test_p54_eight_processes_open_an_empty_database_at_once(tmp_path):
    paths = [str(tmp_path / f"{n}.db") for n in range(10)]
    seen = programs.together(programs.open_all, 8, paths)
    assert all(len(identities) == len(paths) for identities in seen), seen
    for n, path in enumerate(paths):
        assert len({identities[n] for identities in seen}) == 1
        store = SqliteStore(path)
        store.open()
        assert store.uid == seen[0][n]
        assert store.check() == []
        store.close()


def test_p04_eight_processes_start_the_same_ids(file_store, path):
    rounds = 20
    results = programs.together(programs.start_one_id, 8, path, rounds)
    assert sum(created for created, _ in results) == rounds
    assert len({tuple(numbers) for _, numbers in results}) == 1
    assert file_store.count_runs() == {"queued": rounds}


def test_two_claimers_never_share_a_run(file_store, path):
    hand = Hand(file_store)
    hand.commit(*(hand.a_start(f"run-{n}") for n in range(300)))
    claimed = programs.together(programs.claim_all, 2, path)
    assert sorted(itertools.chain(*claimed)) == list(range(1, 301))
    assert len(file_store.runs_by_number(list(range(1, 301)))) == 300


def test_p02_several_processes_answer_the_same_promises(file_store, path):
    hand = Hand(file_store)
    owned = hand.take()
    ids = [f"p{n}" for n in range(10)]
    hand.advance(owned, 1, opened=[a_promise(each, each) for each in ids])
    assert sum(programs.together(programs.answer_once, 3, path, ids)) == len(ids)
    assert len(file_store.messages_for(owned.number)) == len(ids)
