"""Stores for tests: each behaviour is tested on a file and in memory."""

import pytest

from perdure.stores.sqlite import SqliteStore

from .hand import Hand


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    store = SqliteStore(":memory:" if request.param == "memory" else str(tmp_path / "perdure.db"), busy_timeout=5.0)
    store.open()
    yield store
    store.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "perdure.db")


@pytest.fixture
def file_store(path):
    store = SqliteStore(path, busy_timeout=5.0)
    store.open()
    yield store
    store.close()


@pytest.fixture
def hand(store):
    return Hand(store)
