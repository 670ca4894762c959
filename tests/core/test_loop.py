"""The loop of one run, by itself: order, timers, closing, refusals. No store, no execution."""

import asyncio
import contextvars
import decimal
import gc
import sys
import threading
import time

import pytest

from perdure.core import stdlib
from perdure.core.errors import Refused, Spinning
from perdure.core.loop import RunLoop, RunTask

stdlib.install()


def begin(coro):
    """A loop that has run a coroutine until it waits."""
    loop = RunLoop()
    loop.start(coro)
    loop.drive()
    return loop


def fire(loop):
    """Let time pass to the next timer. Gives its key."""
    timer = loop.next_timer()
    loop.now = max(loop.now, timer.deadline)
    loop.fire(timer)
    loop.drive()
    return timer.key


def finish(coro):
    """Run a coroutine to its end, letting time pass. Gives its result and the keys of the timers that fired."""
    loop = RunLoop()
    main = loop.start(coro)
    loop.drive()
    keys = []
    while not main.done():
        keys.append(fire(loop))
    return main.result(), keys


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tasks_in_a_set_come_in_the_order_of_their_creation():
    async def main():
        tasks = {asyncio.create_task(asyncio.sleep(0), name=str(number)) for number in range(5)}
        done, _ = await asyncio.wait(tasks)
        return [task.get_name() for task in done]

    ballast = [object() for _ in range(1000)]  # other addresses at each call
    assert {tuple(finish(main())[0]) for _ in range(20)} == {("0", "1", "2", "3", "4")}
    del ballast


def test_the_hash_of_a_task_does_not_depend_on_how_many_futures_there_were():
    async def main(futures):
        loop = asyncio.get_running_loop()
        for _ in range(futures):
            loop.create_future()
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(3)]
        await asyncio.wait(tasks)
        return [hash(task) for task in tasks]

    assert finish(main(0))[0] == finish(main(13))[0]


def test_futures_and_gatherings_hash_by_creation_too():
    async def main():
        loop = asyncio.get_running_loop()
        first, gathering, last = loop.create_future(), asyncio.gather(asyncio.sleep(0)), loop.create_future()
        await gathering
        return [hash(each) for each in (first, gathering, last)]

    numbers = finish(main())[0]
    assert numbers == sorted(numbers)
    assert numbers == finish(main())[0]


def test_a_gathering_of_another_loop_keeps_its_hash():
    async def main():
        gathering = asyncio.gather(asyncio.sleep(0))
        await gathering
        return hash(gathering) == object.__hash__(gathering)

    assert asyncio.run(main())


def test_paths_number_child_tasks_inside_their_parents():
    async def leaf():
        return asyncio.current_task().scope.path

    async def branch():
        return [asyncio.current_task().scope.path, *await asyncio.gather(leaf(), leaf())]

    async def main():
        async with asyncio.TaskGroup() as group:
            branches = [group.create_task(branch()) for _ in range(2)]
        return [branch.result() for branch in branches]

    assert finish(main())[0] == [["1", "1.1", "1.2"], ["2", "2.1", "2.2"]]


def test_many_ended_tasks_are_not_kept():
    async def main():
        for _ in range(5000):
            await asyncio.create_task(asyncio.sleep(0))
        return len(asyncio.get_running_loop()._tasks)

    assert finish(main())[0] < 200


def test_tasks_that_were_to_begin_eagerly_begin_later_and_have_their_place():
    if not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("eager tasks came with Python 3.12")

    async def main():
        began = []

        async def child():
            began.append(asyncio.current_task().scope.path)

        task = asyncio.eager_task_factory(asyncio.get_running_loop(), child(), name="eager")
        assert type(task) is RunTask
        assert not began
        await task
        return began, task.get_name()

    assert finish(main())[0] == (["1"], "eager")


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_time_moves_only_when_it_is_set():
    async def main():
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(3600)
        return before, loop.time()

    started = time.monotonic()
    assert finish(main())[0] == (0.0, 3600.0)
    assert time.monotonic() - started < 5


def test_a_timer_is_keyed_by_what_made_it_and_where():
    async def main():
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1)
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await loop.create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 1)
        await asyncio.wait([loop.create_future()], timeout=1)
        called = loop.create_future()
        loop.call_later(1, called.set_result, None)
        await called
        await asyncio.gather(asyncio.sleep(1), asyncio.sleep(1))

    keys = finish(main())[1]
    assert keys == ["/sleep#0", "/sleep#1", "/timeout#0", "/wait_for#0", "/wait#0", "/call_at#0", "1/sleep#0", "2/sleep#0"]


def test_timers_that_are_due_at_once_fire_in_the_order_in_which_they_were_set():
    async def main():
        order = []

        async def one(number):
            await asyncio.sleep(1)
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(10)))
        return order

    assert finish(main())[0] == list(range(10))


def test_a_deadline_is_kept_in_whole_microseconds():
    loop = begin(asyncio.sleep(0.1234567))
    assert loop.next_timer().deadline == 123457
    loop.drop()


def test_a_cancelled_timer_is_told_and_passed_over():
    async def main():
        loop = asyncio.get_running_loop()
        handle = loop.call_later(1, int)
        await asyncio.sleep(2)
        return handle

    loop = RunLoop()
    abandoned = []
    loop.abandon_timer = abandoned.append
    main_task = loop.start(main())
    loop.drive()
    first = loop.next_timer()
    first.cancel()
    assert abandoned == [first]
    assert fire(loop) == "/sleep#0"
    assert main_task.done()


def test_any_timer_may_fire_first():
    loop = begin(asyncio.wait_for(asyncio.sleep(1), 5))
    later = next(timer for timer in loop._heap if timer.deadline == 5_000_000)
    loop.now = 5_000_000
    loop.fire(later)
    loop.drive()
    assert isinstance(loop._tasks[0].exception(), TimeoutError)
    assert loop.next_timer() is None


# ── async generators ────────────────────────────────────────────────────────────────────────────────────────────────


def test_S11_a_generator_that_is_left_closes_at_a_fixed_point():
    async def main():
        order = []

        async def numbers():
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(1)
                order.append("closed")

        async for _ in numbers():
            break
        order.append("left")
        await asyncio.sleep(2)
        order.append("end")
        return order

    for _ in range(3):
        result, keys = finish(main())
        assert result == ["left", "closed", "end"]
        assert keys == ["1/sleep#0", "/sleep#0"]


def test_S11_a_generator_that_the_collector_meets_is_kept_and_closed_at_the_end():
    order = []

    async def main():
        async def numbers():
            try:
                yield 1
            finally:
                order.append("closed")

        cycle = [numbers()]
        cycle.append(cycle)
        await anext(cycle[0])
        del cycle
        await asyncio.sleep(1)

    loop = begin(main())
    gc.collect()
    assert not order
    fire(loop)
    assert not order
    loop.drop()
    assert order == ["closed"]


def test_the_collector_does_not_run_while_code_runs_and_does_afterwards():
    async def main():
        return gc.isenabled()

    assert finish(main())[0] is False
    assert gc.isenabled()


def test_generators_are_not_given_to_the_loop_around():
    async def main():
        async def numbers():
            yield 1
            yield 2

        asyncio.get_running_loop().kept = numbers()
        await anext(asyncio.get_running_loop().kept)

    async def around():
        outer = asyncio.get_running_loop()
        loop = begin(main())
        assert not list(outer._asyncgens)
        loop.drop()

    asyncio.run(around())


# ── dropping ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_dropping_closes_everything_newest_first():
    order = []

    async def child(name):
        try:
            await asyncio.sleep(10)
        finally:
            order.append(name)

    async def main():
        try:
            await asyncio.gather(child("a"), child("b"))
        finally:
            order.append("main")

    loop = begin(main())
    assert loop.drop() == []
    assert order == ["b", "a", "main"]
    assert loop.is_closed()
    assert not loop.unfinished()


def test_code_that_awaits_while_it_is_closed_is_closed_in_the_end(recwarn):
    order = []

    async def cleanup():
        await asyncio.sleep(1)

    async def main():
        try:
            await asyncio.sleep(10)
        finally:
            order.append("begins to clean up")
            try:
                await asyncio.create_task(cleanup())
            finally:
                order.append("again")

    loop = begin(main())
    assert loop.drop() == []
    del loop
    gc.collect()
    assert order == ["begins to clean up", "again"]
    assert not recwarn.list  # neither the task that it made nor its coroutine is complained about


def test_S10_code_that_catches_everything_is_kept_and_named():
    async def main():
        asyncio.current_task().set_name("stubborn")
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except BaseException:
                pass

    loop = begin(main())
    started = time.monotonic()
    assert loop.drop() == ["stubborn"]
    assert time.monotonic() - started < 1
    del loop
    gc.collect()  # nothing is printed: pytest would turn it into an error


def test_closing_reaches_into_the_generators_that_code_reads():
    order = []

    async def inner():
        try:
            yield 1
            try:
                await asyncio.sleep(10)
            finally:
                order.append("awaited")
            yield 2
        finally:
            order.append("inner")

    async def outer():
        try:
            async for number in inner():
                yield number
        finally:
            order.append("outer")

    async def main():
        try:
            async for _ in outer():
                pass
        finally:
            order.append("main")

    loop = begin(main())
    assert loop.drop() == []
    assert order == ["awaited", "inner", "outer", "main"]


def test_what_was_set_in_a_context_is_reset_in_it():
    variable = contextvars.ContextVar("variable")
    failures = []

    async def main():
        token = variable.set(1)
        try:
            await asyncio.sleep(10)
        finally:
            try:
                variable.reset(token)
            except ValueError as error:
                failures.append(error)

    begin(main()).drop()
    assert not failures


def test_code_that_unwinds_is_the_current_task():
    seen = []

    async def main():
        try:
            await asyncio.sleep(10)
        finally:
            seen.append(asyncio.current_task().get_name())
            try:
                async with asyncio.timeout(1), asyncio.TaskGroup():
                    await asyncio.sleep(1)
            except Exception as error:
                seen.append(error)

    assert begin(main()).drop() == []
    assert seen == ["main"]
    assert asyncio._get_running_loop() is None


def test_on_a_dead_loop_nothing_raises_and_nothing_happens():
    seen = []

    async def main():
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(10)
        finally:
            loop.call_soon(seen.append, 1)
            loop.call_later(1, seen.append, 2)
            loop.call_exception_handler({"message": "late"})
            loop.create_future()
            asyncio.create_task(asyncio.sleep(0))
            try:
                loop.run_in_executor(None, seen.append, 3)
            except Refused:
                seen.append("refused, and not kept")

    loop = begin(main())
    assert loop.drop() == []
    loop.drive()
    assert seen == ["refused, and not kept"]
    assert loop.refusal is None
    assert loop.next_timer() is None


def test_a_system_exit_ends_its_task_only():
    async def child():
        raise SystemExit(3)

    async def main():
        task = asyncio.create_task(child())
        await asyncio.wait([task])
        return type(task.exception())

    assert finish(main())[0] is SystemExit


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────

REFUSED = [
    name
    for name, member in vars(asyncio.AbstractEventLoop).items()
    if not name.startswith("_") and getattr(RunLoop, name).__qualname__.startswith("_refusing.")
]


def test_all_that_does_input_or_output_is_refused():
    io = {"run_in_executor", "create_connection", "create_server", "subprocess_exec", "getaddrinfo", "sock_recv", "add_reader"}
    assert io <= set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_S25_a_refused_call_raises_and_is_kept(name):
    async def main():
        try:
            getattr(asyncio.get_running_loop(), name)(None)
        except Exception:
            return "an error occurred"

    loop = begin(main())
    assert loop.refusal.code == "PRD-402"
    assert f"loop.{name}()" in loop.refusal.message
    assert f"{__file__}" in loop.refusal.message
    assert "in a step" in loop.refusal.hint
    loop.drop()


@pytest.mark.parametrize("name", ["close", "set_task_factory", "set_exception_handler"])
def test_settings_of_the_loop_are_refused(name):
    async def main():
        getattr(asyncio.get_running_loop(), name)(*[None] * (name != "close"))

    loop = begin(main())
    assert name in loop.refusal.message
    loop.drop()


@pytest.mark.parametrize(
    "call",
    [
        lambda: asyncio.to_thread(int),
        lambda: asyncio.open_connection("localhost", 1),
        lambda: asyncio.create_subprocess_exec("true"),
        lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
    ],
    ids=["to_thread", "open_connection", "subprocess", "getaddrinfo"],
)
def test_what_asyncio_offers_on_top_is_refused_too(call):
    async def main():
        await call()

    loop = begin(main())
    assert loop.refusal is not None
    loop.drop()


def test_a_future_of_a_thread_cannot_be_awaited():
    from concurrent.futures import Future

    async def main():
        await asyncio.wrap_future(Future())

    loop = begin(main())
    assert "asyncio.wrap_future()" in loop.refusal.message
    loop.drop()


def test_the_first_refusal_is_kept():
    async def main():
        for call in ("add_reader", "sock_recv"):
            try:
                getattr(asyncio.get_running_loop(), call)()
            except Refused:
                pass

    loop = begin(main())
    assert "add_reader" in loop.refusal.message
    loop.drop()


def test_S25_a_call_from_another_thread_is_refused_there_kept_and_told():
    told, raised = [], []
    loop = RunLoop(on_foreign=lambda: told.append(threading.current_thread().name))
    main = loop.start(asyncio.sleep(10))
    loop.drive()

    def work():
        try:
            loop.call_soon_threadsafe(main.cancel)
        except Refused as error:
            raised.append(error)

    thread = threading.Thread(target=work, name="foreign")
    thread.start()
    thread.join()
    assert told == ["foreign"]
    assert raised == [loop.refusal]
    assert "another thread" in loop.refusal.message
    loop.drive()
    assert not main.cancelled()
    loop.drop()


def test_call_soon_threadsafe_from_its_own_code_is_fine():
    async def main():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon_threadsafe(future.set_result, "here")
        return await future

    assert finish(main())[0] == "here"


def test_a_thread_that_code_starts_is_noted_and_not_refused():
    async def main():
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

    loop = begin(main())
    assert loop.refusal is None
    assert "threading.Thread.start()" in loop.thread.message
    assert __file__ in loop.thread.message
    loop.drop()


def test_threads_of_others_are_not_noted():
    loop = begin(asyncio.sleep(1))
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert loop.thread is None
    loop.drop()


# ── spinning, contexts ──────────────────────────────────────────────────────────────────────────────────────────────


def test_S26_a_loop_that_never_waits_is_stopped():
    async def main():
        while True:
            await asyncio.sleep(0)

    loop = RunLoop()
    loop.start(main())
    with pytest.raises(Spinning) as raised:
        loop.drive()
    assert raised.value.code == "PRD-403"
    assert asyncio._get_running_loop() is None
    assert gc.isenabled()
    assert sys.get_asyncgen_hooks() == (None, None)
    assert loop.drop() == []


def test_S26_much_work_that_ends_is_not_spinning():
    async def main():
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(50_000)))

    finish(main())


def test_S31_a_run_begins_in_an_empty_context():
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set by the caller")

    async def main():
        inside = variable.get(), decimal.getcontext().prec
        variable.set("set by the run")
        decimal.getcontext().prec = 5
        await asyncio.sleep(1)
        return *inside, variable.get(), await asyncio.create_task(child())

    async def child():
        return variable.get()

    with decimal.localcontext(prec=7):
        result, _ = finish(main())
        assert decimal.getcontext().prec == 7
    assert result == ("unset", 28, "set by the run", "set by the run")
    assert variable.get() == "set by the caller"


def test_the_loop_around_is_put_back():
    async def around():
        outer = asyncio.get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        begin(asyncio.sleep(1)).drop()
        assert asyncio.get_running_loop() is outer
        assert sys.get_asyncgen_hooks() == hooks

    asyncio.run(around())


def test_debug_is_off_and_stays_off():
    async def main():
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        return loop.get_debug(), loop.is_running(), loop.is_closed(), loop.get_task_factory()

    assert finish(main())[0] == (False, True, False, None)
