"""Workflow code that the loop has to stop: it says which code, and where it stands."""

import asyncio

from perdure import step, workflow
from tests.behaviour.tools import blocked


async def test_waiting_for_what_can_never_come_names_the_place(perdure_app):
    @step
    async def before() -> int:
        return 1

    async def deeper() -> None:
        await asyncio.Event().wait()

    @workflow
    async def stuck() -> None:
        await before()
        await deeper()

    found = await blocked(await perdure_app.start(stuck()), "PRD-404")
    assert f"{__file__}:" in found.where
    assert found.where.endswith("in deeper")
    assert "an unknown place" not in found.reason


async def test_every_unfinished_task_is_named(perdure_app):
    async def one() -> None:
        await asyncio.Event().wait()

    async def other() -> None:
        await asyncio.Event().wait()

    @workflow
    async def stuck() -> None:
        await asyncio.gather(one(), other())

    found = await blocked(await perdure_app.start(stuck()), "PRD-404")
    assert {place.rsplit(" ", 1)[-1] for place in found.where.split("; ")} >= {"one", "other"}
