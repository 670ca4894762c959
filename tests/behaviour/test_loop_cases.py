"""Workflow code that the loop has to stop, close or keep apart: it says which code, and where it stands."""

import asyncio
import contextvars
import decimal
import gc
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure import RunBlocked, receive, step, workflow
from perdure.core import loop as run_loop

from .tools import blocked, kinds, lines

# ── waiting for ever ────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── code that resists, generators that are left ─────────────────────────────────────────────────────────────────────


@workflow
async def plain(n: int) -> int:
    await asyncio.sleep(1)
    return n


async def test_s10_code_that_catches_everything_is_gone_at_once(perdure_app, recwarn):
    """It is evicted while it sleeps; neither that nor its end spins, and the worker goes on."""
    app, bodies, caught = perdure_app, [], []

    @step
    async def works() -> None:
        bodies.append(1)
        raise ConnectionError("down")

    @workflow
    async def stubborn() -> None:
        while True:
            try:
                await works()
                await asyncio.sleep(3600)
            except BaseException as error:
                caught.append(type(error).__name__)
                try:
                    await asyncio.sleep(3600)
                except BaseException as error:
                    caught.append(type(error).__name__)

    run = await app.start(stubborn())
    await app.settle()
    assert await app.run(plain(1)) == 1
    assert await run.status() in ("waiting", "running")
    await app.advance("2h")
    before = len(bodies)
    assert 2 <= before <= 4
    assert len(caught) < 1_000
    await app.crash()
    await app.advance("1h")
    assert len(bodies) == before + 1, "it goes on where it was"
    assert await app.run(plain(2)) == 2
    gc.collect()
    assert not [each for each in recwarn if "ignored GeneratorExit" in str(each.message)]


async def test_s10_a_workflow_that_cannot_be_closed_is_named_and_stays_in_memory(perdure_app, caplog):
    app = perdure_app

    @workflow
    async def resists() -> int:
        while True:
            try:
                message = await receive("go")
            except BaseException:
                continue
            return message.value

    run = await app.start(resists(), id="x")
    await app.settle()
    found = [record for record in caplog.records if "cannot be closed" in record.getMessage()]
    assert {record.perdure_run for record in found} == {"x"}
    assert all(resists.name in record.getMessage() for record in found)
    assert found
    other = await app.start(resists(), id="y")
    await app.settle()
    assert [driver.id for driver in app.worker.drivers.values()] == ["y"], "no longer evicted"
    assert await app.run(plain(1)) == 1
    for each in (run, other):
        await each.send("go", 7)
        assert await each.result() == 7


async def test_s11_a_generator_that_is_left_closes_at_a_fixed_point(perdure_app):
    app, order = perdure_app, []

    @step
    async def notes(what: str) -> str:
        order.append(what)
        return what

    async def numbers():
        try:
            for n in range(5):
                yield n
        finally:
            await notes("closed")

    @workflow
    async def leaves() -> list[str]:
        async for n in numbers():
            if n == 1:
                break
        first = await notes("after")
        await asyncio.sleep(1)
        return [first, await notes("end")]

    run = await app.start(leaves())
    await app.settle()
    live = lines(await run.history())
    await app.crash()
    assert await app.handle(run.id).result() == ["after", "end"]
    assert sorted(order[:2]) == ["after", "closed"]
    assert order[2:] == ["end"], "what was recorded did not run again"
    journal = lines(await app.handle(run.id).history())
    assert journal[: len(live)] == live
    again = await app.start(leaves())
    assert await again.result() == ["after", "end"]
    assert lines(await again.history()) == journal


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


async def in_executor():
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, int)


async def raw_socket():
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        await asyncio.get_running_loop().sock_recv(left, 1)


async def unix_server():
    await asyncio.start_unix_server(lambda *_: None, "/nowhere")


async def of_a_pool():
    with ThreadPoolExecutor(1) as pool:
        await asyncio.wrap_future(pool.submit(int))


REFUSED = {
    "to_thread": (lambda: asyncio.to_thread(int), "run_in_executor"),
    "executor": (in_executor, "run_in_executor"),
    "pool's future": (of_a_pool, "wrap_future"),
    "connection": (lambda: asyncio.open_connection("localhost", 1), "create_connection"),
    "server": (lambda: asyncio.start_server(lambda *_: None, "localhost", 1), "create_server"),
    "unix server": (unix_server, "create_unix_server"),
    "socket": (raw_socket, "sock_recv"),
    "process": (lambda: asyncio.create_subprocess_exec("true"), "subprocess_exec"),
    "shell": (lambda: asyncio.create_subprocess_shell("true"), "subprocess_shell"),
    "name": (lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1), "getaddrinfo"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("swallowed", [False, True], ids=["raised", "swallowed"])
async def test_s25_input_and_output_in_a_body_blocks_the_run_with_the_call(perdure_app, name, swallowed):
    """Whether the framework around it lets the error through, or turns it into text and goes on."""
    app = perdure_app
    call, told = REFUSED[name]
    bodies = []

    @step
    async def before() -> int:
        return 1

    @step
    async def apologise(text: str) -> str:
        bodies.append(text)
        return text

    @workflow
    async def agent() -> str:
        await before()
        try:
            await call()
        except Exception:
            if not swallowed:
                raise
        return await apologise("an error occurred")

    run = await app.start(agent(), id="x")
    found = await blocked(run, "PRD-402")
    assert told in found.reason
    assert f"{__file__}:" in found.reason
    assert "put it in a step" in found.hint
    with pytest.raises(RunBlocked, match=rf"PRD-103.*{told}(.|\n)*run x") as caught:
        await run.result()
    assert "step" in caught.value.hint
    assert bodies == []
    assert await kinds(run) == ["started", "step"]
    assert await app.run(plain(3)) == 3


async def test_s25_waiting_for_a_thread_of_its_own_blocks_the_run_with_that_thread(perdure_app):
    """Some frameworks run a `def` tool in a thread and wait for it by other means than the loop's."""
    app, done = perdure_app, []

    @workflow
    async def agent() -> str:
        future = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=done.append, args=(1,))
        thread.start()
        thread.join()
        return await future

    found = await blocked(await app.start(agent()), "PRD-402")
    assert "threading.Thread.start()" in found.reason
    assert f"{__file__}:" in found.reason
    assert await app.run(plain(3)) == 3


async def test_s25_a_call_from_another_thread_blocks_the_run(perdure_app):
    app, errors = perdure_app, []

    @workflow
    async def agent() -> str:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def work():
            try:
                loop.call_soon_threadsafe(future.set_result, "from the thread")
            except Exception as error:
                errors.append(error.code)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return await future

    found = await blocked(await app.start(agent()), "PRD-402")
    assert "hread" in found.reason
    assert set(errors) == {"PRD-402"}
    assert await app.run(plain(3)) == 3


async def test_s25_a_thread_that_nobody_waits_for_is_harmless(perdure_app):
    """Libraries keep threads for logs and traces."""
    done = []

    @workflow
    async def agent() -> int:
        thread = threading.Thread(target=done.append, args=(1,))
        thread.start()
        thread.join()
        await asyncio.sleep(1)
        return 1

    assert await perdure_app.run(agent()) == 1
    assert done


async def test_s26_a_loop_that_never_waits_is_blocked_and_hurts_nobody(perdure_app, monkeypatch):
    monkeypatch.setattr(run_loop, "CALLBACKS_PER_DRIVE", 2_000)
    app = perdure_app

    @step
    async def before() -> int:
        return 1

    @workflow
    async def spins() -> None:
        await before()
        while True:
            await asyncio.sleep(0)

    others = [await app.start(plain(n)) for n in range(3)]
    run = await app.start(spins(), id="x")
    found = await blocked(run, "PRD-403")
    assert "2001 callbacks" in found.reason
    assert "asyncio.sleep(0)" in found.hint
    assert f"{__file__}:" in found.where
    assert [await each.result() for each in others] == [0, 1, 2]
    assert await kinds(run) == ["started", "step"]


async def test_s26_a_cancel_scope_that_cancels_for_ever_is_blocked(perdure_app, monkeypatch):
    monkeypatch.setattr(run_loop, "CALLBACKS_PER_DRIVE", 2_000)

    @workflow
    async def spins() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def again():
            task.cancel()
            loop.call_soon(again)

        again()
        while True:
            try:
                await receive("go")
            except asyncio.CancelledError:
                task.uncancel()

    await blocked(await perdure_app.start(spins()), "PRD-403")
    assert await perdure_app.run(plain(3)) == 3


# ── the caller's context ────────────────────────────────────────────────────────────────────────────────────────────


async def test_s31_what_the_caller_has_set_is_not_seen_live_or_recovered(perdure_app):
    app, seen = perdure_app, []
    variable = contextvars.ContextVar("variable", default="unset")

    @step
    async def notes(*facts: str) -> str:
        seen.append((*facts, variable.get(), str(decimal.Decimal(1) / 3)))
        return " ".join(facts)

    @workflow
    async def looks() -> list[str]:
        results = []
        for _ in range(2):
            results.append(await notes(variable.get(), str(decimal.Decimal(1) / 3)))
            await asyncio.sleep(1)
        variable.set("the run's")
        results.append(await notes(variable.get(), str(decimal.getcontext().prec)))
        return results

    variable.set("the caller's")
    third = "0." + "3" * 28
    with decimal.localcontext(prec=5):
        run = await app.start(looks(), id="x")
        await app.settle()
        variable.set("the recoverer's")
        decimal.getcontext().prec = 7
        await app.crash()
        result = await app.handle("x").result()
        assert decimal.getcontext().prec == 7
    assert result == [f"unset {third}"] * 2 + ["the run's 28"]
    assert seen == [("unset", third, "unset", third)] * 2 + [("the run's", "28", "the run's", third)]
    assert variable.get() == "the recoverer's"
    assert await app.handle(run.id).status() == "succeeded"
