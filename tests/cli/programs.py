"""Workflows that end up in every state a command may meet."""

import asyncio
import dataclasses
import enum

from perdure import Retry, ask, now, promise, publish, receive, sleep_until, step, workflow


class Verdict(enum.Enum):
    APPROVE = "approve"
    REVISE = "revise"


@dataclasses.dataclass
class Review:
    mark: int
    note: str | None = None


@step
async def find(query: str) -> list[str]:
    return [query.upper(), "x" * 300]


@step(retry=Retry(5, initial="2h", jitter=0))
async def overloaded() -> str:
    raise ConnectionError("the model is overloaded")


@step
async def endless() -> None:
    await asyncio.sleep(3600)


@workflow(name="cli.research")
async def research(topic: str) -> dict[str, str]:
    hits = await find(topic)
    await publish("progress", {"hits": len(hits)})
    return {"topic": topic}


@workflow(name="cli.failing")
async def failing() -> None:
    raise ValueError("there is\nno such topic")


@workflow(name="cli.retrying")
async def retrying() -> str:
    return await overloaded()


@workflow(name="cli.sleeping")
async def sleeping() -> None:
    await asyncio.sleep(7200)


@workflow(name="cli.listening")
async def listening() -> object:
    async with asyncio.timeout(7 * 86_400):
        return (await receive("message", "stop")).value


@workflow(name="cli.hearing")
async def hearing() -> object:
    return (await receive("note")).value


@workflow(name="cli.asking")
async def asking(kind: str) -> object:
    schemas = {"bool": bool, "str": str, "int": int, "enum": Verdict, "review": Review, "any": object, "maybe": bool | None}
    answer = await ask(f"What is your {kind}?", schema=schemas[kind], to="ann")
    return f"{answer!r}"


@workflow(name="cli.promising")
async def promising() -> int:
    return await promise("payment", schema=int)


@workflow(name="cli.parent")
async def parent() -> object:
    return await asking("bool")


@workflow(name="cli.stuck")
async def stuck() -> None:
    await asyncio.Event().wait()


@workflow(name="cli.late")
async def late() -> None:
    await sleep_until(now())


STARTED = {
    "research-1": research("llamas"),
    "research-2": research("alpacas"),
    "failing": failing(),
    "retrying": retrying(),
    "sleeping": sleeping(),
    "listening": listening(),
    "hearing": hearing(),
    "promising": promising(),
    "parent": parent(),
    "stuck": stuck(),
    **{f"asking-{kind}": asking(kind) for kind in ("bool", "str", "int", "enum", "review", "any", "maybe")},
}
"""A run of each, by id. `later` is delayed, `queued` has a workflow that no worker knows."""
