"""The workflows whose journals are kept. Each journal is replayed by every later release: so nothing here may change.

Add new workflows at the end, and record them beside the old ones. `RELEASED` is what a later release of the code looks like.
"""

import asyncio
import contextlib
import contextvars
import datetime as dt
import decimal
import enum
import random
import uuid
from dataclasses import dataclass

from perdure import (
    InDoubt,
    Retry,
    ask,
    current_run,
    now,
    patched,
    promise,
    publish,
    receive,
    rng,
    send,
    sleep_until,
    start,
    step,
    uuid4,
    workflow,
)

RELEASED = True
"""Whether the change that `changed` guards is part of the code."""


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Finding:
    title: str
    score: float
    seen: dt.datetime
    colours: list[Colour]


class OutOfStock(Exception):
    def __init__(self, article, left):
        super().__init__(f"{article}: {left} left")
        self.article, self.left = article, left


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@step
async def echo(value: str) -> str:
    return value


@step
def double(value: int) -> int:
    return 2 * value


@step
async def find(title: str) -> Finding:
    return Finding(title, 0.1 + 0.2, dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC), [Colour.RED, Colour.BLUE])


@step
async def assorted(size: int) -> tuple[bytes, set[int], decimal.Decimal, uuid.UUID, dict[str, float | None]]:
    return (
        bytes(range(size)),
        set(range(size)),
        decimal.Decimal("1.10"),
        uuid.UUID(int=size),
        {"pi": 3.141592653589793, "no": None},
    )


@step
async def long_text(words: int) -> list[str]:
    return [f"word {number} " * 3 for number in range(words)]


@step(retry=Retry(attempts=4, initial="2s", jitter=0.0))
async def flaky(name: str) -> str:
    raise ConnectionError(name)


@step
async def failing(article: str) -> str:
    raise OutOfStock(article, 3)


@step
async def slow(name: str) -> str:
    return name


@step(once=True)
async def pay(amount: int) -> str:
    return f"paid {amount}"


class Account:
    """Its methods are steps; it is never journaled itself."""

    def __init__(self, owner):
        self.owner = owner

    @step
    async def balance(self, currency: str) -> str:
        return f"{self.owner}: 5 {currency}"


# ── values, failures, time ───────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def steps(topic: str, *, count: int = 2) -> dict[str, str]:
    first = await echo(topic)
    number = await double(count)
    finding = await find(first)
    data, numbers, price, identity, floats = await assorted(number)
    words = await long_text(60)
    keyed = await echo.options(key="invoice-7")("by key")
    balance = await Account("ann").balance("EUR")
    return {
        "first": first,
        "finding": f"{finding.title} {finding.score!r} {finding.seen.isoformat()} {[colour.name for colour in finding.colours]}",
        "assorted": f"{data.hex()} {sorted(numbers)} {price} {identity} {floats}",
        "words": f"{len(words)} {words[-1]}",
        "keyed": keyed,
        "balance": balance,
    }


@workflow
async def surroundings() -> dict[str, str]:
    """Time, randomness, and what a run knows of itself."""
    early = now()
    drawn = rng()
    await asyncio.sleep(1.5)
    nested = await asyncio.gather(*(_draws() for _ in range(2)))
    run = current_run()
    return {
        "numbers": f"{drawn.randint(1, 1000)} {drawn.random()!r}",
        "ids": f"{uuid4()} {nested}",
        "time": f"{early.isoformat()} {now().isoformat()} {asyncio.get_running_loop().time()!r}",
        "run": f"{run.id} {run.workflow} {run.tags} {run.started_at.isoformat()} {run.cancelling}",
    }


async def _draws():
    return f"{rng().randint(1, 1000)} {uuid4()}"


@workflow
async def retries() -> list[str]:
    seen = [await flaky("works in the end")]
    try:
        await flaky("never works")
    except ConnectionError as error:
        seen.append(f"{type(error).__name__}: {error}")
    try:
        await failing("llamas")
    except OutOfStock as error:
        seen.append(f"{error.article} {error.left} {error}")
    return seen


@workflow
async def fails(article: str) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(_fails_with(article))
        group.create_task(echo("a sibling that is cancelled"))
    return "unreachable"


async def _fails_with(article):
    await asyncio.sleep(0)
    await failing(article)


@workflow
async def timers() -> list[str]:
    seen = []
    await asyncio.sleep(0)
    await asyncio.sleep(0.25)
    await sleep_until(now() + dt.timedelta(days=1))
    loop = asyncio.get_running_loop()
    loop.call_later(3, seen.append, "call_later")
    cancelled = loop.call_later(2, seen.append, "cancelled")
    loop.call_at(loop.time() + 4, seen.append, "call_at")
    cancelled.cancel()
    try:
        async with asyncio.timeout(5):
            await asyncio.sleep(3600)
    except TimeoutError:
        seen.append("timeout")
    async with asyncio.timeout(3600):
        seen.append(await echo("in time"))
    try:
        async with asyncio.timeout(10) as outer:
            outer.reschedule(loop.time() + 1)
            async with asyncio.timeout(20):
                await asyncio.sleep(30)
    except TimeoutError:
        seen.append(f"rescheduled {outer.expired()}")
    await asyncio.gather(asyncio.sleep(7), asyncio.sleep(7), asyncio.sleep(6))  # two of one deadline
    return seen


# ── asyncio at work ──────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def waits_for() -> list[str]:
    seen = [await asyncio.wait_for(echo("in time"), 60), await asyncio.wait_for(_naps(1), 2)]
    try:
        await asyncio.wait_for(slow("too slow"), 3)
    except TimeoutError:
        seen.append("wait_for")
    try:
        await asyncio.wait_for(_naps(9), 1)
    except TimeoutError:
        seen.append("wait_for a coroutine")
    try:
        await asyncio.wait_for(_naps(1), 0)
    except TimeoutError:
        seen.append("at once")
    return seen


async def _naps(seconds):
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.sleep(0)
    return f"slept {seconds}"


@workflow
async def completes() -> list[str]:
    seen = []
    for each in asyncio.as_completed([_naps(3), _naps(1), slow("last"), _naps(2)]):
        seen.append(await each)
    try:
        for each in asyncio.as_completed([_naps(2), _naps(50), _naps(1)], timeout=5):
            seen.append(await each)
    except TimeoutError:
        seen.append("as_completed")
    return seen


@workflow
async def gathers() -> list[str]:
    seen = list(await asyncio.gather(*(_branch(number) for number in range(4))))
    answers = await asyncio.gather(echo("kept"), failing("gone"), _naps(1), return_exceptions=True)
    seen += [str(each) for each in answers]
    return seen


async def _branch(number):
    first = await slow(f"{number}a")
    await asyncio.sleep((7 * number) % 3)
    return first + await slow(f"{number}b")


@workflow
async def groups() -> list[str]:
    seen = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_branch(number), name=f"branch {number}") for number in range(3)]
    seen += [task.result() for task in tasks]
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_cleans_up(seen))
            group.create_task(_fails_with("llamas"))
    except* OutOfStock as caught:
        seen.append(f"{len(caught.exceptions)} {caught.exceptions[0]}")
    return seen


async def _cleans_up(seen):
    try:
        await asyncio.sleep(3600)
    finally:
        seen.append(await echo("cleaned up"))


@workflow
async def primitives() -> list[str]:
    """Events, queues, locks, conditions, semaphores, `asyncio.wait`."""
    seen, queue, opened = [], asyncio.Queue(maxsize=2), asyncio.Event()
    gate, lock, changed = asyncio.Semaphore(2), asyncio.Lock(), asyncio.Condition()
    state = {"done": 0}

    async def produces():
        for number in range(4):
            await queue.put(await echo(f"item {number}"))
            await asyncio.sleep(1)
        opened.set()

    async def consumes(name):
        while True:
            item = await queue.get()
            async with gate, lock:
                seen.append(f"{name} {await slow(item)}")
            async with changed:
                state["done"] += 1
                changed.notify_all()
            queue.task_done()

    workers = [asyncio.create_task(consumes(name)) for name in "xyz"]
    producer = asyncio.create_task(produces())
    async with changed:
        await changed.wait_for(lambda: state["done"] == 4)
    await opened.wait()
    await queue.join()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(producer, *workers, return_exceptions=True)
    tasks = {asyncio.create_task(_naps(number), name=str(number)) for number in (3, 1, 2)}
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    seen.append(f"{sorted(task.get_name() for task in done)} {sorted(task.get_name() for task in rest)}")
    done, rest = await asyncio.wait(rest, timeout=1)
    seen.append(f"{sorted(task.get_name() for task in done)} {sorted(task.get_name() for task in rest)}")
    rest.pop().cancel()
    return seen


place = contextvars.ContextVar("place", default="nowhere")


@workflow
async def generators() -> list[str]:
    """Async generators left in the middle, context variables, a shielded task."""
    seen = []
    async for item in _items(seen):
        seen.append(item)
        if item == "item 1":
            break
    place.set("main")
    inner = asyncio.create_task(_moves(seen))
    await inner
    seen.append(place.get())
    kept = asyncio.create_task(_naps(4))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await asyncio.shield(kept)
    seen.append(await kept)
    return seen


async def _items(seen):
    try:
        for number in range(5):
            yield await echo(f"item {number}")
    finally:
        seen.append(await echo("closed"))


async def _moves(seen):
    seen.append(place.get())
    place.set("inner")
    await asyncio.sleep(1)
    seen.append(place.get())


# ── messages, promises, people ───────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Order:
    article: str
    count: int


@workflow
async def receives() -> list[str]:
    seen = []
    message = await receive("message")
    seen.append(f"{message.name} {message.value}")
    first = await receive("stop", "message", timeout="1h")
    seen.append(f"{first.name} {first.value}")
    order = await receive("order", schema=Order)
    seen.append(f"{order.value.article} {order.value.count}")
    await order.reply({"accepted": order.value.count})
    try:
        await receive("message", timeout="10m")
    except TimeoutError as error:
        seen.append(str(error))
    both = await asyncio.gather(receive("left"), receive("right"))
    return seen + [f"{each.name} {each.value}" for each in both]


@workflow
async def asks() -> list[str]:
    seen = []
    yes = ask("Publish it?", to="ann")
    which = ask("Which one?", schema=str, timeout="2h", default="the first")
    late = ask("Are you there?", timeout="1h")
    no = ask("Delete it?", to="bob")
    seen += [f"{await yes} {yes.answered_by}", f"{await which} {which.answered_by}"]
    try:
        await late
    except TimeoutError as error:
        seen.append(str(error))
    try:
        await no
    except PermissionError as error:
        seen.append(f"{error} {no.answered_by}")
    again = await asyncio.gather(_patient(yes), _patient(which))
    return [*seen, *again]


async def _patient(wanted):
    return f"{await wanted} {wanted.done}"


@workflow
async def promises() -> list[str]:
    paid, shipped = promise("paid", schema=Order), promise("shipped", timeout="3d")
    await echo(f"told {paid.url}")
    order = await paid
    try:
        await shipped
    except ValueError as error:
        return [f"{order.article} {order.count}", str(error)]
    return ["unreachable"]


# ── other runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def child(name: str) -> str:
    await asyncio.sleep(1)
    return await echo(f"child {name}")


@workflow
async def failing_child(name: str) -> str:
    return await failing(name)


@workflow
async def parent() -> list[str]:
    seen = [await child("one")]
    handle = await start(child("two"), id="golden-child-two", tags=["golden"])
    alone = await start(child("three"), detached=True)
    seen += [handle.id, await handle, alone.id.rsplit("/", 1)[-1]]
    try:
        await failing_child("llamas")
    except OutOfStock as error:
        seen.append(f"{error.article} {error.left}")
    try:
        await asyncio.wait_for(child("given up"), 0.5)
    except TimeoutError:
        seen.append("given up")
    return seen + list(await asyncio.gather(child("four"), child("five")))


@workflow
async def sends(other: str) -> list[str]:
    await publish("progress", {"done": 1, "of": 2})
    await send(other, "message", [1, 2.5, None, "x"])
    await publish("progress", {"done": 2, "of": 2})
    try:
        await send("nobody", "message")
    except Exception as error:
        return [type(error).__name__]
    return []


# ── changed code ─────────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def changed() -> list[str]:
    """Recorded twice: before the change that it guards, and after."""
    seen = [await echo("before")]
    if RELEASED and patched("golden-change"):
        seen.append(await echo("new path"))
    await asyncio.sleep(60)
    if RELEASED and patched("golden-change"):
        seen.append("changed")
    seen.append(await echo("after"))
    return seen


# ── ends ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def cancelled() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_naps(3600))
            group.create_task(_naps(3600))
    finally:
        await echo("unwinding")
        await asyncio.sleep(1)
        await echo("unwound")
    return "unreachable"


@workflow
async def never_unwinds() -> str:
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(3600)
    return "unreachable"


@workflow(deadline="1h")
async def has_deadline() -> str:
    try:
        await receive("message")
    except asyncio.CancelledError:
        await echo("too late")
        raise
    return "unreachable"


@workflow(timeout="1m")
async def has_timeout() -> str:
    await asyncio.sleep(3600)  # parked: it does not count
    await slow("takes too long")
    return "unreachable"


@workflow
async def leaves_open() -> str:
    """Ends while others of its tasks, promises and children are open."""
    asyncio.create_task(_naps(3600))
    ask("Is anybody there?")
    await start(child("left behind"))
    return await echo("done")


# ── effects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def pays() -> list[str]:
    seen = [await pay(5)]
    try:
        seen.append(await pay(6))
    except InDoubt as error:
        seen.append(error.code)
    return seen


@workflow
async def crashes() -> list[str]:
    """Its worker dies while its steps run: their next attempts are recorded before they begin."""
    first = await echo("before")
    return [first, *await asyncio.gather(slow("one"), slow("two"))]


# ── in the middle ────────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def in_the_middle() -> str:
    """Recorded while it waits for everything that can be waited for."""
    shown = random.Random(7).random()  # its own generator, seeded: allowed
    await publish("shown", shown)
    await echo("begun")
    async with asyncio.TaskGroup() as group:
        group.create_task(_naps(3600))
        group.create_task(receive("message", timeout="2h"))
        group.create_task(receive("stop"))
        group.create_task(_patient(ask("Go on?", timeout="3h", default=True)))
        group.create_task(_patient(promise("paid")))
        group.create_task(child_of_the_middle())
        group.create_task(_retried())
        await asyncio.wait_for(receive("never"), 30_000)
    return "unreachable"


@workflow
async def waiting_child() -> str:
    await receive("message")
    return "unreachable"


async def child_of_the_middle():
    return await waiting_child()


async def _retried():
    return await flaky.options(retry=Retry(attempts=3, initial="5h", jitter=0.0))("in a long back-off")
