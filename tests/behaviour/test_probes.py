"""Probes: finding out what became of a `once` step that began and whose end nobody recorded."""

import asyncio
import threading
from dataclasses import dataclass

import pytest

from perdure import NOT_HAPPENED, UNKNOWN, InDoubt, NotStorable, current_step, happened, step, workflow

from .tools import kinds, lines


def paying(going, probe, **options):
    """A step whose first attempt never ends, a workflow that shows what becomes of it, and the attempts there were."""
    bodies = []

    @step(probe=probe, **options)
    async def pay(amount: int) -> str:
        bodies.append((current_step().attempt, current_step().idempotency_key))
        if len(bodies) == 1:
            going.set()
            await asyncio.Event().wait()
        return f"paid {amount} at attempt {current_step().attempt}"

    @workflow
    async def pays() -> str:
        try:
            return await pay(5)
        except (InDoubt, NotStorable) as error:
            return f"{type(error).__name__}: {error.message}"

    return pays, bodies


async def crashed(app, call, going):
    """Start a run, crash in the middle of its step, and give the handle on what goes on."""
    run = await app.start(call)
    await going.wait()
    await app.crash()
    return app.handle(run.id)


@pytest.mark.parametrize("once", [True, False], ids=["once and probe", "probe alone"])
async def test_what_a_probe_says_has_happened_is_the_step_s_result(perdure_app, once):
    app, going, asked = perdure_app, asyncio.Event(), []

    async def probe(amount):
        asked.append((amount, current_step().idempotency_key))
        return happened(f"receipt for {amount}")

    pays, bodies = paying(going, probe, once=once)
    run = await crashed(app, pays(), going)
    assert await run.result() == "receipt for 5"
    assert asked == [(5, bodies[0][1])]
    assert lines(await run.history()) == ["started ", "begun pay#0", "step pay#0"]
    await app.crash()
    assert await app.handle(run.id).result() == "receipt for 5"
    assert len(asked) == len(bodies) == 1


async def test_what_has_not_happened_runs_again_once_the_old_worker_is_known_dead(perdure_app):
    app, going = perdure_app, asyncio.Event()
    pays, bodies = paying(going, lambda amount: NOT_HAPPENED)
    run = await crashed(app, pays(), going)
    assert await run.result() == "paid 5 at attempt 2"
    assert [attempt for attempt, _ in bodies] == [1, 2]
    assert bodies[0][1] == bodies[1][1]
    assert await kinds(run) == ["started", "begun", "begun", "step"]
    assert [each.attempt for each in await run.history()] == [0, 1, 2, 2]


async def test_what_has_not_happened_yet_stays_in_doubt_while_the_old_worker_may_live(make_app, tmp_path):
    url, going = f"sqlite:///{tmp_path}/two.db", asyncio.Event()
    async with make_app(url, lease=10) as first:
        pays, bodies = paying(going, lambda amount: NOT_HAPPENED)
        run = await first.start(pays())
        await going.wait()
        first.clock.advance_to(first.clock.now() + 11_000_000)  # its lease expires, which proves nothing
        async with make_app(url, clock=first.clock, lease=10) as second:
            result = await second.handle(run.id).result()
            assert result.startswith("InDoubt:")
            assert "its worker may still be at it" in result
            assert len(bodies) == 1


async def test_a_worker_that_dies_while_the_probe_is_asked_was_not_dead_before(make_app, tmp_path):
    """What the probe did not see may have happened after it looked: only a death before that counts."""
    url, going, looking, answer = f"sqlite:///{tmp_path}/two.db", asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def probe(amount):
        looking.set()
        await answer.wait()
        return NOT_HAPPENED

    async with make_app(url, lease=10) as first:
        pays, bodies = paying(going, probe)
        run = await first.start(pays())
        await going.wait()
        first.clock.advance_to(first.clock.now() + 11_000_000)
        async with make_app(url, clock=first.clock, lease=10) as second:
            await looking.wait()
            dead = first._process.number
            second._worker.proven_dead = lambda worker: asyncio.sleep(0, result=worker == dead)
            answer.set()
            assert (await second.handle(run.id).result()).startswith("InDoubt:")
            assert len(bodies) == 1


async def _raises(amount):
    raise ConnectionError("the bank is closed")


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        (lambda amount: UNKNOWN, "could not find out"),
        (lambda amount: None, "could not find out"),
        (lambda amount: True, "could not find out"),
        (_raises, "its probe failed (ConnectionError: the bank is closed)"),
    ],
    ids=["unknown", "nothing", "no answer", "error"],
)
async def test_a_probe_that_does_not_find_out_leaves_the_step_in_doubt(perdure_app, probe, why):
    app, going = perdure_app, asyncio.Event()
    pays, bodies = paying(going, probe)
    run = await crashed(app, pays(), going)
    result = await run.result()
    assert result.startswith("InDoubt:")
    assert why in result
    assert len(bodies) == 1


async def test_a_run_is_not_parked_while_its_probe_is_under_way(perdure_app):
    """A probe may take its time: the run is kept until it has answered, however soon resting runs are evicted."""
    app, going, looking, answer = perdure_app, asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def probe(amount):
        looking.set()
        await answer.wait()
        return happened("late but sure")

    pays, bodies = paying(going, probe)
    run = await crashed(app, pays(), going)
    await looking.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    assert await run.status() == "running"
    answer.set()
    assert await run.result() == "late but sure"
    assert len(bodies) == 1


async def test_a_def_probe_runs_in_a_thread(perdure_app):
    app, going, threads = perdure_app, asyncio.Event(), []

    def probe(amount):
        threads.append(threading.get_ident())
        return happened(current_step().idempotency_key)

    pays, bodies = paying(going, probe)
    run = await crashed(app, pays(), going)
    assert await run.result() == bodies[0][1]
    assert threads != [threading.get_ident()]


async def test_a_probe_is_bound_by_the_step_s_timeout(perdure_app):
    app, going, looking = perdure_app, asyncio.Event(), asyncio.Event()

    async def probe(amount):
        looking.set()
        await asyncio.Event().wait()

    pays, bodies = paying(going, probe, timeout="30s")
    run = await crashed(app, pays(), going)
    await looking.wait()
    app.clock.jump()
    assert "its probe failed (TimeoutError: " in await run.result()
    assert len(bodies) == 1


async def test_a_probe_s_result_that_cannot_be_stored_is_an_error_of_the_step(perdure_app):
    app, going = perdure_app, asyncio.Event()
    pays, bodies = paying(going, lambda amount: happened(7))
    run = await crashed(app, pays(), going)
    result = await run.result()
    assert result.startswith("NotStorable: probe of step ")
    assert "7" in result
    assert len(bodies) == 1


@dataclass
class Receipt:
    number: int


class Bank:
    def __init__(self):
        self.going = asyncio.Event()
        self.asked = []

    async def look(self, amount):
        self.asked.append(amount)
        return happened(Receipt(amount))

    @step(once=True, probe=look)
    async def pay(self, amount: int) -> Receipt:
        self.going.set()
        await asyncio.Event().wait()


async def test_a_method_s_probe_gets_the_object_and_its_result_has_the_step_s_type(perdure_app):
    app, bank = perdure_app, Bank()

    @workflow
    async def pays() -> bool:
        return await bank.pay(9) == Receipt(9)

    run = await crashed(app, pays(), bank.going)
    assert await run.result() is True
    assert bank.asked == [9]
