"""The public API's types, checked by mypy and pyright; never run."""

from __future__ import annotations

from typing import Literal, assert_type

from perdure import App, Handle, Promise, ask, promise, receive, start, step, workflow
from perdure.child import ChildHandle


@step(retry=3, timeout="60s")
async def search(query: str) -> list[str]:
    return [query]


@step
def count(items: list[str]) -> int:
    return len(items)


class Shop:
    @step
    async def price(self, item: str) -> float:
        return float(len(item))


@workflow
async def research(topic: str) -> str:
    hits = await search(topic)
    assert_type(hits, list[str])
    assert_type(await count(hits), int)
    assert_type(await search.options(key="call-1")(topic), list[str])
    assert_type(await Shop().price("tea"), float)
    assert_type(ask("Publish?"), Promise[bool])
    assert_type(ask("Publish?", schema=Literal["yes", "no"]), Promise[Literal["yes", "no"]])
    assert_type(ask("How many?", schema=int | None), Promise[int | None])
    assert_type(await promise("payment", schema=int), int)
    message = await receive("note", schema=str)
    assert_type(message.value, str)
    return topic


@workflow(deadline="1d")
async def parent() -> int:
    assert_type(await research("llamas"), str)
    assert_type(await start(research("llamas")), ChildHandle[str])
    return 1


async def outside(app: App) -> None:
    run = await app.start(research("llamas"), id="report-7")
    assert_type(run, Handle[str])
    assert_type(await run.result(), str)
    assert_type(await app.run(parent()), int)
    await app.start(research(3))  # type: ignore[arg-type]
    await search(1)  # type: ignore[arg-type]
