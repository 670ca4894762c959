"""Child runs: started once, awaited or held by a handle; their results, errors and ids in their parent."""

import asyncio

import pytest

from perdure import DuplicateRun, RunFailed, ask, current_run, receive, send, start, step, workflow

from .tools import all_runs, kinds, lines, until


class Unpaid(Exception):
    def __init__(self, amount, currency):
        super().__init__(f"{amount} {currency}")
        self.amount, self.currency = amount, currency


async def test_p22_a_paid_step_in_a_child_runs_once_whatever_happens_after_it(perdure_app):
    app, paid = perdure_app, []

    @step
    async def pay(depth: int) -> int:
        paid.append(depth)
        return depth

    @workflow
    async def grandchild() -> int:
        cost = await pay(2)
        await ask("go on?")
        return cost

    @workflow
    async def child() -> int:
        return await pay(1) + await grandchild()

    @workflow
    async def parent() -> int:
        return await pay(0) + await child()

    run = await app.start(parent(), id="family")
    await app.settle()
    for _ in range(2):
        await app.crash()
        await app.settle()
    question = await app.next_ask()
    await app.answer(question.id, True)
    await app.settle()
    await app.crash()
    assert await app.handle("family").result() == 3
    assert paid == [0, 1, 2]
    assert lines(await app.handle("family").history()) == [
        "started ", "step pay#0", f"child /{child.name}#0", f"child_ended /{child.name}#0",
    ]  # fmt: skip
    runs = await all_runs(app)
    assert len(runs) == 3
    assert set(runs.values()) == {"succeeded"}
    assert question.run in runs
    assert run.id == "family"


async def test_x12_children_that_have_ended_are_served_from_the_journal(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def work(n: int) -> int:
        bodies.append(n)
        return n

    @workflow
    async def child(n: int) -> int:
        return await work(n)

    @workflow
    async def parent() -> list[int]:
        results = [await child(n) for n in range(3)]
        await receive("go")
        return results

    run = await app.start(parent())
    await app.settle()
    for _ in range(3):
        await app.crash()
        await app.advance("30s")
    run = app.handle(run.id)
    await run.send("go")
    assert await run.result() == [0, 1, 2]
    assert bodies == [0, 1, 2]
    assert len(await all_runs(app)) == 4


async def test_a_child_outlives_a_crash_between_its_start_and_its_beginning(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def work() -> int:
        bodies.append(1)
        return 5

    @workflow
    async def child() -> int:
        return await work()

    @workflow
    async def parent() -> int:
        return await child()

    async def started():
        return len(await all_runs(app)) == 2

    run = await app.start(parent(), id="p")
    app.worker.draining = True  # nothing more is claimed: the child is there, and has not begun
    await until(started, "the child's start")
    assert sorted((await all_runs(app)).values()) == ["queued", "waiting"] or bodies == []
    await app.crash()
    assert await app.handle("p").result() == 5
    assert bodies == [1]
    assert len(await all_runs(app)) == 2
    assert run.id == "p"


async def test_a_child_s_error_keeps_its_type_in_the_parent(perdure_app):
    app, seen = perdure_app, []

    @workflow
    async def child() -> None:
        raise Unpaid(5, "EUR")

    @workflow
    async def parent() -> str:
        try:
            await child()
        except Unpaid as error:
            seen.append((error.amount, error.currency, str(error)))
            await receive("go")
            return f"caught {error}"
        return "no error"

    run = await app.start(parent())
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    await run.send("go")
    assert await run.result() == "caught 5 EUR"
    assert set(seen) == {(5, "EUR", "5 EUR")}
    assert sorted((await all_runs(app)).values()) == ["failed", "succeeded"]


async def test_an_error_that_the_parent_lets_pass_fails_it_too(perdure_app):
    @workflow
    async def child() -> None:
        raise Unpaid(7, "CHF")

    @workflow
    async def parent() -> None:
        await child()

    with pytest.raises(RunFailed) as caught:
        await perdure_app.run(parent())
    assert isinstance(caught.value.__cause__, Unpaid)
    assert caught.value.__cause__.amount == 7


async def test_an_id_that_is_taken_is_a_duplicate_run_in_the_parent(perdure_app):
    app = perdure_app

    @workflow
    async def child(n: int) -> int:
        return n

    @workflow
    async def parent() -> list[str | int]:
        seen: list[str | int] = []
        try:
            await start(child(1), id="taken")
        except DuplicateRun as error:
            seen.append(error.code)
        seen.append(await (await start(child(2), id="mine")))
        await receive("go")
        return seen

    other = await app.start(child(9), id="taken")
    assert await other.result() == 9
    run = await app.start(parent())
    await app.settle()
    await app.crash()
    run = app.handle(run.id)
    await run.send("go")
    assert await run.result() == ["PRD-104", 2]
    assert await app.handle("taken").result() == 9
    assert await kinds(run) == ["started", "child", "child", "child_ended", "signal"]


async def test_fifty_children_at_once(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def work(n: int) -> int:
        bodies.append(n)
        return n

    @workflow
    async def child(n: int) -> int:
        return await work(n)

    @workflow
    async def parent() -> list[int]:
        return list(await asyncio.gather(*(child(n) for n in range(50))))

    run = await app.start(parent())
    assert await run.result() == list(range(50))
    assert sorted(bodies) == list(range(50))
    assert sorted(await kinds(run)) == sorted(["started", *["child"] * 50, *["child_ended"] * 50])
    assert set((await all_runs(app)).values()) == {"succeeded"}


async def test_recursion(perdure_app):
    app = perdure_app

    @workflow
    async def factorial(n: int) -> int:
        return n * await factorial(n - 1) if n else 1

    run = await app.start(factorial(10), id="f")
    assert await run.result() == 3_628_800
    runs = (await app.runs(workflow=factorial.name)).items
    assert len(runs) == 11
    assert all(each.id.startswith("f") for each in runs)


async def test_a_child_s_id_follows_from_its_place_and_it_can_be_reached_by_it(perdure_app):
    app = perdure_app

    @workflow
    async def child() -> str:
        return (await receive("go")).value

    @workflow
    async def parent() -> list[str]:
        handles = [await start(child()) for _ in range(2)]
        for n, handle in enumerate(handles):
            await send(handle.id, "go", f"{n} of {current_run().id}")
        return [await handle.result() for handle in reversed(handles)]

    run = await app.start(parent(), id="p")
    assert await run.result() == ["1 of p", "0 of p"]
    ids = sorted(each for each in await all_runs(app) if each != "p")
    assert ids == [f"p/{child.name}#0", f"p/{child.name}#1"]


async def test_starting_the_same_parent_again_starts_its_children_anew(perdure_app):
    """S19: their ids follow from the parent's, which was replaced."""
    app, bodies = perdure_app, []

    @step
    async def work() -> None:
        bodies.append(1)

    @workflow
    async def child() -> None:
        await work()

    @workflow
    async def parent(n: int) -> int:
        await child()
        return n

    assert await app.run(parent(1), id="p") == 1
    assert await app.run(parent(2), id="p", if_exists="replace") == 2
    assert bodies == [1, 1]


async def test_a_failed_parent_that_is_retried_starts_its_children_anew(perdure_app):
    app, bodies = perdure_app, []

    @step
    async def work() -> int:
        bodies.append(1)
        return len(bodies)

    @workflow
    async def child() -> int:
        return await work()

    @workflow
    async def parent() -> str:
        handle = await start(child())
        if await handle == 1:
            raise ValueError("the first time")
        await receive("go")
        return handle.id

    with pytest.raises(RunFailed):
        await app.run(parent(), id="p")
    run = await app.start(parent(), id="p", if_exists="retry_failed")
    await app.settle()
    await app.crash()
    run = app.handle("p")
    await run.send("go")
    id = await run.result()
    assert id == f"p/{child.name}#0~{(await run.info()).number}"
    assert await app.handle(id).result() == 2
    assert await app.handle(f"p/{child.name}#0").result() == 1
    assert bodies == [1, 1]


async def test_children_are_listed_by_their_parent_s_id(perdure_app):
    app = perdure_app

    @workflow
    async def child(n: int) -> int:
        return n

    @workflow
    async def parent() -> int:
        return sum(await asyncio.gather(*(child(n) for n in range(3))))

    run = await app.start(parent(), id="p")
    assert await run.result() == 3
    listed = (await app.runs(id_prefix="p/")).items
    assert [each.workflow for each in listed] == [child.name] * 3
    number = (await run.info()).number
    children = await app.gate.read(lambda: app.gate.store.children(number))
    assert sorted(each.id for each in children) == sorted(each.id for each in listed)
    assert [each.parent_key for each in children] == [each.key for each in await run.history() if each.kind == "child"]
