"""What type checkers make of workflows, steps and their calls. Checked, never run: see `test_types.py`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, assert_type

from perdure import App, Call, ChildHandle, Handle, Retry, Step, Workflow, start, step, workflow
from perdure.call import StepCall, WorkflowCall

T = TypeVar("T")


@dataclass
class Report:
    text: str


# ── definitions ─────────────────────────────────────────────────────────────────────────────────────────────────────


@step
async def search(query: str, *, limit: int = 10) -> list[str]:
    return [query] * limit


@step
def read(path: str) -> bytes:
    return path.encode()


@step(retry=3, timeout="60s")
async def summarise(texts: list[str]) -> str:
    return texts[0]


@step(name="billing.charge", once=True, retry=Retry(attempts=2))
def charge(cents: int) -> Report:
    return Report(str(cents))


@step
async def first_of(items: Sequence[T]) -> T:
    return items[0]


@step(record_args=False)
async def last_of(items: Sequence[T]) -> T:
    return items[-1]


class Client:
    @step
    async def fetch(self, url: str) -> bytes:
        return url.encode()

    @step(retry=2)
    def count(self, url: str, *, times: int = 1) -> int:
        return len(url) * times

    @staticmethod
    @step
    async def ping(host: str) -> float:
        return float(len(host))


@workflow
async def research(topic: str, depth: int = 1) -> str:
    return topic * depth


@workflow(name="agents.review", deadline="7d")
async def review(report: Report) -> Report:
    return report


@workflow
async def nothing() -> None: ...


# ── their types ─────────────────────────────────────────────────────────────────────────────────────────────────────


def definitions() -> None:
    assert_type(research("llamas"), WorkflowCall[str])
    assert_type(review(Report("")), WorkflowCall[Report])
    assert_type(nothing(), WorkflowCall[None])
    assert_type(search("llamas", limit=3), StepCall[list[str]])
    assert_type(read("a.txt"), StepCall[bytes])
    assert_type(summarise([]), StepCall[str])
    assert_type(charge(5), StepCall[Report])
    assert_type(summarise.options(key="7", retry=2, timeout="5s")([]), StepCall[str])
    assert_type(research.name, str)
    assert_type(search.name, str)

    a_call: Call[str] = research("llamas")
    a_coroutine: Coroutine[Any, Any, str] = research("llamas")
    an_awaitable: Awaitable[bytes] = read("a.txt")
    wider: Call[object] = a_call  # what a call gives may be looked at as something wider
    a_function: Callable[[list[str]], Awaitable[str]] = summarise
    a_step: Step[[str], bytes] = read
    a_workflow: Workflow[[Report], Report] = review
    del a_call, a_coroutine, an_awaitable, wider, a_function, a_step, a_workflow


async def methods(client: Client) -> None:
    assert_type(client.fetch("/"), StepCall[bytes])
    assert_type(client.count("/", times=2), StepCall[int])
    assert_type(client.fetch.options(key="x")("/"), StepCall[bytes])
    assert_type(await client.fetch("/"), bytes)
    assert_type(await client.count("/"), int)
    assert_type(await Client.ping("localhost"), float)
    assert_type(await Client.fetch(client, "/"), bytes)


async def generics() -> None:
    assert_type(await first_of([1, 2]), int)
    assert_type(await first_of(["a"]), str)
    assert_type(await last_of([1.5]), float)


# ── outside of runs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def outside(app: App) -> None:
    run = await app.start(research("llamas"), id="report-7", tags=["a"], if_exists="reject", send=("message", 1))
    assert_type(run, Handle[str])
    assert_type(await run.result(), str)
    assert_type(await run.result(timeout="5s"), str)
    assert_type(await app.run(review(Report(""))), Report)
    assert_type(await app.run(nothing(), id="n"), None)
    assert_type(await (await app.start(review(Report("")), delay="1h")).result(), Report)
    assert_type(await app.start("agents.research", args={"topic": "llamas"}), Handle[Any])
    assert_type(await app.start("agents.research", args=["llamas"]), Handle[Any])
    assert_type(app.handle("report-7"), Handle[Any])


# ── inside of runs ──────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def inside(topic: str) -> str:
    assert_type(await search(topic), list[str])
    assert_type(await read("a.txt"), bytes)
    assert_type(await research(topic), str)
    child = await start(research(topic), id="child", detached=True, tags=["a"])
    assert_type(child, ChildHandle[str])
    assert_type(await child, str)
    assert_type(await child.result(), str)
    assert_type(child.id, str)

    assert_type(await asyncio.gather(search(topic), read("a.txt")), tuple[list[str], bytes])
    assert_type(await asyncio.gather(*(search(f"{topic} {year}") for year in (2024, 2025))), list[list[str]])
    assert_type(await asyncio.wait_for(summarise([topic]), 5), str)
    task = asyncio.create_task(summarise([topic]))
    assert_type(task, asyncio.Task[str])
    async with asyncio.TaskGroup() as group:
        grouped = group.create_task(charge(5))
    assert_type(grouped.result(), Report)
    return await task


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def wrong(app: App, client: Client) -> None:
    research(7)  # type: ignore[arg-type]
    research()  # type: ignore[call-arg]
    research("llamas", breadth=2)  # type: ignore[call-arg]
    search("llamas", 3)  # type: ignore[call-arg]
    summarise("text")  # type: ignore[arg-type]
    summarise.options(attempts=3)  # type: ignore[call-arg]
    client.fetch(7)  # type: ignore[arg-type]
    client.fetch()  # type: ignore[call-arg]

    await app.start(search("llamas"))  # type: ignore[call-overload]
    await app.start(research)  # type: ignore[call-overload]
    await app.start(research("llamas"), args={})  # type: ignore[call-overload]
    await start(search("llamas"))  # type: ignore[arg-type]

    text: str = search("llamas")  # type: ignore[assignment]
    number: int = await research("llamas")  # type: ignore[assignment]
    del text, number

    step(retry="3")  # type: ignore[call-overload]
    step(undo_with=print)  # type: ignore[call-overload]
    workflow(retry=3)  # type: ignore[call-overload]

    @workflow  # type: ignore[arg-type]
    def not_async(topic: str) -> str:
        return topic
