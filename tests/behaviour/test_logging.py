"""Logging: what records carry, that a replay adds none, and that what is expected is no warning."""

import asyncio
import logging

import pytest

from perdure import (
    AlreadyResolved,
    App,
    DuplicateRun,
    Retry,
    RunBlocked,
    RunCancelled,
    RunFailed,
    ask,
    current_step,
    receive,
    step,
    workflow,
)

from .tools import until

logger = logging.getLogger("tests.agent")


@pytest.fixture(autouse=True)
def everything(caplog):
    caplog.set_level(logging.DEBUG)


def own(caplog):
    """What the user's code logged."""
    return [record for record in caplog.records if record.name == logger.name]


def texts(caplog):
    return [record.getMessage() for record in own(caplog)]


async def test_records_of_a_workflow_carry_its_run(perdure_app, caplog):
    @workflow
    async def talks(name: str) -> None:
        logger.info("working on %s", name)
        await asyncio.sleep(1)
        logger.warning("done with %s", name, extra={"run": "mine", "topic": name})

    for name in ("a", "b"):
        await perdure_app.start(talks(name), id=f"run-{name}")
    await asyncio.gather(*(perdure_app.handle(f"run-{name}").result() for name in ("a", "b")))
    assert sorted((record.perdure_run, record.getMessage()) for record in own(caplog)) == [
        ("run-a", "done with a"),
        ("run-a", "working on a"),
        ("run-b", "done with b"),
        ("run-b", "working on b"),
    ]
    last = own(caplog)[-1]
    assert (last.run, last.topic) == ("mine", last.getMessage()[-1])  # its own fields are left alone
    assert not hasattr(last, "perdure_step")


async def test_records_of_a_step_carry_its_run_key_and_attempt(perdure_app, caplog):
    keys = []

    def deeper() -> None:
        logger.info("deeper")

    @step(retry=Retry(attempts=2, initial=0))
    async def works() -> None:
        keys.append(current_step().key)
        logger.info("working")
        if len(keys) == 1:
            raise ConnectionError("once")
        deeper()

    @step
    def in_a_thread() -> None:
        logger.info("in a thread")

    @workflow
    async def calls() -> None:
        await works()
        await in_a_thread()

    await perdure_app.run(calls(), id="x")
    found = [(record.getMessage(), record.perdure_run, record.perdure_attempt) for record in own(caplog)]
    assert found == [("working", "x", 1), ("working", "x", 2), ("deeper", "x", 2), ("in a thread", "x", 1)]
    assert {record.perdure_step for record in own(caplog)[:3]} == {keys[0]}
    assert own(caplog)[3].perdure_step.endswith("in_a_thread#0")


async def test_records_of_others_carry_nothing(perdure_app, caplog):
    @workflow
    async def talks() -> None: ...

    logger.info("before")
    await perdure_app.run(talks())
    logger.info("after")
    assert [vars(record).keys() & {"perdure_run", "perdure_step", "perdure_attempt"} for record in own(caplog)] == [
        set(),
        set(),
    ]
    formatter = logging.Formatter("%(message)s %(perdure_run)s", defaults={"perdure_run": "-"})
    assert formatter.format(own(caplog)[0]) == "before -"


async def test_a_replay_is_silent(perdure_app, caplog):
    app = perdure_app

    @step
    async def works(n: int) -> int:
        return n

    @workflow
    async def talks() -> None:
        logger.info("begin")
        for n in range(3):
            logger.info("before %d", n)
            await works(n)
            await asyncio.sleep(3600)
        logger.error("end")

    run = await app.start(talks())
    for _ in range(3):
        await app.settle()
        await app.crash()
        await app.advance("1h")
    await app.handle(run.id).result()
    assert texts(caplog) == ["begin", "before 0", "before 1", "before 2", "end"]


async def test_a_run_that_waits_before_its_first_entry_speaks_once(perdure_app, caplog):
    app = perdure_app

    @workflow
    async def talks() -> None:
        logger.info("begin")
        await receive("go")
        logger.info("went")

    run = await app.start(talks())
    await app.settle()
    assert texts(caplog) == ["begin"]
    await app.crash()
    await app.settle()
    await app.handle(run.id).send("go")
    await app.handle(run.id).result()
    assert texts(caplog) == ["begin", "went"]


async def test_a_run_with_a_message_from_the_start_speaks_too(perdure_app, caplog):
    @workflow
    async def talks() -> None:
        logger.info("begin")
        logger.info("got %s", (await receive("go")).value)

    await perdure_app.run(talks(), send=("go", 1))
    assert texts(caplog) == ["begin", "got 1"]


async def test_an_error_that_nobody_awaits_is_logged_once_with_its_run(perdure_app, caplog):
    app = perdure_app

    async def breaks() -> None:
        raise ValueError("nobody looks")

    @workflow
    async def careless() -> None:
        task = asyncio.create_task(breaks())
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)
        await asyncio.sleep(1)

    await app.run(careless(), id="x")
    found = [record for record in caplog.records if record.exc_info and "nobody looks" in str(record.exc_info[1])]
    assert [(record.levelname, record.perdure_run) for record in found] == [("ERROR", "x")]


async def test_a_blocked_run_is_one_error_with_its_run_and_workflow(perdure_app, caplog):
    @workflow
    async def stuck() -> None:
        await asyncio.Event().wait()

    run = await perdure_app.start(stuck(), id="x")
    with pytest.raises(RunBlocked):
        await run.result()
    found = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(record.name, record.levelname, record.perdure_run) for record in found] == [("perdure.run", "ERROR", "x")]
    assert found[0].perdure_workflow == stuck.name
    assert "PRD-404" in found[0].getMessage()


async def test_x26_what_is_expected_is_no_warning(perdure_app, caplog):
    app = perdure_app

    @step
    async def works() -> int:
        return 1

    @workflow
    async def asks(n: int) -> bool:
        await works()
        return await ask("Go on?", timeout="1h", default=False)

    @workflow
    async def fails() -> None:
        raise ValueError("as it may")

    first = await app.start(asks(1), id="x")
    for policy in ("return", "reject"):
        with pytest.raises(DuplicateRun):
            await app.start(asks(2), id="x", if_exists=policy)
    await app.start(asks(1), id="x")
    question = await app.next_ask()
    await app.answer(question.id, True)
    with pytest.raises(AlreadyResolved):
        await app.answer(question.id, False)
    assert await first.result() is True
    with pytest.raises(RunFailed):
        await app.run(fails())
    cancelled = await app.start(asks(3), id="cancelled")
    await app.settle()
    await cancelled.cancel()
    with pytest.raises(RunCancelled):
        await cancelled.result()
    await app.start(asks(4), id="replaced")
    assert await app.run(asks(5), id="replaced", if_exists="replace") is False
    loud = [record for record in caplog.records if record.levelno > logging.DEBUG and record.name.startswith("perdure")]
    assert [(record.name, record.getMessage()) for record in loud if record.name != "perdure.ask"] == []
    assert {record.levelno for record in loud} <= {logging.INFO}
    ends = [record for record in caplog.records if record.getMessage().startswith("run ended")]
    assert [record.getMessage().split(": ")[1] for record in ends if record.perdure_run == "x"] == ["succeeded"]


async def test_x26_a_run_replaced_under_its_step_is_no_warning(perdure_app, caplog):
    app, going = perdure_app, asyncio.Event()

    @step
    async def endless(n: int) -> int:
        if n == 1:
            going.set()
            await asyncio.Event().wait()
        return n

    @workflow
    async def works(n: int) -> int:
        return await endless(n)

    await app.start(works(1), id="x")
    await going.wait()
    assert await app.run(works(2), id="x", if_exists="replace") == 2
    await until(lambda: [record for record in caplog.records if "left this worker" in record.getMessage()])
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


async def test_a_retry_is_a_warning_that_says_when(perdure_app, caplog):
    @step(retry=Retry(attempts=2, initial="5m", jitter=0))
    async def flaky() -> None:
        if current_step().attempt == 1:
            raise ConnectionError("down")

    @workflow
    async def calls() -> None:
        await flaky()

    await perdure_app.run(calls(), id="x")
    found = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(record.name, record.perdure_run, record.perdure_attempt) for record in found] == [("perdure.step", "x", 1)]
    assert "the next one starts in 5m: ConnectionError: down" in found[0].getMessage()


async def test_the_factory_of_others_is_kept(perdure_app, caplog):
    """Somebody else's record factory, set before or after, goes on working."""
    before = logging.getLogRecordFactory()

    def marking(*args, **kwargs):
        record = before(*args, **kwargs)
        record.ours = True
        return record

    logging.setLogRecordFactory(marking)
    try:

        @workflow
        async def talks() -> None:
            logger.info("hello")

        async with App("sqlite:///:memory:") as app:
            await app.run(talks(), id="y")
    finally:
        logging.setLogRecordFactory(before)
    assert [(record.perdure_run, record.ours) for record in own(caplog)] == [("y", True)]
