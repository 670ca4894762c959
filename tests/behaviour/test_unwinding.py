"""Unwinding: what the code of a cancelled run may still do, for how long, and what happens to what it leaves open."""

import asyncio

import pytest

from perdure import ask, receive, step, workflow

from .tools import cancelled, kinds, lines, until


async def test_a_run_that_blocks_while_it_unwinds_ends_all_the_same(perdure_app):
    app = perdure_app

    @workflow
    async def unwinds_badly() -> None:
        try:
            await receive("go")
        finally:
            await asyncio.get_running_loop().run_in_executor(None, print)

    run = await app.start(unwinds_badly())
    await app.settle()
    await run.cancel()
    await cancelled(run)
    assert await kinds(run) == ["started", "cancel"]


async def test_steps_of_the_unwinding_survive_a_crash(perdure_app):
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step
    async def undo(n: int) -> int:
        bodies.append(n)
        if bodies == [1, 2]:
            going.set()
            await asyncio.Event().wait()
        return n

    @workflow
    async def tidies() -> None:
        try:
            await receive("go")
        finally:
            await undo(1)
            await undo(2)

    run = await app.start(tidies())
    await app.settle()
    await run.cancel()
    await going.wait()
    await app.crash()
    run = app.handle(run.id)
    await cancelled(run)
    assert bodies == [1, 2, 2]
    assert lines(await run.history()) == ["started ", "cancel ", "step undo#0", "begun undo#1", "step undo#1"]


async def test_unwinding_that_takes_longer_than_the_grace_is_cut_off(make_app):
    cut, going = [], asyncio.Event()

    @step
    async def endless() -> None:
        going.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.append(1)
            raise

    @workflow
    async def tidies() -> None:
        try:
            await receive("go")
        finally:
            await endless()

    async with make_app(cancel_grace="5s") as app:
        run = await app.start(tidies())
        await app.settle()
        asked = app.clock.now()
        await run.cancel()
        await going.wait()
        app.clock.jump()
        await cancelled(run)
        assert app.clock.now() - asked == 5_000_000
        assert await kinds(run) == ["started", "cancel", "expired"]
        assert (await run.history())[-1].name == "grace"
        await until(lambda: cut == [1], "the step to be stopped")


async def test_the_grace_counts_from_the_delivery(perdure_app):
    """The request waited an hour for a worker: what unwinds has its whole grace all the same."""
    app, bodies = perdure_app, []

    @step
    async def tidy() -> None:
        bodies.append(1)

    @workflow
    async def waits() -> None:
        try:
            await receive("go")
        finally:
            await asyncio.sleep(20)
            await tidy()

    run = await app.start(waits())
    await app.settle()
    app.worker.draining = True
    await run.cancel()
    app.clock.advance_to(app.clock.now() + 3_600_000_000)
    await app.crash()
    run = app.handle(run.id)
    await cancelled(run)
    assert bodies == [1]
    assert await kinds(run) == ["started", "cancel", "timer", "step"]


async def test_a_body_that_swallows_its_cancellation_is_ended_after_the_grace(perdure_app):
    app, swallowed = perdure_app, []

    @workflow
    async def stubborn() -> None:
        while True:
            try:
                await receive("go")
            except BaseException:
                swallowed.append(1)

    run = await app.start(stubborn())
    await app.settle()
    asked = app.clock.now()
    await run.cancel()
    await cancelled(run)
    assert app.clock.now() - asked == 30_000_000
    assert await kinds(run) == ["started", "cancel", "expired"]
    assert swallowed


@pytest.mark.parametrize("end", ["returns", "raises"])
async def test_however_a_cancelled_body_ends_the_run_is_cancelled(perdure_app, end):
    @workflow
    async def ends() -> str:
        try:
            await receive("go")
        except asyncio.CancelledError:
            if end == "raises":
                raise ValueError("while unwinding") from None
        return "partial"

    run = await perdure_app.start(ends())
    await perdure_app.settle()
    await run.cancel()
    await cancelled(run)


async def test_all_tasks_of_a_run_are_cancelled_or_closed(perdure_app):
    app, seen = perdure_app, []

    @step
    async def note(what: str) -> None:
        seen.append(what)

    async def branch(name):
        try:
            await receive(name)
        except asyncio.CancelledError:
            await note(name)
            raise

    @workflow
    async def fans_out() -> None:
        background = asyncio.create_task(branch("background"))
        async with asyncio.TaskGroup() as group:
            group.create_task(branch("in group"))
            await asyncio.gather(branch("gathered a"), branch("gathered b"))
        await background

    run = await app.start(fans_out())
    await app.settle()
    await run.cancel()
    await cancelled(run)
    assert sorted(seen) == ["gathered a", "gathered b", "in group"]


async def test_an_ask_of_a_cancelled_run_does_not_disturb_its_unwinding(perdure_app):
    """Its deadline falls into the time of unwinding, and somebody in the run still waits for it."""
    app, seen = perdure_app, []

    @step
    async def note(what: str) -> None:
        seen.append(what)

    async def listen(question):
        try:
            await question
        except asyncio.CancelledError:
            await note("the ask was cancelled")

    @workflow
    async def asks() -> None:
        question = ask("well?", timeout="10s", default=True)
        listener = asyncio.create_task(listen(question))
        try:
            await receive("go")
        finally:
            await asyncio.sleep(20)
            await listener
            await note("tidied")

    run = await app.start(asks())
    await app.settle()
    await run.cancel()
    await cancelled(run)
    assert seen == ["the ask was cancelled", "tidied"]
    assert await kinds(run) == ["started", "opened", "cancel", "step", "timer", "step"]


async def test_a_run_may_ask_while_it_unwinds(perdure_app):
    app, answers = perdure_app, []

    @step
    async def note(answer: bool) -> None:
        answers.append(answer)

    @workflow
    async def asks() -> None:
        try:
            await receive("go")
        finally:
            await note(await ask("really?"))

    run = await app.start(asks())
    await app.settle()
    await run.cancel()
    question = await app.next_ask()
    await app.answer(question.id, True)
    await cancelled(run)
    assert answers == [True]
