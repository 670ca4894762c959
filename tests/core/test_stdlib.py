"""The asyncio functions that have one implementation on every Python, and anyio on top of the loop."""

import asyncio
import subprocess
import sys
import threading
from asyncio import as_completed, wait_for  # taken before `install()`, as libraries do

import pytest

from perdure.core import stdlib
from perdure.core.loop import RunLoop

stdlib.install()


def finish(coro):
    """Run a coroutine to its end, letting time pass. Gives its result and the keys of the timers that fired."""
    loop = RunLoop()
    main = loop.start(coro)
    loop.drive()
    keys = []
    while not main.done():
        timer = loop.next_timer()
        assert timer is not None, "the code waits for what nothing brings"
        loop.now = max(loop.now, timer.deadline)
        loop.fire(timer)
        loop.drive()
        keys.append(timer.key)
    return main.result(), keys


async def path():
    """Where this code runs in the tree of tasks."""
    return asyncio.current_task().scope.path


async def after(delay, value):
    await asyncio.sleep(delay)
    if isinstance(value, Exception):
        raise value
    return value


# ── wait_for ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("function", [asyncio.wait_for, wait_for], ids=["asyncio.wait_for", "from asyncio import wait_for"])
def test_S09_wait_for_runs_what_it_is_given_in_the_callers_task(function):
    async def main():
        return await function(path(), 5), await function(path(), None), await asyncio.create_task(path())

    assert finish(main())[0] == ("", "", "1")


def test_S09_its_timer_has_the_same_key_everywhere():
    async def main():
        with pytest.raises(TimeoutError):
            await wait_for(after(10, 1), 1)
        return await wait_for(after(1, "in time"), 10)

    assert finish(main()) == ("in time", ["/wait_for#0", "/sleep#1"])


@pytest.mark.parametrize("timeout", [0, -1])
def test_wait_for_without_time(timeout):
    async def main():
        future = asyncio.get_running_loop().create_future()
        future.set_result("there")
        seen = [await wait_for(future, timeout)]
        with pytest.raises(TimeoutError):
            await wait_for(asyncio.get_running_loop().create_future(), timeout)
        with pytest.raises(TimeoutError):
            await wait_for(after(1, "late"), timeout)
        return seen

    assert finish(main()) == (["there"], [])


def test_wait_for_raises_what_it_waited_for_raised():
    async def main():
        with pytest.raises(ValueError, match="bad"):
            await wait_for(after(1, ValueError("bad")), 5)
        task = asyncio.current_task()
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await wait_for(after(1, 1), 5)

    finish(main())


def test_wait_for_cancels_a_task_whose_time_is_over_and_a_shield_protects_it():
    async def main():
        task, shielded = asyncio.create_task(after(10, 1)), asyncio.create_task(after(10, 2))
        with pytest.raises(TimeoutError):
            await wait_for(task, 1)
        with pytest.raises(TimeoutError):
            await wait_for(asyncio.shield(shielded), 1)
        return task.cancelled(), await shielded

    assert finish(main())[0] == (True, 2)


# ── as_completed ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("function", [asyncio.as_completed, as_completed], ids=["asyncio.as_completed", "from asyncio import"])
def test_S09_as_completed_numbers_its_tasks_in_the_order_given(function):
    async def main():
        return [await each for each in function([path() for _ in range(20)])]

    assert finish(main())[0] == [str(number) for number in range(1, 21)]


def test_as_completed_gives_results_as_they_come():
    async def main():
        return [await each for each in as_completed([after(3, "c"), after(1, "a"), after(2, "b")])]

    assert finish(main())[0] == ["a", "b", "c"]


def test_as_completed_can_be_iterated_asynchronously_on_every_python():
    async def main():
        tasks = [asyncio.create_task(after(delay, delay)) for delay in (2, 1)]
        return [tasks.index(each) async for each in as_completed(tasks)]

    assert finish(main())[0] == [1, 0]


def test_as_completed_with_a_timeout_and_with_errors():
    async def main():
        seen = []
        for each in as_completed([after(1, "a"), after(1, ValueError("bad")), after(10, "late")], timeout=5):
            try:
                seen.append(await each)
            except (ValueError, TimeoutError) as error:
                seen.append(type(error))
        return seen

    assert finish(main())[0] == ["a", ValueError, TimeoutError]


def test_as_completed_takes_repeats_once_and_nothing():
    async def main():
        task = asyncio.create_task(after(1, "a"))
        return [await each for each in as_completed([task, task])], [await each for each in as_completed([])]

    assert finish(main())[0] == (["a"], [])


def test_several_may_wait_for_the_next_one():
    async def main():
        first, second = as_completed([after(1, "a"), after(2, "b")])
        return await asyncio.gather(second, first)

    assert finish(main())[0] == ["a", "b"]


# ── TaskGroup ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def fail(after):
    await asyncio.sleep(after)
    raise ValueError("bad")


async def slow_to_stop(length):
    try:
        await asyncio.sleep(100)
    finally:
        await asyncio.sleep(length)


def test_a_group_gathers_errors_and_cancels_the_others():
    async def main():
        other = None
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail(1))
                group.create_task(fail(1))
                other = group.create_task(asyncio.sleep(10))
        return len(raised.value.exceptions), other.cancelled(), asyncio.current_task().cancelling()

    assert finish(main())[0] == (1, True, 0)


def test_an_error_in_the_body_of_a_group():
    async def main():
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                other = group.create_task(asyncio.sleep(10))
                await asyncio.sleep(1)
                raise ValueError
        with pytest.raises(KeyboardInterrupt):
            async with asyncio.TaskGroup():
                raise KeyboardInterrupt
        async with asyncio.TaskGroup() as group:
            last = group.create_task(after(1, "result"))
        return other.cancelled(), last.result()

    assert finish(main())[0] == (True, "result")


def test_S09_a_timeout_is_not_lost_while_a_group_cancels_itself():
    async def main():
        seen = []
        try:
            async with asyncio.timeout(2):
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(fail(1))
                        group.create_task(slow_to_stop(2))
                finally:
                    seen.append(asyncio.current_task().cancelling())
                    await asyncio.sleep(1)  # cancelled: the time is over
                    seen.append("went on")
        except TimeoutError:
            seen.append("late")
        await asyncio.sleep(1)
        return seen, asyncio.current_task().cancelling()

    assert finish(main())[0] == ([1, "late"], 0)


def test_S09_a_cancellation_is_taken_back_when_nothing_was_awaited_in_between():
    async def main():
        with pytest.raises(ExceptionGroup):
            async with asyncio.timeout(2), asyncio.TaskGroup() as group:
                group.create_task(fail(1))
                group.create_task(slow_to_stop(2))
        await asyncio.sleep(1)
        return asyncio.current_task().cancelling()

    assert finish(main())[0] == 0


# ── other loops ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_other_loops_get_the_originals():
    async def main():
        with pytest.raises(TimeoutError):
            await wait_for(asyncio.sleep(10), 0.001)
        seen = [await each for each in as_completed([asyncio.sleep(0, "a")], timeout=5)]
        return await wait_for(asyncio.to_thread(int, "7"), 5), seen

    assert asyncio.run(main()) == (7, ["a"])


PROGRAM = """
import asyncio, threading
from perdure.core import stdlib
functions = [
    asyncio.wait_for, asyncio.as_completed, asyncio.wrap_future, threading.Thread.start, asyncio.TaskGroup.__aexit__,
]
before = [function.__code__ for function in functions]
{install}
print([function.__code__ is code for function, code in zip(functions, before)])
print([function.__name__ for function in functions])
"""


def run(install):
    program = PROGRAM.format(install=install)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()


def test_importing_changes_nothing():
    assert run("")[0] == str([True] * 5)


def test_installing_twice_is_installing_once():
    once, names = run("stdlib.install()")
    assert once == str([False] * 5)
    assert names == str(["wait_for", "as_completed", "wrap_future", "start", "__aexit__"])
    again = "stdlib.install(); codes = [each.__code__ for each in functions]; stdlib.install(); before = codes"
    assert run(again)[0] == str([True] * 5)


# ── anyio ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_anyio():
    return pytest.importorskip("anyio")


def test_anyio_task_groups_and_streams():
    anyio = with_anyio()

    async def main():
        send, receive = anyio.create_memory_object_stream(1)
        seen = []

        async def produce():
            async with send:
                for number in range(3):
                    await anyio.sleep(1)
                    await send.send(number)

        async with anyio.create_task_group() as group, receive:
            group.start_soon(produce)
            seen += [number async for number in receive]
        return seen

    assert finish(main())[0] == [0, 1, 2]


def test_anyio_timeouts():
    anyio = with_anyio()

    async def main():
        with anyio.move_on_after(1) as scope:
            await anyio.sleep(10)
        with pytest.raises(TimeoutError):
            with anyio.fail_after(1):
                await anyio.sleep(10)
        return scope.cancelled_caught, anyio.current_time()

    assert finish(main())[0] == (True, 2.0)


def test_anyio_cancels_a_group_when_one_fails():
    anyio = with_anyio()

    async def main():
        ended = []

        async def waits():
            try:
                await anyio.sleep_forever()
            finally:
                ended.append("cancelled")

        with pytest.raises(ExceptionGroup):
            async with anyio.create_task_group() as group:
                group.start_soon(waits)
                group.start_soon(after, 1, ValueError("bad"))
        return ended

    assert finish(main())[0] == ["cancelled"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the thread is told, too
def test_S25_a_thread_of_anyio_is_noted_and_its_return_refused():
    anyio = with_anyio()
    told, before = [], threading.enumerate()

    async def main():
        await anyio.to_thread.run_sync(int)

    loop = RunLoop(on_foreign=lambda: told.append(True))
    loop.start(main())
    loop.drive()
    assert "threading.Thread.start()" in loop.thread.message
    assert __file__ in loop.thread.message
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(10)
    assert told == [True]
    assert loop.refusal is loop.thread
    loop.drop()


def test_S10_dropping_code_in_a_cancelled_scope():
    anyio = with_anyio()

    async def main():
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 10)
                group.start_soon(anyio.sleep, 10)
                scope.deadline = anyio.current_time() + 5
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(10)

    loop = RunLoop()
    loop.start(main())
    loop.drive()
    assert loop.drop() == []
