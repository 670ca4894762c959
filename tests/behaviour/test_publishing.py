"""Published values: readable from outside while the run goes on, the newest one stands, recorded once."""

import asyncio

import pytest

from perdure import NotStorable, RunFailed, publish, receive, step, workflow

from .tools import FaultyStore, kinds, lines, until


async def test_a_published_value_is_there_when_publishing_returns(perdure_app):
    app, seen = perdure_app, []

    @step
    async def looks(run_id: str) -> None:
        seen.append(await app.handle(run_id).published())

    @workflow
    async def shows() -> None:
        await publish("phase", "one")
        await looks("shows")
        await publish("phase", {"two": [1, None]})
        await publish("other", 1.5)
        await looks("shows")

    run = await app.start(shows(), id="shows")
    await run.result()
    assert seen == [{"phase": "one"}, {"phase": {"two": [1, None]}, "other": 1.5}]
    assert lines(await run.history()) == [
        "started ",
        "published /publish#0",
        "step looks#0",
        "published /publish#1",
        "published /publish#2",
        "step looks#1",
    ]


async def test_values_stand_over_crashes_and_after_the_end(perdure_app):
    app = perdure_app

    @workflow
    async def shows() -> str:
        await publish("phase", "waiting")
        value = (await receive("go")).value
        await publish("phase", f"got {value}")
        return "end"

    run = await app.start(shows())
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    assert await run.get("phase") == "waiting"
    assert await run.get("nothing") is None
    await run.send("go", 1)
    assert await run.result() == "end"
    await app.crash()
    run = app.handle(run.id)
    assert await run.get("phase") == "got 1"
    assert (await kinds(run)).count("published") == 2


async def test_parallel_tasks_publish_each_under_its_own_key(perdure_app):
    app = perdure_app

    @workflow
    async def shows() -> None:
        async def work(name: str) -> None:
            await publish(name, "begun")
            await asyncio.sleep(1)
            await publish(name, "done")

        await asyncio.gather(work("a"), work("b"), work("c"))

    run = await app.start(shows())
    await app.settle()
    assert await run.published() == dict.fromkeys("abc", "begun")
    await run.result()
    assert await run.published() == dict.fromkeys("abc", "done")
    keys = [each.key for each in await run.history() if each.kind == "published"]
    assert len(set(keys)) == 6


async def test_a_value_that_cannot_be_stored_is_refused_where_it_is_published(perdure_app):
    app = perdure_app

    @step
    async def in_a_step() -> None:
        await publish("bad", object())

    @workflow
    async def shows() -> list[str]:
        seen = []
        for value in (object(), float("inf"), float("nan")):
            try:
                await publish("bad", value)
            except NotStorable as error:
                seen.append(error.code)
        await publish("good", 1)
        try:
            await in_a_step()
        except NotStorable as error:
            seen.append(error.code)
        return seen

    run = await app.start(shows())
    assert await run.result() == ["PRD-301"] * 4
    assert await run.published() == {"good": 1}


async def test_a_value_over_the_cap_fails_the_run_once_and_says_why(make_app):
    async with make_app(payload_cap=10_000) as app:

        @workflow
        async def shows() -> None:
            await publish("big", "x" * 20_000)

        run = await app.start(shows())
        with pytest.raises(RunFailed, match="the value is 20,002 bytes"):
            await run.result()
        assert await run.published() == {}


async def test_a_step_shows_how_far_it_is_and_a_later_attempt_goes_on(perdure_app):
    app, going, release, attempts = perdure_app, asyncio.Queue(), asyncio.Event(), []

    @step
    async def works() -> str:
        attempts.append(1)
        await publish("percent", 10 * len(attempts))
        going.put_nowait(1)
        await release.wait()
        await publish("percent", 100)
        return "worked"

    @workflow
    async def shows() -> str:
        return await works()

    run = await app.start(shows())
    for attempt in (1, 2):
        await going.get()
        run = app.handle(run.id)
        await until(lambda now=run, value=10 * attempt: _is(now, "percent", value), "the value")
        if attempt == 1:
            await app.crash()
    release.set()
    assert await app.handle(run.id).result() == "worked"
    assert await app.handle(run.id).published() == {"percent": 100}
    assert await kinds(app.handle(run.id)) == ["started", "begun", "step"]


async def test_a_write_that_fails_is_repeated_and_shows_the_newest_value(perdure_app):
    app, going, release = perdure_app, asyncio.Event(), asyncio.Event()

    @step
    async def works() -> None:
        await publish("n", 1)
        going.set()
        await release.wait()
        await publish("n", 2)

    @workflow
    async def shows() -> None:
        await works()

    faulty = FaultyStore.between(app)
    left = faulty.fail(2, lambda change: getattr(change, "published", None))
    run = await app.start(shows())
    await going.wait()
    await until(lambda: left == [1], "the first failure")
    release.set()
    await app_passes(app, lambda: left == [0])
    await app_passes(app, lambda: _ended(run))
    assert await run.published() == {"n": 2}


async def app_passes(app, condition):
    """Let the pauses between tries pass until a condition holds: a worker that tries again is not idle, so time stands."""

    async def holds():
        app.clock.jump()
        value = condition()
        return await value if asyncio.iscoroutine(value) else value

    await until(holds, "the writes")


async def _is(run, key, value):
    return await run.get(key) == value


async def _ended(run):
    return (await run.info()).ended_at
