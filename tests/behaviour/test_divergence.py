"""Divergence: code that no longer fits a journal stops as blocked, shows both sides, and goes on when it fits again."""

import asyncio
import re

import pytest

from perdure import ask, promise, publish, receive, send, start, step, workflow
from perdure.core.errors import RunCancelled

from .tools import blocked, kinds, lines


async def test_p64_a_random_choice_of_a_step_is_detected_at_the_first_mismatching_operation(perdure_app):
    bodies = []

    @step(name="choice.left")
    async def left() -> int:
        bodies.append("left")
        return 1

    @step(name="choice.right")
    async def right() -> int:
        bodies.append("right")
        return 2

    passes = iter([left, *[right] * 20])  # what random.choice may give

    @workflow
    async def chooses() -> int:
        first = await next(passes)()
        await asyncio.sleep(60)
        return first

    why = await blocked(await perdure_app.start(chooses()), "PRD-401")
    assert bodies == ["left"]
    assert why.recorded == ["2 step /choice.left#0 []"]
    assert why.asked == ["step /choice.right#0 []"]
    line = chooses.fn.__code__.co_firstlineno + 2
    assert re.search(rf"test_divergence\.py:{line} in chooses$", why.where)
    assert "patched()" in why.hint
    assert "aliases=" in why.hint


async def test_p63_runs_in_flight_are_blocked_by_a_reorder_and_go_on_after_the_roll_back(perdure_app):
    app, charged = perdure_app, []

    @step(name="p63.reserve")
    async def reserve(n: int) -> int:
        return n

    @step(name="p63.charge")
    async def charge(n: int) -> int:
        charged.append(n)
        return n

    def deploy(first, second):
        @workflow(name="p63.buys")
        async def buys(n: int) -> int:
            await first(n)
            await asyncio.sleep(3600)
            return await second(n) * 10

        return buys

    buys = deploy(reserve, charge)
    runs = [await app.start(buys(n), id=f"buy-{n}") for n in range(100)]
    await app.settle()
    deploy(charge, reserve)
    await app.advance("61m")
    assert {str(await run.status()) for run in runs} == {"blocked"}
    assert charged == []
    page = await app.runs(status="blocked", limit=1000)
    assert {each.id for each in page.items} == {run.id for run in runs}
    assert {each.blocked.code for each in page.items} == {"PRD-401"}
    deploy(reserve, charge)
    for run in runs:
        assert await run.resume() == "blocked"
    assert [await run.result() for run in runs] == [n * 10 for n in range(100)]
    assert sorted(charged) == list(range(100))


async def test_p34_an_unrelated_change_blocks_nothing(perdure_app):
    app = perdure_app

    @step
    async def fetch() -> int:
        return 3

    @workflow(name="p34.flow")
    async def flow() -> int:
        found = await fetch()
        return found if await ask("go on?") else 0

    run = await app.start(flow())
    question = await app.next_ask()

    @workflow(name="p34.flow")
    async def flow() -> int:
        """A comment, a log line, another function, other names, and a step after the question."""
        result = await fetch()

        def double(n):
            return 2 * n

        if await ask("go on?"):
            return double(result) + await fetch()
        return 0

    await app.answer(question.id, True)
    assert await run.result() == 9


async def test_a_blocked_run_stays_blocked_under_the_same_code(perdure_app):
    app, bodies = perdure_app, []

    @step(name="stays.a")
    async def a() -> int:
        bodies.append("a")
        return 1

    @step(name="stays.b")
    async def b() -> int:
        bodies.append("b")
        return 1

    def deploy(*order):
        @workflow(name="stays.flow")
        async def flow() -> int:
            await order[0]()
            await asyncio.sleep(60)
            for each in order[1:]:
                await each()
            return len(order)

        return flow

    run = await app.start(deploy(a)())
    await app.settle()
    deploy(b, a)
    before = await blocked(run, "PRD-401")
    await run.resume()
    after = await blocked(run, "PRD-401")
    assert (after.recorded, after.asked, after.where) == (before.recorded, before.asked, before.where)
    assert await kinds(run) == ["started", "step"]
    deploy(a, b)
    await run.resume()
    assert await run.result() == 2
    assert bodies == ["a", "b"]
    assert (await run.info()).blocked is None


async def test_a_blocked_run_can_be_cancelled(perdure_app):
    app = perdure_app

    @step
    async def one() -> int:
        return 1

    @step
    async def two() -> int:
        return 2

    def deploy(which):
        @workflow(name="cancels.blocked")
        async def flow() -> int:
            await which()
            await asyncio.sleep(60)
            return 0

        return flow

    run = await app.start(deploy(one)())
    await app.settle()
    deploy(two)
    await blocked(run, "PRD-401")
    await run.cancel()
    with pytest.raises(RunCancelled):
        await run.result()


# ── changed code ────────────────────────────────────────────────────────────────────────────────────────────────────


@step(name="changes.work")
async def work(n: int = 0) -> int:
    return n


@step(name="changes.pay", once=True)
async def pay(amount: int) -> int:
    return amount


@workflow(name="changes.child")
async def child(n: int) -> int:
    return n


@workflow(name="changes.other")
async def other() -> str:
    return (await receive("note")).value


async def published_then_worked():
    await publish("at", 1)
    await work()


async def asked_then_worked():
    question = ask("ready?", timeout="30d", default=True)
    await work()
    return question


async def worked():
    await work()


async def slept():
    await asyncio.sleep(5)
    await work()


async def paid():
    await pay(5)


async def changed(app, old, new, *, late=""):
    """Run `old` until it sleeps for a day, put `new` in its place, and let the run go on."""

    def deploy(body):
        @workflow(name="changes.flow")
        async def flow() -> int:
            await body()
            await asyncio.sleep(86_400)
            return 1

        return flow

    run = await app.start(deploy(old)())
    await app.settle()
    await app.advance("1m")
    assert await run.status() == "waiting"
    deploy(new)
    return run


async def twice_published():
    await publish("new", 0)
    await publish("at", 1)
    await work()


async def unawaited_publish_first():
    publish("new", 0)
    await work()


async def unawaited_ask_first():
    ask("really?", timeout="30d", default=True)
    await work()


async def unawaited_promise_first():
    promise("approval")
    await work()


async def child_first():
    await start(child(1), detached=True)
    await work()


async def child_behind():
    task = asyncio.create_task(start(child(1), detached=True))
    await asyncio.sleep(0)
    await work()
    await task


async def ask_before_the_ask():
    early = ask("are you there?", timeout="30d", default=True)
    return early, await asked_then_worked()


async def sends_first():
    await send("other", "note", "hello")
    await published_then_worked()


async def ask_to_another():
    question = ask("ready?", to="boss", timeout="30d", default=True)
    await work()
    return question


async def sleeps_inside_a_timeout():
    async with asyncio.timeout(3600):
        await work()


async def pays_more():
    await pay(6)


async def returns_at_once():
    raise LookupError("a mistake in the new code")


@pytest.mark.parametrize(
    ("old", "new", "recorded", "asked"),
    [
        pytest.param(published_then_worked, twice_published, "published /publish#0", "publish#0", id="s08-publish"),
        pytest.param(published_then_worked, sends_first, "published /publish#0", "sent /send#0", id="s08-send"),
        pytest.param(worked, unawaited_publish_first, "step /changes.work#0", "published /publish#0", id="publish-unawaited"),
        pytest.param(worked, unawaited_ask_first, "step /changes.work#0", "opened /ask#0", id="ask-unawaited"),
        pytest.param(
            worked, unawaited_promise_first, "step /changes.work#0", "opened /promise:approval#0", id="promise-unawaited"
        ),
        pytest.param(worked, child_first, "step /changes.work#0", "child /changes.child#0", id="child"),
        pytest.param(worked, child_behind, "step /changes.work#0", "child 1/changes.child#0", id="child-in-a-task"),
        pytest.param(asked_then_worked, worked, "opened /ask#0", "step /changes.work#0", id="ask-removed"),
        pytest.param(asked_then_worked, ask_to_another, "opened /ask#0", "boss", id="ask-to-another"),
        pytest.param(slept, worked, "timer /sleep#0", "step /changes.work#0", id="sleep-removed"),
        pytest.param(slept, sleeps_inside_a_timeout, "timer /sleep#0", "timer /timeout#0", id="s07-timeout"),
        pytest.param(paid, pays_more, "begun /changes.pay#0", "step /changes.pay#0 [6]", id="protected-arguments"),
        pytest.param(paid, worked, "begun /changes.pay#0", "step /changes.work#0", id="protected-removed"),
        pytest.param(worked, returns_at_once, "step /changes.work#0", "", id="raises-early"),
    ],
)
async def test_s08_changed_code_is_blocked_with_both_sides_shown(perdure_app, old, new, recorded, asked):
    app = perdure_app
    await app.start(other(), id="other")
    run = await changed(app, old, new)
    before = lines(await run.history())
    await app.advance("1d")
    why = await blocked(run, "PRD-401")
    assert len(why.recorded) == 1
    assert recorded in why.recorded[0]
    assert any(asked in each for each in why.asked) if asked else why.asked == []
    assert lines(await run.history()) == before, "a blocked run must not get any further"
    assert await app.handle("other").status() == "waiting", "nothing may have been sent"
    # The journal is intact: under the old code the run ends.
    await changed(app, old, old)
    await run.resume()
    assert await run.result() == 1


async def test_an_inserted_question_of_the_same_name_never_takes_the_answer_of_another(perdure_app):
    """Both are `ask#0` for the journal: the inserted one is what the recorded question becomes, and its text tells them apart."""
    app = perdure_app
    run = await changed(app, asked_then_worked, ask_before_the_ask)
    await app.advance("1d")
    why = await blocked(run, "PRD-401")
    assert "ask#1" in "".join(why.asked)


async def test_s07_a_fired_sleep_never_becomes_a_fired_timeout(perdure_app):
    app, bodies = perdure_app, []

    @step(name="s07.long")
    async def long() -> int:
        bodies.append(1)
        return 1

    @workflow(name="s07.flow")
    async def flow() -> str:
        await asyncio.sleep(5)
        await asyncio.sleep(86_400)
        return "slept"

    run = await app.start(flow())
    await app.settle()
    await app.advance("1m")

    @workflow(name="s07.flow")
    async def flow() -> str:
        try:
            async with asyncio.timeout(3600):
                await long()
        except TimeoutError:
            return "timed out"
        return "done"

    await app.advance("1d")
    why = await blocked(run, "PRD-401")
    assert why.recorded[0].startswith("2 timer /sleep#0")
    assert bodies == []


async def test_code_that_returns_earlier_than_recorded_is_blocked(perdure_app):
    app = perdure_app

    def deploy(count):
        @workflow(name="early.flow")
        async def flow() -> int:
            for n in range(count):
                await work(n)
            if count > 1:
                await asyncio.sleep(60)
            return count

        return flow

    run = await app.start(deploy(3)())
    await app.settle()
    deploy(1)
    why = await blocked(run, "PRD-401")
    assert why.recorded == ["3 step /changes.work#1 [1]"]
    assert "ended" in why.reason
    deploy(3)
    await run.resume()
    assert await run.result() == 3


async def test_another_kind_under_the_same_key_is_divergence(perdure_app):
    app = perdure_app

    @step(name="publish")
    async def a_step() -> None: ...

    def deploy(body):
        @workflow(name="kinds.flow")
        async def flow() -> int:
            await body()
            await asyncio.sleep(60)
            return 1

        return flow

    run = await app.start(deploy(a_step)())
    await app.settle()
    deploy(lambda: publish("a", 1))
    why = await blocked(run, "PRD-401")
    assert "a published under this key" in why.reason
    assert why.recorded == ["2 step /publish#0 []"]


async def test_s21_an_old_build_is_blocked_for_itself_only(make_app, tmp_path, monkeypatch):
    url, bodies = f"sqlite:///{tmp_path}/s21.db", []

    @step(name="s21.a")
    async def a() -> int:
        bodies.append("a")
        return 1

    @step(name="s21.b")
    async def b() -> int:
        bodies.append("b")
        return 2

    def deploy(*steps):
        @workflow(name="s21.flow")
        async def flow() -> int:
            for each in steps:
                await each()
            await asyncio.sleep(3600)
            return len(steps)

        return flow

    old, new = deploy(a), deploy(a, b)
    monkeypatch.setenv("PERDURE_BUILD", "new")
    async with make_app(url, workflows=[new]) as app:
        clock = app.clock
        run_id = (await app.start(new())).id
        await app.settle()
    clock.advance_to(clock.now() + 3_601_000_000)
    monkeypatch.setenv("PERDURE_BUILD", "old")
    async with make_app(url, workflows=[old], clock=clock) as app:
        why = await blocked(app.handle(run_id), "PRD-401")
        assert why.build == "old"
        await app.advance("1h")
        assert await app.handle(run_id).status() == "blocked"
    monkeypatch.setenv("PERDURE_BUILD", "new")
    async with make_app(url, workflows=[new], clock=clock) as app:
        await app.settle()
        assert await app.handle(run_id).status() == "succeeded", "the other build needs no resume()"
        assert await app.handle(run_id).result() == 2
    assert bodies == ["a", "b"]
