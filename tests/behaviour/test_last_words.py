"""What a run sends with its last breath, in the transaction of its end, is there for others at once."""

import asyncio

from perdure import receive, send, workflow


async def test_a_message_sent_at_the_very_end_wakes_a_parked_run_at_once(perdure_app):
    app = perdure_app

    @workflow
    async def hears() -> str:
        return (await receive("word")).value

    @workflow
    async def says(id: str) -> None:
        await asyncio.gather(send(id, "word", "farewell"), return_exceptions=True)

    @workflow
    async def says_without_waiting(id: str) -> None:
        asyncio.ensure_future(send(id, "word", "farewell"))
        await asyncio.sleep(0)

    for speaker in (says, says_without_waiting):
        hearer = await app.start(hears())
        await app.settle()
        before = app.clock.now()
        await app.run(speaker(hearer.id))
        assert await hearer.result() == "farewell"
        assert app.clock.now() - before < 1_000_000, "it was found only by the floor under all hints"
