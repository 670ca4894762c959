"""Payloads: arguments are kept for people, large ones are compressed, and what is sent again and again is stored once."""

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass

import apsw
import pytest

from perdure import NotStorable, RunFailed, now, publish, receive, send, step, workflow
from perdure.core.errors import PayloadTooLarge

from .tools import blocked


def noise(seed, length):
    """Text that no compression makes smaller by much, the same for the same seed."""
    blocks = (hashlib.sha256(f"{seed}/{n}".encode()).hexdigest() for n in range(length // 64 + 1))
    return "".join(blocks)[:length]


def stored(path):
    """What lies in a file: the number of blobs with contents, and the bytes of blobs, values and notes."""
    with contextlib.closing(apsw.Connection(str(path))) as file:
        pieces = file.execute("SELECT count(*) FROM blobs WHERE length(data) > 2000").get
        blobs = file.execute("SELECT coalesce(sum(length(data)), 0) FROM blobs").get
        entries = file.execute("SELECT sum(coalesce(length(value), 0) + coalesce(length(note), 0)) FROM entries").get
        return pieces, blobs + entries


def talking(turns, topic, length=2048):
    """An agent that sends its whole conversation with every call of its model."""

    @step
    async def model(messages: list[dict[str, str]]) -> dict[str, str]:
        return {"role": "assistant", "content": noise((topic, len(messages)), length)}

    @workflow(name="payloads.talk")
    async def talk() -> int:
        messages = [{"role": "system", "content": noise(topic, length)}]
        for _ in range(turns):
            messages.append(await model(messages))
        return len(messages)

    return talk()


@pytest.mark.parametrize("length", [300, 2048])
async def test_a_conversation_sent_again_with_every_call_is_stored_once(make_app, tmp_path, length):
    sizes = []
    for turns in (40, 80):
        path = tmp_path / f"{turns}.db"
        async with make_app(f"sqlite:///{path}") as app:
            run = await app.start(talking(turns, "llamas", length))
            assert await run.result() == turns + 1
            calls = [each.arguments[0] for each in await run.history() if each.kind == "step"]
            assert [len(messages) for messages in calls] == list(range(1, turns + 1))
            assert calls[-1][-1]["content"] == noise(("llamas", turns - 1), length)
            pieces, size = stored(path)
            if length > 1024:
                assert pieces == turns  # one for each message that was ever sent: the last answer never was
            sizes.append(size)
    assert sizes[0] < length * sum(range(1, 41)) / 3
    assert sizes[1] < 2.3 * sizes[0], "storage must grow with new messages only"


async def test_runs_share_what_they_send(make_app, tmp_path):
    path = tmp_path / "shared.db"
    async with make_app(f"sqlite:///{path}") as app:
        await app.run(talking(10, "llamas"))
        pieces, _ = stored(path)
        await app.run(talking(10, "llamas"))
        assert stored(path)[0] == pieces == 10
        await app.run(talking(10, "alpacas"))
        assert stored(path)[0] == 20


async def test_large_results_are_compressed_and_come_back_whole(make_app, tmp_path):
    path = tmp_path / "large.db"
    async with make_app(f"sqlite:///{path}") as app:
        text = "all work and no play makes Jack a dull boy\n" * 5_000

        @step
        async def write(copies: int) -> list[str]:
            return [text] * copies

        @workflow
        async def novel() -> list[int]:
            pages = await write(3)
            await asyncio.sleep(60)
            return [len(page) for page in pages if page == text]

        run = await app.start(novel())
        await app.settle()
        await app.crash()
        run = app.handle(run.id)
        assert await run.result() == [len(text)] * 3
        assert (await run.history())[1].value == [text] * 3
        assert stored(path)[1] < len(text) / 20


@pytest.mark.parametrize("size", [0, 1, 4_095, 4_096, 4_097, 70_000, 1_200_000])
async def test_results_of_every_size_come_back_whole(perdure_app, size):
    app, seen = perdure_app, []

    @step
    async def fetch() -> dict[str, list[str]]:
        return {"parts": [noise(1, size), "é" * (size // 2), "", noise(1, size)]}

    @workflow
    async def flow() -> None:
        seen.append(await fetch())
        await asyncio.sleep(60)

    run = await app.start(flow())
    await app.settle()
    await app.crash()
    await app.handle(run.id).result()
    assert len(seen) > 1
    assert all(each == {"parts": [noise(1, size), "é" * (size // 2), "", noise(1, size)]} for each in seen)


class Client:
    """Something that no step's arguments can keep."""


@dataclass
class Query:
    text: str
    limit: int = 3


async def arguments_of(run):
    return [each.arguments for each in await run.history() if each.kind == "step"]


async def test_arguments_are_kept_for_people_and_what_cannot_be_stored_by_its_type(perdure_app):
    """A client is another object on every replay: it is left out of what is compared."""

    @step
    async def search(query: Query, client: object, *, limit: int = 1) -> int:
        return limit

    @workflow
    async def flow() -> int:
        first = await search(Query("llamas"), Client(), limit=5)
        await asyncio.sleep(60)
        return first + await search(Query("alpacas"), print)

    run = await perdure_app.start(flow())
    assert await run.result() == 6
    first, second = await arguments_of(run)
    assert first == [{"text": "llamas", "limit": 3}, {"$opaque": "tests.behaviour.test_payloads.Client"}, {"limit": 5}]
    assert second[0] == {"text": "alpacas", "limit": 3}
    assert list(second[1]) == ["$opaque"]


async def test_record_args_false_keeps_a_digest_which_still_shows_drift(perdure_app):
    app = perdure_app

    @step(record_args=False)
    async def login(password: str) -> bool:
        return True

    def deploy(password):
        @workflow(name="payloads.logs_in")
        async def logs_in() -> bool:
            done = await login(password)
            await asyncio.sleep(60)
            return done

        return logs_in

    run = await app.start(deploy("hunter2")())
    await app.settle()
    assert await arguments_of(run) == [None]
    deploy("secret")
    why = await blocked(run, "PRD-406")
    assert "hunter2" not in str(why)
    assert "secret" not in str(why)
    deploy("hunter2")
    await run.resume()
    assert await run.result() is True


@pytest.mark.parametrize("record", [True, False], ids=["kept", "digest only"])
async def test_identity_chooses_what_is_compared_not_what_is_kept(make_app, record):
    async with make_app(strict=False) as app:

        @step(once=True, identity=lambda amount, note: amount, record_args=record)
        async def transfer(amount: int, note: str) -> str:
            return f"{amount} {note}"

        def deploy(amount, note):
            @workflow(name="payloads.pays")
            async def pays() -> str:
                sent = await transfer(amount, note)
                await asyncio.sleep(60)
                return sent

            return pays

        run = await app.start(deploy(5, "hello")())
        await app.settle()
        assert await arguments_of(run) == [[5, "hello"] if record else None]
        deploy(6, "hello")
        await app.crash()
        run = app.handle(run.id)
        why = await blocked(run, "PRD-401")
        assert ('[5,"hello"]' in why.recorded[0]) is record
        assert any('[6,"hello"]' in each for each in why.asked) is record
        deploy(5, "good bye")
        await run.resume()
        assert await run.result() == "5 hello"


async def test_an_identity_that_cannot_be_compared_is_an_error(perdure_app):
    bodies = []

    @step(identity=lambda client, amount: (client, amount))
    async def transfer(client: object, amount: int) -> None:
        bodies.append(amount)

    @workflow
    async def pays() -> None:
        await transfer(Client(), 5)

    with pytest.raises(RunFailed) as caught:
        await perdure_app.run(pays())
    error = caught.value.__cause__
    assert isinstance(error, NotStorable)
    assert "identity of step" in error.message
    assert "Client" in error.message
    assert error.step.endswith("transfer#0")
    assert bodies == []


async def test_drift_under_unchanged_code_names_the_argument(perdure_app):
    """What is new on every replay shows on the first one; the run's own clock does not drift."""
    ticks = iter(range(100))

    @step
    async def report(at: str) -> str:
        return at

    @workflow
    async def drifting() -> str:
        await report(str(now()))
        await report(f"tick {next(ticks)}")
        await asyncio.sleep(60)
        return "done"

    run = await perdure_app.start(drifting())
    why = await blocked(run, "PRD-406")
    assert "report#1" in why.recorded[0]
    recorded, asked = why.recorded[0].split()[-1], why.asked[0].split()[-1]
    assert recorded.endswith('"]')
    assert asked > recorded


@pytest.mark.parametrize("verb", ["publish", "send", "reply", "child", "published by a step"])
async def test_p56_what_a_run_sends_over_the_cap_is_an_error_in_its_code(make_app, verb):
    async with make_app(payload_cap=1_000) as app:
        large = "x" * 2_000

        @step
        async def shows() -> None:
            await publish("big", large)

        @workflow
        async def child(text: str) -> int:
            return len(text)

        @workflow
        async def listens() -> str:
            return (await receive("message")).value

        @workflow
        async def sends() -> list[str]:
            try:
                match verb:
                    case "publish":
                        await publish("big", large)
                    case "send":
                        await send("other", "message", large)
                    case "reply":
                        await (await receive("question")).reply(large)
                    case "child":
                        await child(large)
                    case _:
                        await shows()
            except PayloadTooLarge as error:
                return [error.code, error.message]
            return ["sent"]

        await app.start(listens(), id="other")
        run = await app.start(sends(), id="sender")
        asked = asyncio.create_task(run.request("question")) if verb == "reply" else None
        code, text = await run.result(timeout="20s")
        assert code == "PRD-302"
        assert "2,0" in text
        assert "1,000" in text
        if asked is not None:
            asked.cancel()
        with pytest.raises(PayloadTooLarge):
            await app.handle("other").send("message", large)
        await app.handle("other").send("message", "small")
        assert await app.handle("other").result() == "small"


async def test_p56_arguments_of_a_step_over_the_cap_are_left_out_of_the_journal(make_app):
    async with make_app(payload_cap=1_000) as app:

        @step
        async def measure(text: str) -> int:
            return len(text)

        @workflow
        async def flow() -> int:
            return await measure("x" * 2_000)

        run = await app.start(flow())
        assert await run.result() == 2_000
        assert await arguments_of(run) == [{"$omitted": "2,004 bytes"}]


async def test_a_small_cap_does_not_hide_errors(make_app):
    async with make_app(payload_cap=1_000) as app:

        @step
        async def fails() -> None:
            raise ValueError("x" * 2_000)

        @workflow
        async def flow() -> None:
            await fails()

        with pytest.raises(RunFailed) as caught:
            await app.run(flow())
        assert type(caught.value.__cause__) is ValueError
