"""What type checkers make of schemas: asks, promises and messages. Checked, never run: see `test_types.py`."""

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, assert_type
from uuid import UUID

from perdure import (
    App,
    Handle,
    HistoryEntry,
    Message,
    OpenPromise,
    Page,
    Promise,
    RunInfo,
    Status,
    ask,
    current_run,
    current_step,
    now,
    patched,
    promise,
    publish,
    receive,
    rng,
    send,
    sleep_until,
    uuid4,
)


@dataclass
class Verdict:
    ok: bool
    reason: str = ""


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict):
    limit: int


Choice = Literal["ship", "wait", "drop"]


async def asks() -> None:
    opened = ask("Publish?")
    assert_type(opened, Promise[bool])
    assert_type(await opened, bool)
    assert_type(ask("Publish?", to="anna", timeout="7d", default=False), Promise[bool])
    assert_type(await ask("What?", schema=str), str)
    assert_type(await ask("Which?", schema=Literal["ship", "wait", "drop"]), Literal["ship", "wait", "drop"])
    assert_type(await ask("Which?", schema=Choice), Choice)
    assert_type(await ask("How many?", schema=int | None), int | None)
    assert_type(await ask("Which?", schema=list[str]), list[str])
    assert_type(await ask("Where to?", schema=dict[str, list[Verdict]]), dict[str, list[Verdict]])
    assert_type(await ask("Well?", schema=Verdict), Verdict)
    assert_type(await ask("Well?", schema=Verdict | str), Verdict | str)
    assert_type(await ask("Colour?", schema=Colour), Colour)
    assert_type(await ask("Where?", schema=Point), Point)
    assert_type(await ask("How?", schema=Options), Options)
    assert_type(await ask("How many?", schema=Annotated[int, "positive"]), int)
    assert_type(ask("How many?", schema=int, default=3), Promise[int])
    assert_type(ask("How many?", schema=int | None, timeout=5, default=None), Promise[int | None])
    assert_type(opened.id, str)
    assert_type(opened.url, str)
    assert_type(opened.done, bool)
    assert_type(opened.answered_by, str | None)
    waits: Awaitable[bool] = opened
    del waits


async def promises() -> None:
    assert_type(promise("paid"), Promise[Any])
    assert_type(promise("paid", timeout="1d"), Promise[Any])
    assert_type(promise("paid", schema=Verdict), Promise[Verdict])
    assert_type(await promise("paid", schema=int | str, timeout="1d"), int | str)


async def messages() -> None:
    assert_type(await receive("message"), Message[Any])
    assert_type(await receive("message", "stop", timeout="1h"), Message[Any])
    message = await receive("message", schema=Verdict)
    assert_type(message, Message[Verdict])
    assert_type(message.value, Verdict)
    assert_type(message.name, str)
    assert_type(message.sender, str | None)
    assert_type((await receive("message", schema=Choice)).value, Choice)
    assert_type((await receive("a", "b", schema=str | list[int])).value, str | list[int])
    assert_type(await message.reply({"ok": True}), None)
    assert_type(await send("other", "message", [1, 2]), None)


async def surroundings() -> None:
    assert_type(now(), datetime)
    assert_type(uuid4(), UUID)
    assert_type(rng().random(), float)
    assert_type(patched("change"), bool)
    assert_type(current_run().id, str)
    assert_type(current_run().tags, tuple[str, ...])
    assert_type(current_step().attempt, int)
    assert_type(current_step().idempotency_key, str)
    assert_type(await sleep_until(now()), None)
    await publish("progress", 3)


async def outside(app: App, run: Handle[str]) -> None:
    assert_type(await run.status(), Status)
    assert_type(await run.info(), RunInfo)
    assert_type(await run.cancel(), Status)
    assert_type(await run.history(), list[HistoryEntry])
    assert_type([info async for info in run.watch()], list[RunInfo])
    assert_type(await run.request("question", 1, timeout="5s"), Any)
    assert_type(await run.send("message", 1, id="m-1"), None)
    assert_type(await app.runs(status=Status.FAILED, tag="a"), Page[RunInfo])
    assert_type((await app.inbox()).items, list[OpenPromise])
    assert_type(await app.answer("ask-1", True, by="anna"), None)


async def wrong() -> None:
    ask("How many?", int)  # type: ignore[call-overload]
    ask("Publish?", default="no")  # type: ignore[call-overload]
    promise("paid", schema=3)  # type: ignore[call-overload]
    text: str = await ask("Publish?")  # type: ignore[assignment]
    message: Message[str] = await receive("a", schema=int)  # type: ignore[arg-type]
    del text, message
    await receive(3)  # type: ignore[call-overload]
    await sleep_until(3)  # type: ignore[arg-type]
