"""Databases that cannot be used, and one that is full: a clear error, the file untouched, the runs go on when they can."""

import asyncio
import os
import random
import sqlite3

import pytest

from perdure import App, ConfigurationError, StoreCorrupt, StoreFull, StoreNewer, StoreUnavailable, ask, step, workflow
from perdure.stores.base import Answer

from .tools import FaultyStore, kinds, until


@workflow
async def one() -> int:
    return 1


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def refused(make_app, path, folder, error, code, *told):
    """Opening says what is wrong and changes nothing; the app can be opened once that is mended."""
    before = contents(folder)
    app = make_app(f"sqlite:///{path}")
    for _ in range(2):
        with pytest.raises(error) as caught:
            await app.open()
        text = str(caught.value)
        assert text.startswith(f"[{code}] ")
        assert "\n  → " in text, f"it does not say what to do: {text}"
        for each in (str(path), *told):
            assert each in text
    assert contents(folder) == before
    return app


async def a_database(make_app, path):
    async with make_app(f"sqlite:///{path}") as app:
        assert await app.run(one(), id="old") == 1


@pytest.mark.parametrize(
    "content", [b"not a database", b"\x00" * 8192, b"SQLite format 3\x00" + b"\xff" * 5000], ids=["text", "zeros", "torn"]
)
async def test_a_file_that_is_no_database(make_app, tmp_path, content):
    path = tmp_path / "runs.db"
    path.write_bytes(content)
    app = await refused(make_app, path, tmp_path, StoreCorrupt, "PRD-602", "not touched")
    path.unlink()
    async with app:
        assert await app.run(one()) == 1


async def test_a_damaged_database(make_app, tmp_path):
    path = tmp_path / "runs.db"
    await a_database(make_app, path)
    good = path.read_bytes()
    path.write_bytes(good[:100] + random.Random(1).randbytes(len(good) - 100))
    app = await refused(make_app, path, tmp_path, StoreCorrupt, "PRD-602", "backup")
    path.write_bytes(good)
    async with app:
        assert await app.run(one(), id="old") == 1


async def test_a_newer_database(make_app, tmp_path):
    path = tmp_path / "runs.db"
    await a_database(make_app, path)
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    app = await refused(make_app, path, tmp_path, StoreNewer, "PRD-603", f"version {version + 1}", "--upgrade")
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    async with app:
        assert await app.run(one(), id="old") == 1


async def test_the_database_of_another_program(make_app, tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    await refused(make_app, path, tmp_path, StoreCorrupt, "PRD-602", "another program")


async def test_a_folder_that_is_not_there(make_app, tmp_path):
    path = tmp_path / "missing" / "runs.db"
    app = await refused(make_app, path, tmp_path, StoreUnavailable, "PRD-604", f"mkdir -p {path.parent}")
    assert not path.parent.exists()
    path.parent.mkdir()
    async with app:
        assert await app.run(one()) == 1


async def test_a_folder_is_no_database(make_app, tmp_path):
    await refused(make_app, tmp_path, tmp_path, StoreUnavailable, "PRD-604")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere; the store's tests drop it"
)
async def test_a_folder_where_one_may_not_write(make_app, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    try:
        await refused(make_app, folder / "runs.db", tmp_path, StoreUnavailable, "PRD-604", "permission")
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("url", ["mysql://x/y", "runs.db", "sqlite://host/file.db", "postgre://x"])
async def test_a_url_that_names_no_store(url):
    app = App(url)
    with pytest.raises(ConfigurationError, match=r"PRD-703(.|\n)*→.*sqlite:///"):
        await app.open()


# ── a full disk ─────────────────────────────────────────────────────────────────────────────────────────────────────


def limit(app, more):
    """Let the database grow by so many pages only."""
    writer = app._kept._store._opened.writer
    ((pages,),) = writer.script("PRAGMA page_count")
    writer.script(f"PRAGMA max_page_count = {pages + more}")


async def test_a_full_disk_stops_nothing_for_good(perdure_app, caplog):
    """Results are kept in memory until there is room; bodies run once; who asks from outside is told at once."""
    app, bodies, room, written = perdure_app, [], asyncio.Event(), random.Random(1)

    @step
    async def large(n: int) -> str:
        await room.wait()
        bodies.append(n)
        return written.randbytes(200_000).hex()

    @workflow
    async def works(n: int) -> int:
        first = len(await large(n))
        await asyncio.sleep(60)
        return first

    @workflow
    async def takes(text: str) -> None: ...

    runs = [await app.start(works(n), id=str(n)) for n in range(3)]
    await until(lambda: len(app.worker.drivers) == 3, "the steps")
    limit(app, 2)
    room.set()
    await until(lambda: [r for r in caplog.records if getattr(r, "perdure_code", "") == "PRD-605"], "the full disk")
    assert sorted(bodies) == [0, 1, 2]
    starting = asyncio.ensure_future(app.start(takes(written.randbytes(200_000).hex()), id="late"))
    await until(lambda: starting.done() or (app.clock.jump() and False), "the refusal")
    error = starting.exception()
    assert isinstance(error, StoreFull)
    assert str(error).startswith("[PRD-605] ")
    assert "make room" in error.hint
    assert await app.handle("0").status() == "running"
    app._kept._store._opened.writer.script("PRAGMA max_page_count = 1000000")
    app.clock.jump()
    assert [await run.result() for run in runs] == [400_000] * 3
    assert sorted(bodies) == [0, 1, 2]
    assert await kinds(runs[0]) == ["started", "step", "timer"]
    assert await app.gate.read(app.gate.store.check) == []
    assert await app.run(takes("small"), id="late") is None


async def test_an_answer_that_met_a_full_disk_can_be_given_again(perdure_app):
    app = perdure_app

    @workflow
    async def asks() -> str:
        return await ask("Name?", schema=str)

    run = await app.start(asks())
    question = await app.next_ask()
    store = FaultyStore.between(app)

    def full(batch, write):
        if any(isinstance(change, Answer) for change in batch.changes):
            raise StoreFull("the disk is full", hint="make room")
        return write(batch)

    store.on_commit = full
    for _ in range(3):
        with pytest.raises(StoreFull):
            await app.answer(question.id, "ann")
        app.clock.jump()
    assert [each.id for each in (await app.inbox()).items] == [question.id]
    store.on_commit = None
    await app.answer(question.id, "ann")
    assert await run.result() == "ann"
