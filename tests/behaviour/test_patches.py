"""Ways through a change of code: patches, former names, pinned versions."""

import asyncio

import pytest

from perdure import patched, step, workflow
from perdure.cli.explaining import explain

from .tools import blocked, kinds, lines


@step(name="patches.old")
async def old_step(n: int = 0) -> str:
    return f"old {n}"


@step(name="patches.new")
async def new_step(n: int = 0) -> str:
    return f"new {n}"


@step(name="patches.check")
async def check() -> str:
    return "checked"


def deploy(step_of):
    """The workflow with a step that `step_of` names, twice."""

    @workflow(name="patches.flow")
    async def flow() -> list[str]:
        seen = [await step_of()(1)]
        await asyncio.sleep(3600)
        return [*seen, await step_of()(2)]

    return flow


def first():
    return old_step


def guarded():
    return new_step if patched("other-model") else old_step


def last():
    return new_step


async def test_runs_that_had_passed_keep_the_old_branch_and_new_ones_take_the_new(perdure_app):
    app = perdure_app
    old = await app.start(deploy(first)())
    await app.settle()
    new = await app.start(deploy(guarded)())
    assert await old.result() == ["old 1", "old 2"]
    assert await new.result() == ["new 1", "new 2"]
    assert await kinds(old) == ["started", "step", "timer", "step"]
    assert lines(await new.history()) == [
        "started ", "patched other-model", "step new#0", "timer /sleep#0", "step new#1",
    ]  # fmt: skip


async def test_a_taken_branch_stays_taken_over_crashes(perdure_app):
    app = perdure_app
    old = await app.start(deploy(first)(), id="old")
    await app.settle()
    await app.start(deploy(guarded)(), id="new")
    for _ in range(3):
        await app.settle()
        await app.crash()
        await app.advance("10m")
    assert await app.handle("new").result() == ["new 1", "new 2"]
    assert await app.handle(old.id).result() == ["old 1", "old 2"]
    assert (await kinds(app.handle("new"))).count("patched") == 1


async def test_a_crash_before_the_branch_is_recorded_decides_it_anew_with_nothing_done(perdure_app):
    """The step of a branch starts only after the branch is durable: no run ever has done both."""
    app, bodies, going = perdure_app, [], asyncio.Event()

    @step(name="patches.slow")
    async def slow(branch: str) -> str:
        bodies.append(branch)
        if len(bodies) == 1:
            going.set()
            await asyncio.Event().wait()
        return branch

    @workflow
    async def flow() -> str:
        return await slow("new" if patched("slow") else "old")

    run = await app.start(flow())
    await going.wait()
    assert await kinds(run) == ["started", "patched"]
    await app.crash()
    assert await app.handle(run.id).result() == "new"
    assert bodies == ["new", "new"]


async def test_the_branch_is_decided_once_for_a_run(perdure_app):
    """A run that was in the middle of a loop when the code changed takes the old branch in every round."""
    app = perdure_app

    def deploy(body):
        @workflow(name="patches.loop")
        async def loop() -> list[str]:
            seen = []
            for n in range(4):
                seen.append(await body(n))
                await asyncio.sleep(60)
            return seen

        return loop

    async def either(n):
        return await (new_step(n) if patched("loop") else old_step(n))

    old = await app.start(deploy(old_step)())
    await app.advance("90s")
    new = await app.start(deploy(either)())
    assert await old.result() == ["old 0", "old 1", "old 2", "old 3"]
    assert await new.result() == ["new 0", "new 1", "new 2", "new 3"]
    assert (await kinds(new)).count("patched") == 1


async def test_a_place_that_a_run_has_not_reached_is_taken_anew(perdure_app):
    app = perdure_app

    def deploy(*, guarded):
        @workflow(name="patches.later")
        async def flow() -> list[str]:
            seen = [await old_step()]
            await asyncio.sleep(3600)
            if guarded and patched("check-first"):
                seen.append(await check())
            return [*seen, await old_step()]

        return flow

    run = await app.start(deploy(guarded=False)())
    await app.settle()
    deploy(guarded=True)
    assert await run.result() == ["old 0", "checked", "old 0"]
    assert (await kinds(run))[2:] == ["timer", "patched", "step", "step"]


async def test_two_changes_are_decided_apart(perdure_app):
    app = perdure_app

    def deploy(*changes):
        @workflow(name="patches.two")
        async def flow() -> list[str]:
            seen = []
            if "first" in changes and patched("first"):
                seen.append("first")
            await old_step()
            await asyncio.sleep(60)
            await old_step()
            if "second" in changes and patched("second"):
                seen.append("second")
            await asyncio.sleep(60)
            return seen

        return flow

    runs = []
    for changes in ((), ("first",), ("first", "second")):
        runs.append(await app.start(deploy(*changes)()))
        await app.settle()
    assert [await run.result() for run in runs] == [["second"], ["first", "second"], ["first", "second"]]


async def test_a_patch_may_go_when_the_old_runs_have_gone(perdure_app):
    app = perdure_app
    run = await app.start(deploy(guarded)())
    await app.settle()
    deploy(last)
    assert await run.result() == ["new 1", "new 2"]


async def test_a_patch_that_goes_too_early_blocks_the_old_runs(perdure_app):
    app = perdure_app
    run = await app.start(deploy(first)())
    await app.settle()
    deploy(guarded)
    await app.advance("1m")
    deploy(last)
    why = await blocked(run, "PRD-401")
    assert why.recorded == ["2 step /patches.old#0 [1]"]
    assert why.asked == ["step /patches.new#0 [1]"]
    deploy(guarded)
    await run.resume()
    assert await run.result() == ["old 1", "old 2"]


async def test_a_blocked_run_goes_on_with_a_patch(perdure_app):
    """P63: instead of a roll back."""
    app = perdure_app

    def deploy(body):
        @workflow(name="patches.blocked")
        async def flow() -> list[str]:
            seen = await body()
            await asyncio.sleep(60)
            return seen

        return flow

    async def before():
        return [await old_step(1), await old_step(2)]

    async def after():
        return [await old_step(1), await check(), await old_step(2)]

    async def guarded():
        return await after() if patched("check") else await before()

    run = await app.start(deploy(before)())
    await app.settle()
    deploy(after)
    await blocked(run, "PRD-401")
    deploy(guarded)
    await run.resume()
    assert await run.result() == ["old 1", "old 2"]
    assert await app.run(deploy(guarded)()) == ["old 1", "checked", "old 2"]


async def test_patches_in_parallel_tasks(perdure_app):
    app = perdure_app

    @workflow
    async def flow() -> list[str]:
        async def one(n):
            return await (new_step(n) if patched(f"change {n % 2}") else old_step(n))

        return await asyncio.gather(*(one(n) for n in range(6)))

    run = await app.start(flow())
    assert await run.result() == [f"new {n}" for n in range(6)]
    assert [each.key for each in await run.history() if each.kind == "patched"] == ["change 0", "change 1"]


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_renamed_workflow_is_found_by_its_alias(perdure_app):
    app = perdure_app

    @workflow(name="renamed.before")
    async def before(n: int) -> int:
        await old_step(n)
        await asyncio.sleep(60)
        return n

    run = await app.start(before(7))
    await app.settle()

    @workflow(name="renamed.after", aliases=["renamed.before"])
    async def after(n: int) -> int:
        await old_step(n)
        await asyncio.sleep(60)
        return n * 10

    assert await run.result() == 70
    assert await app.run("renamed.before", args={"n": 1}) == 10
    assert await app.run(after(2)) == 20


async def test_a_step_renamed_twice_is_found_by_both_former_names(perdure_app):
    app, bodies = perdure_app, []

    def deploy(name, *aliases):
        @step(name=name, aliases=list(aliases))
        async def work(n: int) -> str:
            bodies.append(n)
            return f"{name} {n}"

        @workflow(name="renamed.twice")
        async def flow() -> list[str]:
            seen = []
            for n in range(3):
                seen.append(await work(n))
                await asyncio.sleep(60)
            return seen

        return flow

    run = await app.start(deploy("twice.a")())
    await app.advance("30s")
    deploy("twice.b", "twice.a")
    await app.advance("60s")
    deploy("twice.c", "twice.b", "twice.a")
    assert await run.result() == ["twice.a 0", "twice.b 1", "twice.c 2"]
    assert bodies == [0, 1, 2]


# ── versions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def deploy_version(version):
    @workflow(name="versions.flow", version=version)
    async def flow() -> str:
        await asyncio.sleep(60)
        return version

    return flow


async def test_a_version_pins_a_run_to_workers_that_declare_it(perdure_app):
    app = perdure_app
    pinned = await app.start(deploy_version("v1")(), id="pinned")
    await app.settle()
    assert (await pinned.info()).version == "v1"
    assert (await pinned.history())[0].kind == "started"
    other = await app.start(deploy_version("v2")(), id="other")
    await app.advance("10m")
    assert await other.result() == "v2"
    assert await pinned.status() == "waiting", "it is neither taken nor blocked"
    row = await app.gate.read(lambda: app.gate.store.run("pinned"))
    assert any("pinned to version 'v1'" in note for note in (await explain(app, row, replay=False)).notes)
    deploy_version("v1")
    app.worker.take()
    assert await pinned.result() == "v1"


@pytest.mark.parametrize(("began", "now", "goes_on"), [("", "v2", True), ("v1", "", False), ("v1", "v1", True)])
async def test_only_runs_that_began_under_a_version_are_pinned(perdure_app, began, now, goes_on):
    app = perdure_app
    run = await app.start(deploy_version(began)())
    await app.settle()
    deploy_version(now)
    await app.advance("10m")
    assert await run.status() == ("succeeded" if goes_on else "waiting")
