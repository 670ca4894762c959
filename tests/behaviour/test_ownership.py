"""Who owns a run: several apps on one file, of which one is slow, silent, fenced, or comes back."""

import asyncio
import logging

import pytest

from perdure import AlreadyResolved, ask, current_step, receive, step, workflow
from perdure.core.errors import StoreError, StoreUnavailable

from .several import beat, leased_out, rest, row_of, see, sharing
from .tools import kinds, until


def fences(caplog):
    return [record for record in caplog.records if "was fenced" in record.getMessage()]


async def test_p01_a_wake_only_advances_code_that_does_not_wait_for_the_step(perdure_app, bodies):
    @step
    async def slow() -> int:
        return await bodies.enter()

    @workflow
    async def both() -> list:
        message, place = await asyncio.gather(receive("message"), slow())
        return [message.value, place]

    run = await perdure_app.start(both())
    await until(lambda: bodies.gates, "the body")
    await run.send("message", "early")
    await rest(perdure_app)
    assert await kinds(run) == ["started", "signal"]
    assert len(bodies.gates) == 1, "the message must not start the step again"
    bodies.release()
    assert await run.result() == ["early", 0]
    assert len(bodies.gates) == 1


async def test_p02_two_apps_answer_in_one_instant(make_app, tmp_path):
    """Both have seen that the ask is open before either writes."""
    went_on = []

    @step
    async def after(value: bool) -> None:
        went_on.append(value)

    @workflow
    async def asks() -> bool:
        value = await ask("Go?")
        await after(value)
        return value

    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(asks())
        await a.settle()
        barrier = asyncio.Barrier(2)
        for app in (a, b):
            write = app.gate.answer

            async def answer(*args, write=write, **options):
                await barrier.wait()
                await write(*args, **options)

            app.gate.answer = answer
        [question] = (await b.inbox()).items
        outcomes = await asyncio.gather(a.answer(question.id, True), b.answer(question.id, False), return_exceptions=True)
        [refused] = [each for each in outcomes if each is not None]
        assert isinstance(refused, AlreadyResolved)
        await see(a, b)
        assert await a.handle(run.id).result() is (outcomes[0] is None)
        assert len(went_on) == 1
        assert (await kinds(run)).count("resolved") == 1


async def test_p03_an_old_list_of_orphans_takes_nothing_from_its_new_owner(make_app, tmp_path, held, bodies):
    async with sharing(make_app, tmp_path, 3) as (a, b, c):
        run = await a.start(held())
        await until(lambda: bodies.gates, "the body at the first worker")
        silent = a.worker.number
        a.clock.advance_to(a.clock.now() + 20_000_000)
        pulse = b.gate.store.heartbeat(b.worker.number, b.clock.now(), b.clock.now() + 10_000_000)
        assert pulse.expired == [silent, c.worker.number]
        await beat(c)  # it takes over and claims
        await until(lambda: len(bodies.gates) == 2, "the body at the third")
        before = await row_of(c, run)
        assert before.owner == c.worker.number
        b._process.take_over(silent, proven=False)
        await rest(b)
        b.worker.suspects.look()
        await see(b)
        after = await row_of(c, run)
        assert (after.owner, after.claim) == (before.owner, before.claim)
        assert len(bodies.gates) == 2
        bodies.release()
        assert await c.handle(run.id).result() == 1


@pytest.mark.parametrize("first", ["old owner", "new owner"])
async def test_p05_s15_two_bodies_of_one_step_and_only_the_owners_is_recorded(make_app, tmp_path, held, bodies, first):
    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(held())
        await until(lambda: bodies.gates, "the first body")
        await leased_out(a, b)
        await until(lambda: len(bodies.gates) == 2, "the second body")
        for place in (0, 1) if first == "old owner" else (1, 0):
            bodies.gates[place].set()
            await until(lambda place=place: place in bodies.ended)
            await rest(b)
        assert await b.handle(run.id).result() == 1
        await a.settle()
        assert await kinds(b.handle(run.id)) == ["started", "begun", "step"], "a suspect journals that it begins"
        [*_, entry] = await b.handle(run.id).history()
        assert (entry.value, entry.attempt) == (1, 2)
        assert await b.gate.read(b.gate.store.check) == []


async def test_p05_what_the_old_owner_recorded_in_time_stands(make_app, tmp_path, bodies):
    quick = []

    @step
    async def first() -> str:
        quick.append(1)
        return "recorded"

    @step
    async def slow() -> int:
        return await bodies.enter()

    @workflow
    async def two() -> list:
        return [await first(), await slow()]

    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(two())
        await until(lambda: bodies.gates, "the second step")
        await leased_out(a, b)
        await until(lambda: len(bodies.gates) == 2, "the second step at the new owner")
        bodies.release()
        assert await b.handle(run.id).result() == ["recorded", 1]
        assert quick == [1]


async def test_s15_a_claim_that_returns_is_not_the_old_one(make_app, tmp_path, held, bodies):
    """The run leaves a worker and comes back to it while the first attempt is still under way there."""
    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(held())
        await until(lambda: bodies.gates, "the first attempt")
        await leased_out(a, b)
        await until(lambda: len(bodies.gates) == 2, "the second attempt")
        await beat(a)  # it learns that it was fenced, and enters anew
        await leased_out(b, a)
        await until(lambda: len(bodies.gates) == 3, "the third attempt, at the first app again")
        assert (await row_of(a, run)).owner == a.worker.number
        for place in (0, 1):  # the old ones end first
            bodies.gates[place].set()
            await until(lambda place=place: place in bodies.ended)
        await rest(a)
        await rest(b)
        assert await kinds(a.handle(run.id)) == ["started", "begun", "begun"], "as suspects do"
        bodies.release()
        assert await a.handle(run.id).result() == 2
        assert (await kinds(a.handle(run.id))).count("step") == 1


@pytest.mark.parametrize("learns_by", ["heartbeat", "commit"])
async def test_a_fenced_worker_says_so_once_enters_anew_and_goes_on(make_app, tmp_path, held, bodies, caplog, learns_by):
    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(held())
        watched = asyncio.ensure_future(run.result())
        await until(lambda: bodies.gates, "the first body")
        before = a.worker.number
        await leased_out(a, b)
        await until(lambda: len(bodies.gates) == 2, "the takeover")
        if learns_by == "commit":
            bodies.gates[0].set()
        else:
            await beat(a)
        await until(lambda: a.worker.number != before, "the first app to enter anew")
        await beat(a, a)
        [warning] = fences(caplog)
        assert (warning.levelno, warning.perdure_worker) == (logging.WARNING, before)
        assert "another process took its runs over" in warning.getMessage()
        rows = {row.number: row for row in await a.workers(live_only=False)}
        assert a.worker.number == max(rows)
        assert (rows[before].end, rows[a.worker.number].end) == ("expired", "")
        assert not a.worker.drivers, "nothing of before is its own"
        bodies.release()
        await b.handle(run.id).result()
        await see(a)
        assert await watched == 1, "who waited here for the result before gets it"
        # It works on: b gets nothing to do here.
        later = await a.start(held())
        await until(lambda: len(bodies.gates) == 3, "a new run")
        assert (await row_of(a, later)).owner == a.worker.number
        bodies.release()
        assert await later.result() == 2


async def test_a_worker_can_be_fenced_again_and_again(make_app, tmp_path, held, bodies, caplog):
    async with sharing(make_app, tmp_path) as (a, b):
        numbers = [a.worker.number, b.worker.number]
        for turn in range(3):
            await leased_out(a, b)
            await beat(a)
            numbers.append(a.worker.number)
            assert len(fences(caplog)) == turn + 1
        assert len(set(numbers)) == 5
        bodies.gates = []
        run = await a.start(held())
        await until(lambda: bodies.gates, "the body")
        bodies.release()
        assert await run.result() == 0


async def test_callers_do_not_notice_that_their_process_is_fenced(make_app, tmp_path):
    """Starts, messages and reads that meet the fence are carried out by the next incarnation, once."""
    got = []

    @workflow
    async def listens() -> str:
        message = await receive("message")
        got.append(message.value)
        return message.value

    async with sharing(make_app, tmp_path) as (a, b):
        run = await a.start(listens(), id="one")
        await a.settle()
        before = a.worker.number
        await leased_out(a, b)
        started, _, info = await asyncio.gather(
            a.start(listens(), id="two", send=("message", "hello")), run.send("message", "there"), run.info()
        )
        assert info.id == "one"
        assert a.worker.number != before
        assert await started.result() == "hello"
        await see(b)
        assert await run.result() == "there"
        assert sorted(set(got)) == ["hello", "there"]
        assert len((await a.runs()).items) == 2


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is away"), OSError("no locks")], ids=lambda e: type(e).__name__)
async def test_entering_anew_is_tried_until_it_works(make_app, tmp_path, held, bodies, caplog, error):
    async with sharing(make_app, tmp_path) as (a, b):
        store, left = a._kept._store, [2]
        enter = store.enter

        def failing(row):
            left[0] -= 1
            if left[0] >= 0:
                raise error
            return enter(row)

        store.enter = failing
        before = a.worker.number
        await leased_out(a, b)
        await beat(a)
        starting = asyncio.ensure_future(a.start(held()))
        for _ in range(2):
            await rest(a)
            assert a._process.number == before
            assert not starting.done()
            a.clock.advance_to(a.clock.now() + 1_000_000)
            a.clock.jump()
        run = await starting
        tries = [record for record in caplog.records if "cannot be entered again yet" in record.getMessage()]
        assert len(tries) == 2
        assert a.worker.number > before
        await until(lambda: bodies.gates, "the body")
        bodies.release()
        assert await run.result() == 0


async def test_closing_while_the_store_cannot_be_entered_tells_who_waits(make_app, tmp_path, held):
    async with sharing(make_app, tmp_path) as (a, b):

        def failing(row):
            raise StoreUnavailable("the disk is away")

        a._kept._store.enter = failing
        await leased_out(a, b)
        await beat(a)
        starting = asyncio.ensure_future(a.start(held()))
        await rest(a)
        await a.close()
        with pytest.raises(StoreError, match="nothing was written"):
            await starting


@pytest.mark.parametrize("announces", [True, False])
async def test_an_ask_is_announced_once_though_its_worker_is_fenced(make_app, tmp_path, bodies, caplog, announces):
    """Neither by the one who takes over, nor again by who was fenced; and who tells of asks otherwise stays quiet."""
    caplog.set_level(logging.INFO, "perdure.ask")

    @step
    async def slow() -> int:
        return await bodies.enter()

    @workflow
    async def asks(question: str) -> list:
        return list(await asyncio.gather(ask(question), slow()))

    def announced(question):
        return len([record for record in caplog.records if record.getMessage().endswith(f"asks: {question}")])

    async with sharing(make_app, tmp_path) as (a, b):
        if not announces:
            a.worker.on_opened.clear()
        run = await a.start(asks("First?"))
        await until(lambda: bodies.gates, "the step beside the ask")
        await rest(a)
        assert announced("First?") == announces
        before = a.worker.number
        await leased_out(a, b)
        await until(lambda: len(bodies.gates) == 2, "the takeover")
        await beat(a)
        assert a.worker.number != before
        await leased_out(b, a)
        await until(lambda: len(bodies.gates) == 3, "the run to come back")
        await a.start(asks("Second?"))
        await until(lambda: len(bodies.gates) == 4, "another run")
        await rest(a)
        assert (announced("First?"), announced("Second?")) == (announces, announces)
        assert [each.question for each in (await a.inbox()).items] == ["First?", "Second?"]
        for each in (await a.inbox()).items:
            await a.answer(each.id, True)
        bodies.release()
        assert await a.handle(run.id).result() == [True, 2]


async def test_p32_x07_a_number_belongs_to_one_start_of_a_process(make_app, tmp_path, held, bodies):
    """The same host, the same pid, even the same app: an incarnation inherits nothing from the one before."""
    async with sharing(make_app, tmp_path) as (a, b):
        assert len({row.name for row in await a.workers()}) == 1
        run = await a.start(held())
        await until(lambda: bodies.gates, "the body")
        before = a.worker.number
        a.worker.stop_at_once()
        a._process.abandon()
        a._process = a._worker = a._gate = None
        a._pilot.cancel()
        await a.open()
        await see(a, b)
        assert a.worker.number not in (before, b.worker.number)
        assert (await row_of(a, run)).owner == before, "it is not the new one's, whatever its name"
        assert len(bodies.gates) == 1
        await leased_out(b, a)
        await until(lambda: len(bodies.gates) == 2, "the takeover")
        bodies.release()
        assert await a.handle(run.id).result() == 1


async def test_attempts_keep_their_key_and_get_higher_numbers_over_owners(make_app, tmp_path, bodies):
    """Promise 9: with the same idempotency key and a higher attempt number."""
    seen = []

    @step
    async def slow() -> int:
        seen.append((current_step().attempt, current_step().idempotency_key))
        return await bodies.enter()

    @workflow
    async def one() -> int:
        return await slow()

    async with sharing(make_app, tmp_path, 3) as apps:
        a, b, c = apps
        run = await a.start(one())
        await until(lambda: bodies.gates, "the first attempt")
        await leased_out(a, b)
        await until(lambda: len(bodies.gates) == 2, "the second")
        await leased_out(b, c)
        await until(lambda: len(bodies.gates) == 3, "the third")
        bodies.release()
        assert await c.handle(run.id).result() == 2
        assert [number for number, _ in seen] == [1, 2, 3]
        assert len({key for _, key in seen}) == 1
