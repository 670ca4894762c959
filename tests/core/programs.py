"""Random programs, and a world that brings them what they ask for. A seed names both, so a failing seed is the repro.

A program is a tree of what asyncio and perdure offer, interpreted by `play`; everything it sees goes into a log, and its steps
are called with what it has seen so far: so whatever differs on a replay shows, as another result, as drift or as divergence.

The world stands where a driver does: it picks what happens next among all that may (a step ends, a timer is due, a message
comes), journals it, alone or in batches, and feeds it. What it picks depends on its seed, on the length of the journal and on
what the execution says is open: nothing else. So a journal that is cut and continued must become the same journal again.
"""

import asyncio
import random
from typing import Any

from perdure import ask, now, promise, publish, receive, rng, start, step, uuid4, workflow
from perdure.core import stdlib
from perdure.core.codec import encode_error
from perdure.core.definition import WorkflowDefinition
from perdure.core.entry import Entry, Kind, Note
from perdure.core.execution import Execution
from perdure.core.facts import RunFacts

stdlib.install()

NAMES = "abc"
SECOND = 1_000_000
DEPTH = 5
LONGEST = 150
"""Entries after which a run is cancelled, and a little later ended."""


@step(name="program.a")
async def a(*seen: Any) -> Any: ...


@step(name="program.b", retry=3)
async def b(*seen: Any) -> Any: ...


@step(name="program.c", once=True)
async def c(*seen: Any) -> Any: ...


@workflow(name="program.child")
async def child(seen: str) -> Any: ...


STEPS = {"a": a, "b": b, "c": c}


# ── programs ────────────────────────────────────────────────────────────────────────────────────────────────────────

LEAVES = ["step", "step", "step", "sleep", "receive", "ask", "promise", "child", "start", "publish", "draw"]
BRANCHES = [
    "sequence", "gather", "group", "first", "timeout", "wait_for", "as_completed", "lock", "queue", "shield", "background", "try",
    "generator", "semaphore", "event",
]  # fmt: skip


def grow(chance, depth=DEPTH):
    """A random tree: (what, name, number, parts)."""
    what = chance.choice(BRANCHES if depth and (depth == DEPTH or chance.random() < 0.8) else LEAVES)
    parts = [grow(chance, depth - 1) for _ in range(chance.randint(1, 3))] if what in BRANCHES else []
    return what, chance.choice(NAMES), chance.random(), parts


class Play:
    """One performance of a program."""

    def __init__(self):
        self.log = []
        self.lock = asyncio.Lock()
        self.semaphore = asyncio.Semaphore(2)
        self.background = []

    async def whole(self, tree):
        try:
            result = await self.run(tree)
            await asyncio.gather(*self.background, return_exceptions=True)
        except ArithmeticError:
            result = "failed"
        except asyncio.CancelledError:
            self.log.append("cancelled")
            self.log.append(await a("undo", len(self.log)))
            result = "cancelled"
        return repr((result, self.log))

    async def run(self, tree):
        what, name, number, parts = tree
        result = await getattr(self, f"do_{what}")(name, number, parts)
        self.log.append((what, str(result)[:40]))
        return result

    async def all(self, parts):
        return [await self.run(part) for part in parts]

    # leaves

    async def do_step(self, name, number, parts):
        options = {"key": str(int(number * 10))} if number < 0.2 else {}
        return await STEPS[name].options(**options)(name, len(self.log), str(now()))

    async def do_sleep(self, name, number, parts):
        await asyncio.sleep(round(number * 3, 1))

    async def do_receive(self, name, number, parts):
        try:
            return (await receive(name, timeout=1 + number * 4)).value
        except TimeoutError:
            return "no message"

    async def do_ask(self, name, number, parts):
        return await ask(name, schema=int, timeout=1 + number * 4, default=-1)

    async def do_promise(self, name, number, parts):
        opened = promise(name, schema=int, timeout=1 + number * 4)
        try:
            return await self.all(parts), await opened, opened.answered_by
        except TimeoutError:
            return "no promise"

    async def do_child(self, name, number, parts):
        return await child(f"{name} {len(self.log)}")

    async def do_start(self, name, number, parts):
        handle = await start(child(f"{name} {len(self.log)}"))
        return await handle.result() if number < 0.5 else handle.id

    async def do_publish(self, name, number, parts):
        await publish(name, len(self.log))

    async def do_draw(self, name, number, parts):
        return uuid4(), rng().random(), now()

    # branches

    async def do_sequence(self, name, number, parts):
        return await self.all(parts)

    async def do_gather(self, name, number, parts):
        return await asyncio.gather(*map(self.run, parts), return_exceptions=number < 0.7)

    async def do_group(self, name, number, parts):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.run(part)) for part in parts]
            return [task.result() for task in tasks]
        except* ArithmeticError as errors:
            self.log.append(len(errors.exceptions))

    async def do_first(self, name, number, parts):
        tasks = [asyncio.create_task(self.run(part)) for part in parts]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.log.append(("first", [tasks.index(task) for task in done]))
        for task in pending:
            task.cancel()
        if number < 0.5:
            await asyncio.gather(*pending, return_exceptions=True)
        return [task.exception() or task.result() for task in done if not task.cancelled()]

    async def do_timeout(self, name, number, parts):
        try:
            async with asyncio.timeout(round(number * 9, 1)):
                return await self.all(parts)
        except TimeoutError:
            return await a("late", len(self.log)) if number < 0.5 else "late"

    async def do_wait_for(self, name, number, parts):
        try:
            return await asyncio.wait_for(self.all(parts), round(number * 9, 1))
        except TimeoutError:
            return "late"

    async def do_as_completed(self, name, number, parts):
        seen = []
        for each in asyncio.as_completed([self.run(part) for part in parts]):
            try:
                seen.append(await each)
            except ArithmeticError:
                seen.append("failed")
        return seen

    async def do_lock(self, name, number, parts):
        async with self.lock:
            self.log.append(await self.do_step(name, number, parts))
        return await self.all(parts)

    async def do_semaphore(self, name, number, parts):
        async with self.semaphore:
            self.log.append(await self.do_step(name, number, parts))
        return await self.all(parts)

    async def do_queue(self, name, number, parts):
        queue = asyncio.Queue(1)

        async def produce():
            for part in parts:
                try:
                    await queue.put(await self.run(part))
                except Exception:
                    await queue.put("failed")

        task = asyncio.create_task(produce())
        seen = [await queue.get() for _ in parts]
        await task
        return seen

    async def do_shield(self, name, number, parts):
        try:
            return await asyncio.wait_for(asyncio.shield(self.all(parts)), round(number * 9, 1))
        except TimeoutError:
            return "left alone"

    async def do_event(self, name, number, parts):
        event = asyncio.Event()
        waiting = asyncio.create_task(event.wait())
        try:
            return await asyncio.gather(*map(self.run, parts))
        finally:
            event.set()
            await waiting

    async def do_generator(self, name, number, parts):
        async def each():
            try:
                for part in parts:
                    yield await self.run(part)
            finally:
                self.log.append(await a("closing", len(self.log)))

        seen = []
        async for result in each():
            seen.append(result)
            if number < 0.5:
                break
        return seen

    async def do_background(self, name, number, parts):
        self.background.append(asyncio.create_task(self.run(parts[0])))

    async def do_try(self, name, number, parts):
        try:
            return await self.all(parts)
        except ArithmeticError:
            return await a("repaired", len(self.log))
        finally:
            if number < 0.3:
                self.log.append(await b("finally", len(self.log)))


# ── the world ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Run:
    """An execution of the program of a seed, its journal, and what was to be seen after each entry."""

    def __init__(self, seed):
        self.seed = seed
        tree = grow(random.Random(seed))

        async def program() -> str:
            return await Play().whole(tree)

        definition = WorkflowDefinition("program", program)
        facts = RunFacts(id=f"run-{seed}", number=seed, workflow="program", input=b"{}", identity=f"{seed:032}".encode())
        self.execution = Execution(definition, facts)
        self.journal = []
        self.ends = []  # the lengths at which a batch had been fed as a whole
        self.trace = []

    @classmethod
    def replay(cls, seed, journal):
        """The execution that a journal gives."""
        run = cls(seed)
        for entry in journal:
            run.feed(entry)
        return run

    @classmethod
    def resume(cls, seed, journal, world=None):
        """Replay a journal, and go on until the program ends. `world` names another one than the seed's own."""
        run = cls.replay(seed, journal)
        if not journal:
            run.feed(Entry(1, Kind.STARTED, "", SECOND, None, note=Note(seed=f"{seed:032}".encode())))
        run.ends.append(len(run.journal))
        run.execution.replaying = False
        while run.execution.ended is None:
            chance = random.Random(f"{seed if world is None else world} {len(run.journal)}")
            entries = run.batch(chance)
            assert entries, f"stuck at {run.execution.where()}"
            for entry in entries:
                run.feed(entry)
            run.ends.append(len(run.journal))
        return run

    def feed(self, entry):
        execution = self.execution
        if entry.kind == Kind.STARTED:
            execution.begin(entry)
        else:
            execution.feed(entry)
        self.journal.append(entry)
        ended = execution.ended and (execution.ended.status, execution.ended.data)
        self.trace.append(([*execution.operations], [*execution.timers], len(execution.mail), [*execution.dropped], ended))

    def end(self):
        """Drop it. Gives its outcome; nothing may resist, and nothing may have drifted."""
        assert not self.execution.drifts, self.execution.drifts[0].key
        assert self.execution.drop() == []
        return self.execution.ended and (self.execution.ended.status, self.execution.ended.data)

    # what may happen

    def batch(self, chance):
        """The next entries: chosen one after the other, but before any of them is fed."""
        self.time = self.journal[-1].time
        self.sequence = len(self.journal)
        self.taken = set()
        entries = [self.happens(chance)]
        while entries[-1] is not None and chance.random() < 0.3:
            entries.append(self.happens(chance))
        return [entry for entry in entries if entry is not None]

    def happens(self, chance):
        command = next(self.commands(), None)
        options = list(self.options(chance)) if command is None else [command]
        if not options:
            return None
        kind, key, value, failed, note, moment = chance.choice(options)
        if kind not in (Kind.TIMER, Kind.RESOLVED) or moment is None:
            moment = self.time + chance.randint(0, SECOND // 3)
        due = self.due() if command is None else None
        if due is not None and due.deadline <= moment and key != due.key:  # what is due goes first
            kind, key, value, failed, note, moment = self.firing(due)
        self.time = max(self.time, moment)
        self.taken.add((kind, key))
        self.sequence += 1
        return Entry(self.sequence, kind, key, self.time, value, failed, note)

    def due(self):
        """The next timer that this batch has not fired yet."""
        pending = [timer for timer in self.execution.loop._heap if not timer.cancelled()]
        pending = [timer for timer in pending if not self.fired(timer.key)]
        return min(pending, default=None)

    def fired(self, key):
        return (Kind.TIMER, key) in self.taken or (Kind.RESOLVED, key) in self.taken

    def firing(self, timer):
        if timer.key in self.execution.waits:
            return Kind.RESOLVED, timer.key, None, False, Note(name="expired"), timer.deadline
        return Kind.TIMER, timer.key, None, False, Note(deadline=timer.deadline), timer.deadline

    def commands(self):
        """Commands are committed before anything else, in the order in which they were issued."""
        for key, operation in self.execution.operations.items():
            if operation.kind is not Kind.STEP and (operation.kind, key) not in self.taken:
                yield operation.kind, key, None, False, Note(digest=operation.digest, arguments=operation.arguments), None

    def options(self, chance):
        execution, taken = self.execution, self.taken
        if len(self.journal) > LONGEST:
            if not execution.ending and (Kind.CANCEL, "") not in taken:
                yield Kind.CANCEL, "", None, False, Note(), None
            elif len(self.journal) > 2 * LONGEST:
                yield Kind.EXPIRED, "", None, False, Note(name="grace"), None
                return
        for key, operation in execution.operations.items():
            note = Note(digest=operation.digest, arguments=operation.arguments)
            if operation.kind is not Kind.STEP or (operation.kind, key) in taken:
                continue
            if chance.random() < 0.05:
                yield Kind.STEP, key, encode_error(ArithmeticError("bad luck")), True, note, None
            elif chance.random() < 0.1 and (Kind.ATTEMPT, key) not in taken:
                note.attempt, note.retry_at = operation.attempts + 1, self.time
                yield Kind.ATTEMPT, key, encode_error(ArithmeticError("again")), True, note, None
            else:
                yield Kind.STEP, key, b"%d" % chance.randint(0, 99), False, note, None
        timer = self.due()
        if timer is not None:
            yield self.firing(timer)
        for key, wait in execution.waits.items():
            begun = key not in execution.operations or (execution.operations[key].kind, key) in taken
            if wait.done or not begun or (wait.kind, key) in taken:
                continue
            yield wait.kind, key, b"%d" % chance.randint(0, 99), False, Note(name="answered", by="someone"), None
        signals = sum(entry.kind == Kind.SIGNAL for entry in self.journal)
        if execution.receivers or (signals < 6 and chance.random() < 0.3):
            name = chance.choice(NAMES)
            yield Kind.SIGNAL, "", b"%d" % chance.randint(0, 99), False, Note(name=name, subject=f"m{signals}"), None
        if not execution.ending and (Kind.CANCEL, "") not in taken and chance.random() < 0.02:
            yield Kind.CANCEL, "", None, False, Note(), None
