"""The workflows and steps that the benchmarks run. The processes that they start import this module too."""

import asyncio
import random
from datetime import datetime
from functools import lru_cache

from perdure import current_run, receive, sleep_until, step, workflow

TEXT = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz 0123456789", k=1024))


@lru_cache(maxsize=64)
def text_of(seed, size):
    """Some text of a given size, the same for the same seed."""
    words = random.Random(seed).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .", k=size)
    return "".join(words)


@step(name="benchmark.work")
async def work(i: int) -> dict:
    """The body that most workloads run: a dictionary with 1 KiB of text."""
    return {"i": i, "text": TEXT}


@workflow(name="benchmark.sequence")
async def sequence(steps: int) -> int:
    """So many steps, one after another."""
    total = 0
    for i in range(steps):
        total += (await work(i))["i"]
    return total


@workflow(name="benchmark.fan_of_steps")
async def fan_of_steps(width: int) -> int:
    """So many steps at once."""
    results = await asyncio.gather(*(work(i) for i in range(width)))
    return len(results)


@workflow(name="benchmark.fan_of_children")
async def fan_of_children(width: int) -> int:
    """So many child runs at once, of one step each."""
    results = await asyncio.gather(*(sequence(1) for _ in range(width)))
    return len(results)


@workflow(name="benchmark.waiting")
async def waiting() -> str:
    """Waits for one message."""
    return (await receive("go")).value


@workflow(name="benchmark.sleeping")
async def sleeping(until: datetime) -> None:
    """Sleeps until one moment."""
    await sleep_until(until)


@step(name="benchmark.reached")
async def reached() -> None:
    """Says that the run has come here; `notice` is set by the process that wants to know."""
    await notice()


async def notice():
    """Replaced by `benchmarks.recovering`."""


@workflow(name="benchmark.recovered")
async def recovered(steps: int) -> None:
    """So many steps, then one that the first process never ends."""
    for i in range(steps):
        await work(i)
    await reached()


# ── agents ──────────────────────────────────────────────────────────────────────────────────────────────────────────

QUESTION, REPLY = 1024, 4096
"""What a turn of the conversation adds, in bytes."""


@step(name="benchmark.converse")
async def converse(messages: list) -> dict:
    """A model's answer to all messages so far."""
    return {"role": "assistant", "content": text_of(len(messages), REPLY)}


@workflow(name="benchmark.conversation")
async def conversation(turns: int) -> int:
    """A thread of so many turns; each call of the model gets the whole of it."""
    messages = []
    for turn in range(turns):
        messages.append({"role": "user", "content": text_of(-turn - 1, QUESTION)})
        messages.append(await converse(messages))
    return len(messages)


@step(name="benchmark.model")
async def model(messages: list) -> dict:
    """A model that asks for a tool."""
    return {"role": "assistant", "tool": "search", "content": text_of(f"{messages[0]['content']} {len(messages)}", 4096)}


@step(name="benchmark.tool")
async def tool(query: str) -> dict:
    """A tool."""
    return {"role": "tool", "content": text_of(query, 4096)}


@workflow(name="benchmark.agent")
async def agent(turns: int) -> str:
    """An agent: a model's step and a tool's step per turn."""
    task = f"Find out about llama {current_run().id}."  # no two runs share content
    messages = [{"role": "user", "content": task}]
    for turn in range(turns):
        messages.append(await model(messages))
        messages.append(await tool(f"{task} {turn}"))
    return messages[-1]["content"][:100]
