"""Replay: workflow code sees the same live and replayed, whatever happened in between and in whatever order."""

import asyncio
import collections
import random
import sys
import uuid

import pytest

from perdure import RunFailed, ask, now, publish, receive, rng, step, uuid4, workflow
from perdure.core.errors import StepError

from .tools import blocked, journal_of, kinds, lines, replayed, until


def same_in_every_pass(passes):
    """What each pass of the code saw must be what the longest one saw, as far as it came."""
    longest = max(passes, key=len)
    for each in passes:
        assert each == longest[: len(each)]
    return longest


async def test_time_and_randomness_are_the_same_in_every_pass(perdure_app):
    app, passes = perdure_app, []

    @step
    async def work(n: int) -> int:
        return n

    @workflow
    async def draws() -> list[str]:
        seen = []
        passes.append(seen)

        def look():
            dice = rng()
            seen.append((now(), asyncio.get_running_loop().time(), dice.random(), dice.randint(1, 6), uuid4()))

        look()
        look()
        await work(1)
        look()
        await asyncio.sleep(3600)
        look()
        await asyncio.gather(work(2), work(3))
        look()
        return [str(each[-1]) for each in seen]

    run = await app.start(draws())
    await app.advance("30m")
    await app.crash()
    ids = await app.handle(run.id).result()
    longest = same_in_every_pass(passes)
    assert len(passes) >= 2
    assert [str(each[-1]) for each in longest] == ids
    assert len({each[2] for each in longest}) == len({each[-1] for each in longest}) == 5
    assert {each[-1].version for each in longest} == {4}
    assert (longest[3][0] - longest[0][0]).total_seconds() == 3600
    assert longest[0][0].utcoffset().total_seconds() == 0
    assert await app.run(draws()) != ids, "another run draws others"


async def first_ask(app):
    return next(iter((await app.inbox()).items), None)


class Refused(Exception):
    def __init__(self, code, detail=""):
        super().__init__(f"refused with {code}")
        self.code = code
        self.detail = detail


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad", 3),
        Refused(402, detail="no money"),
        ExceptionGroup("several", [KeyError("a"), OSError(2, "no such file")]),
        TimeoutError(),
        asyncio.CancelledError("inside"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_is_caught_the_same_live_and_replayed(perdure_app, error):
    app, passes = perdure_app, []

    @step
    async def raises() -> None:
        raise error

    @workflow
    async def catches() -> str:
        seen = []
        passes.append(seen)
        try:
            await raises()
        except (Exception, asyncio.CancelledError) as caught:
            seen.append(
                (type(caught), repr(caught), str(caught), getattr(caught, "code", None), getattr(caught, "detail", None))
            )
            seen.append((type(caught.__cause__), caught.__suppress_context__))
            if isinstance(caught, ExceptionGroup):
                seen.append([repr(each) for each in caught.exceptions])
        await asyncio.sleep(60)
        return seen[0][1]

    run = await app.start(catches())
    await app.settle()
    await app.crash()
    caught = await app.handle(run.id).result()
    longest = same_in_every_pass(passes)
    assert len(passes) >= 2
    control_flow = isinstance(error, asyncio.CancelledError)
    assert longest[0][0] is (StepError if control_flow else type(error))
    if not control_flow:
        assert caught == repr(error)
        assert longest[0][3:] == (getattr(error, "code", None), getattr(error, "detail", None))


async def test_an_exception_whose_class_is_gone_is_the_same_in_every_pass(perdure_app):
    app, passes = perdure_app, []

    @step
    async def raises() -> None:
        raise type("MadeUp", (Exception,), {"__module__": "nowhere"})("of no module")

    @workflow
    async def catches() -> str:
        try:
            await raises()
        except StepError as caught:
            passes.append((caught.type_name, caught.message))
        await asyncio.sleep(60)
        return passes[-1][0]

    run = await app.start(catches())
    await app.settle()
    await app.crash()
    assert (await app.handle(run.id).result()).endswith("MadeUp")
    assert len(passes) >= 2
    assert len(set(passes)) == 1


async def test_the_error_of_a_run_is_that_of_its_code(perdure_app):
    app = perdure_app

    @step
    async def raises() -> None:
        raise Refused(500, detail="down")

    @workflow
    async def fails() -> None:
        await asyncio.sleep(60)
        await raises()

    run = await app.start(fails())
    await app.settle()
    await app.crash()
    with pytest.raises(RunFailed) as caught:
        await app.handle(run.id).result()
    assert isinstance(caught.value.__cause__, Refused)
    assert (caught.value.__cause__.code, caught.value.__cause__.detail) == (500, "down")


async def test_p13_a_fan_out_with_early_stop_and_a_large_result_is_replayed_byte_for_byte(perdure_app):
    app, passes, bodies = perdure_app, [], []
    release = {n: asyncio.Event() for n in range(5)}

    @step
    async def part(n: int) -> dict[str, list[str]]:
        await release[n].wait()
        bodies.append(n)
        return {"lines": [f"{n}:{'é' * 3000}{line}" for line in range(100)]}

    @workflow
    async def fans_out() -> list[str]:
        seen = []
        passes.append(seen)
        parts = [asyncio.create_task(part(n), name=f"part {n}") for n in range(5)]
        while len(seen) < 3:
            done, open_parts = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                seen.append((each.get_name(), each.result()))
                parts.remove(each)
        for each in open_parts:
            each.cancel()
        seen.append([type(each) for each in await asyncio.gather(*parts, return_exceptions=True)])
        await asyncio.sleep(3600)
        return [name for name, _ in seen[:3]]

    run = await app.start(fans_out())
    for n in (3, 0, 4):
        release[n].set()
        await app.gate.changed()
    await app.settle()
    await app.crash()
    assert await app.handle(run.id).result() == ["part 3", "part 0", "part 4"]
    longest = same_in_every_pass(passes)
    assert longest[3] == [asyncio.CancelledError] * 2
    assert len(longest[0][1]["lines"][0].encode()) > 6000
    assert bodies == [3, 0, 4]


async def test_p14_a_thousand_random_interleavings(make_app):
    """Two branches of three steps and a race with a timer; what ends when is drawn anew for each run, and each is replayed."""
    passes, chance = collections.defaultdict(list), random.Random(14)

    async with make_app() as app:
        # Where each is replayed before every one of its entries, a quarter of them is as many replays.
        count = 250 if app._options.replay_every_await else 1000

        @step
        async def work(n: int, name: str) -> str:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            return name

        @workflow
        async def interleaves(n: int) -> list[str]:
            seen = []
            passes[n].append(seen)

            async def branch(name):
                for number in range(3):
                    seen.append(await work(n, f"{name}{number}"))
                return name

            seen.append(str(await asyncio.gather(branch("a"), branch("b"))))
            racers = {
                asyncio.create_task(work(n, "c")),
                asyncio.create_task(branch("d")),
                asyncio.create_task(asyncio.sleep(1)),
            }
            done, _ = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
            seen.append(len(done))
            done, _ = await asyncio.wait(racers)
            seen.extend(str(each.result()) for each in done)
            return list(map(str, seen))

        runs = [await app.start(interleaves(n)) for n in range(count)]
        results = [await run.result() for run in runs]
        for n, result in enumerate(results):
            longest = same_in_every_pass(passes[n])
            assert list(map(str, longest)) == result
            assert len(passes[n]) >= 2
        assert len({tuple(each) for each in results}) > 10, "not many different orders"
        for n, run in enumerate(runs[:20]):
            entries = await journal_of(app, run)
            assert len(entries) == 12
            before = len(passes[n])
            for length in range(1, len(entries) + 1):
                await replayed(app, run, entries[:length])
            assert len(passes[n]) == before + len(entries)
            same_in_every_pass(passes[n])


async def test_p15_every_prefix_of_a_journal_is_a_prefix_of_what_was_seen(perdure_app):
    """A state machine: messages, step ends, answers and time in quick succession have one order, and that is replayed."""
    app, passes, release = perdure_app, [], asyncio.Event()

    @step
    async def slow(n: int) -> int:
        await release.wait()
        return n

    @workflow
    async def machine() -> list[str]:
        seen = []
        passes.append(seen)
        counter = 0

        async def listens():
            nonlocal counter
            while True:
                message = await receive("add", "stop")
                counter += message.value
                seen.append(f"{message.name} {counter}")
                await publish("counter", counter)
                if message.name == "stop":
                    return

        async def works(n):
            nonlocal counter
            counter += await slow(n)
            seen.append(f"step {n} {counter}")

        async def asks():
            nonlocal counter
            counter += await ask("how many?", schema=int)
            seen.append(f"answer {counter}")

        async def sleeps():
            nonlocal counter
            await asyncio.sleep(1)
            counter *= 2
            seen.append(f"timer {counter}")

        await asyncio.gather(listens(), works(10), works(20), asks(), sleeps())
        return seen

    run = await app.start(machine())
    question = await until(lambda: first_ask(app), "the question")
    await run.send("add", 1)
    release.set()
    await run.send("add", 2)
    await app.answer(question.id, 100)
    await run.send("add", 3)
    await app.advance("2s")
    await run.send("stop", 4)
    seen = await run.result()
    assert len(seen) == 8
    assert seen == same_in_every_pass(passes)
    assert await run.get("counter") == int(seen[-1].split()[-1])

    entries = await journal_of(app, run)
    lengths = []
    for length in range(1, len(entries) + 1):
        passes.clear()
        await replayed(app, run, entries[:length])
        assert passes[0] == seen[: len(passes[0])]
        lengths.append(len(passes[0]))
    assert lengths == sorted(lengths)
    assert lengths[-1] == len(seen)
    assert set(lengths) == set(range(len(seen) + 1)), "never more than one thing happens at once"


async def test_s06_an_outcome_behind_the_time_out_that_abandoned_it(perdure_app):
    app, passes, going, release = perdure_app, [], asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> str:
        going.set()
        await release.wait()
        return "too late"

    @step
    async def quick() -> str:
        return "quick"

    @workflow
    async def gives_up() -> list[str]:
        seen = []
        passes.append(seen)
        try:
            async with asyncio.timeout(60):
                seen.append(await slow())
        except TimeoutError:
            seen.append("timed out")
        seen.append(await quick())
        await asyncio.sleep(3600)
        seen.append(now().isoformat())
        return seen

    run = await app.start(gives_up())
    await going.wait()
    app.clock.advance_to(app.clock.next_alarm())
    release.set()  # at the moment of the deadline, before anybody has looked at the clock
    await app.settle()
    await app.crash()
    result = await app.handle(run.id).result()
    assert result[:2] == ["timed out", "quick"]
    assert result == same_in_every_pass(passes)
    journal = lines(await app.handle(run.id).history())
    assert journal.index("timer /timeout#0") < journal.index("step slow#0")


async def test_an_outcome_before_the_deadline_is_no_time_out_however_late_the_run_wakes(perdure_app):
    app, going, release = perdure_app, asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> str:
        going.set()
        await release.wait()
        return "in time"

    @workflow
    async def patient() -> str:
        async with asyncio.timeout(60):
            return await slow()

    run = await app.start(patient())
    await going.wait()
    app.clock.advance_to(app.clock.next_alarm() - 1)
    release.set()
    await app.settle()
    assert await run.result() == "in time"
    assert await kinds(run) == ["started", "step"]


async def test_s09_a_journal_of_wait_for_holds_nothing_of_a_python_version(perdure_app):
    app, going = perdure_app, asyncio.Event()

    @step
    async def quick() -> str:
        return "quick"

    @step
    async def hangs() -> str:
        going.set()
        await asyncio.Event().wait()
        return "never"

    @workflow
    async def waits() -> list[str]:
        seen = [await asyncio.wait_for(quick(), 60)]
        try:
            await asyncio.wait_for(hangs(), 60)
        except TimeoutError:
            seen.append("timed out")
        seen.append(await asyncio.wait_for(asyncio.create_task(quick()), 60))
        seen += [await each for each in asyncio.as_completed([quick(), quick()])]
        return seen

    run = await app.start(waits())
    await going.wait()
    app.clock.jump()
    assert await run.result() == ["quick", "timed out", "quick", "quick", "quick"]
    keys = [each.key for each in await run.history() if each.kind in ("step", "timer")]
    module = hangs.name.removesuffix("hangs")
    assert [key.replace(module, "") for key in keys] == [
        "/quick#0", "/wait_for#1", "1/quick#0", "2/quick#0", "3/quick#0",
    ]  # fmt: skip


@pytest.mark.parametrize("later_first", [False, True])
async def test_timers_of_one_deadline_fire_in_the_order_in_which_they_were_set(perdure_app, later_first):
    app, passes = perdure_app, []

    @workflow
    async def naps() -> list[int]:
        seen = []
        passes.append(seen)

        async def nap(n):
            await asyncio.sleep(60 if not later_first else 60 + n % 2)
            seen.append(n)

        await asyncio.gather(*(nap(n) for n in range(6)))
        await asyncio.sleep(1)
        return seen

    result = await app.run(naps())
    assert result == ([0, 2, 4, 1, 3, 5] if later_first else [0, 1, 2, 3, 4, 5])
    assert same_in_every_pass(passes) == result


async def test_sets_of_tasks_are_gone_through_in_the_order_of_their_creation(perdure_app):
    app, passes = perdure_app, []

    @step
    async def work(n: int) -> int:
        return n

    @workflow
    async def waits() -> list[int]:
        seen = []
        passes.append(seen)
        done, _ = await asyncio.wait({asyncio.create_task(work(n)) for n in range(40)})
        for each in done:
            seen.append(each.result())
            await work(each.result())
        return seen

    assert sorted(await app.run(waits())) == list(range(40))
    same_in_every_pass(passes)


async def test_p21_a_thread_of_the_workflow_is_refused_and_nothing_runs_unjournaled(perdure_app):
    bodies = []

    @step
    def work(n: int) -> int:
        bodies.append(n)
        return n

    @workflow
    async def threads() -> int:
        return await asyncio.to_thread(lambda: asyncio.run(work(1)))

    run = await perdure_app.start(threads())
    why = await blocked(run, "PRD-402")
    assert "step" in why.hint
    assert bodies == []
    assert await kinds(run) == ["started"]


async def test_x23_modules_are_imported_once_for_all_runs(perdure_app, tmp_path, monkeypatch):
    name = f"heavy_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text("import sys\nsys.heavy_imports = getattr(sys, 'heavy_imports', 0) + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "heavy_imports", 0, raising=False)

    @workflow
    async def imports() -> int:
        module = __import__(name)
        await asyncio.sleep(1)
        assert __import__(name) is module is sys.modules[name]
        return id(module)

    runs = [await perdure_app.start(imports()) for _ in range(10)]
    assert len({await run.result() for run in runs}) == 1
    assert sys.heavy_imports == 1
