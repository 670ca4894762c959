"""Drift: a step that is asked for with other arguments than recorded. Its result stands; people are told which argument."""

import asyncio
import random
import time
import uuid

import pytest

from perdure import now, rng, step, uuid4, workflow
from perdure.cli.explaining import explain
from perdure.core.entry import Kind

from .tools import blocked, journal_of, kinds, replayed


@step(name="drift.model")
async def model(prompt: str, temperature: float = 0.0, *, options: dict[str, int] | None = None) -> str:
    return f"answer to {prompt}"


@pytest.mark.parametrize(
    "draw", [time.time, lambda: str(uuid.uuid4()), random.random, lambda: time.strftime("%s") + str(time.monotonic_ns())]
)
async def test_s24_a_clock_or_a_random_number_in_a_body_is_named_on_the_first_run(perdure_app, draw):
    bodies = []

    @step
    async def tag(text: str, stamp: str | float) -> str:
        bodies.append(stamp)
        return text

    @workflow
    async def agent() -> str:
        result = await tag("report", draw())
        await asyncio.sleep(60)
        return result

    run = await perdure_app.start(agent())
    why = await blocked(run, "PRD-406")
    assert "; " not in why.reason, "the other argument is the same"
    assert "stamp was " in why.reason
    assert str(bodies[0]) in why.reason
    assert "now(), rng() and uuid4()" in why.hint
    assert "in agent" in why.where
    assert len(bodies) == 1
    assert len(why.recorded) == len(why.asked) == 1
    assert "tag#0" in why.recorded[0]
    assert "tag#0" in why.asked[0]
    assert await kinds(run) == ["started", "step"]


async def test_s24_what_perdure_offers_instead_is_no_drift(perdure_app):
    @step
    async def tag(at: str, id: str, number: float) -> str:
        return f"{at} {id} {number}"

    @workflow
    async def agent() -> bool:
        seen = []
        for _ in range(3):
            seen.append(await tag(now().isoformat(), str(uuid4()), rng().random()))
            await asyncio.sleep(60)
        return len(set(seen)) == 3

    run = await perdure_app.start(agent())
    assert await run.result() is True
    assert (await run.info()).drifts == []


def deploy(*args, **kwargs):
    @workflow(name="drifts.agent")
    async def agent() -> list[str]:
        first = await model(*args, **kwargs)
        await asyncio.sleep(3600)
        return [first, await model("last")]

    return agent


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (("old",), ("new",), 'prompt was "old", now "new"'),
        (("same", 0.5), ("same", 0.7), "temperature was 0.5, now 0.7"),
        (("old", 0.5), ("new", 0.7), 'prompt was "old", now "new"; temperature was 0.5, now 0.7'),
        (("same",), ("same", 0.7), "temperature was not given, now 0.7"),
        (("same", {"options": {"a": 1}}), ("same", {"options": {"a": 2}}), 'options was {"a":1}, now {"a":2}'),
        (("x" * 5000,), ("y" * 5000,), 'recorded (large), now ["yyyyy'),
        (("x" * 500,), ("y" * 500,), f'prompt was "{"x" * 199}…, now "{"y" * 199}…'),
    ],
)
async def test_s05_drift_under_changed_code_is_shown_and_the_run_goes_on(make_app, before, after, told):
    def call(given):
        named = given[-1] if isinstance(given[-1], dict) else {}
        return deploy(*(each for each in given if not isinstance(each, dict)), **named)

    async with make_app(strict=False) as app:
        run = await app.start(call(before)())
        await app.settle()
        assert (await run.info()).drifts == []
        call(after)
        await app.crash()
        run = app.handle(run.id)
        result = await run.result()
        assert result == [f"answer to {before[0]}", "answer to last"]
        [drift] = (await run.info()).drifts
        assert drift.startswith("/drift.model#0 is asked for with other arguments than recorded: ")
        assert told in drift
        assert len(drift) <= 500
        assert await run.published() == {}, "it is kept beside the run, not among what its code shows"


async def test_s05_why_shows_the_drift_of_a_run_that_goes_on(make_app):
    async with make_app(strict=False) as app:
        run = await app.start(deploy("old")(), id="drifts")
        await app.settle()
        deploy("new")
        row = await app.gate.read(lambda: app.gate.store.run("drifts"))
        told = await explain(app, row, replay=True)
        said = 'Drift: /drift.model#0 is asked for with other arguments than recorded: prompt was "old", now "new". '
        assert f"{said}The recorded result stands." in told.notes
        # Without replaying it, as soon as a worker had the run.
        await app.crash()
        await app.advance("1m")
        run = app.handle("drifts")
        await run.send("anything")
        await app.settle()
        assert await run.status() == "waiting"
        told = await explain(app, await app.gate.read(lambda: app.gate.store.run("drifts")), replay=False)
        assert [note for note in told.notes if 'prompt was "old", now "new"' in note]


async def test_what_cannot_be_stored_never_drifts(perdure_app):
    """A client or a callable is new in each process: it is left out of what counts."""

    @step
    async def call(client: object, prompt: str) -> str:
        return prompt

    @workflow
    async def agent() -> str:
        result = await call(object(), "same")
        await asyncio.sleep(60)
        return result + await call(lambda: None, "other")

    run = await perdure_app.start(agent())
    assert await run.result() == "sameother"
    assert (await run.info()).drifts == []


async def test_arguments_that_are_not_recorded_are_compared_and_not_shown(make_app):
    def deploy(secret):
        @step(name="drift.login", record_args=False)
        async def login(password: str) -> str:
            return "token"

        @workflow(name="drifts.secret")
        async def agent() -> str:
            token = await login(secret)
            await asyncio.sleep(60)
            return token

        return agent

    async with make_app(strict=False) as app:
        run = await app.start(deploy("secret one")())
        await app.settle()
        deploy("secret two")
        assert await run.result() == "token"
        [drift] = (await run.info()).drifts
        assert "secret" not in drift.removeprefix("/drifts.secret")
        assert "/drift.login#0" in drift
        assert not any(each.arguments for each in await run.history())


async def test_a_replay_lists_each_step_that_drifted_once(make_app):
    def deploy(extra):
        @workflow(name="drifts.several")
        async def agent() -> int:
            for n in range(4):
                await model(f"prompt {n}{extra if n % 2 else ''}")
            await asyncio.sleep(60)
            return 4

        return agent

    async with make_app(strict=False) as app:
        run = await app.start(deploy("")())
        await app.settle()
        deploy("!")
        execution = await replayed(app, run, await journal_of(app, run))
        assert [each.key for each in execution.drifts] == ["/drift.model#1", "/drift.model#3"]
        assert await run.result() == 4
        assert len((await run.info()).drifts) == 2
        assert (await kinds(run)).count(Kind.STEP) == 4


async def test_many_long_drifts_are_shown(make_app):
    """Too large for the row that they are kept in."""

    @step
    async def model(prompt: str) -> int:
        return len(prompt)

    def deploy(word):
        @workflow(name="drift.many")
        async def many() -> int:
            lengths = [await model(f"{number} {word * 100}") for number in range(30)]
            await asyncio.sleep(60)
            return len(lengths)

        return many

    async with make_app(strict=False) as app:
        run = await app.start(deploy("old")())
        await app.settle()
        deploy("new")
        assert await run.result() == 30
        drifts = (await run.info()).drifts
        assert len(drifts) == 20
        assert "prompt was" in drifts[0]
