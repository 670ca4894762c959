"""Record the golden journals: run the workflows of `programs` in virtual time and keep what they journaled.

    python -m tests.golden.record [--replace] [names...]

One folder per release and Python: `journals/0.1.0/python3.11/`. A journal that is there is left alone (it is what an older
build wrote, and must go on replaying); `--replace` is for the time before a release.
"""

import argparse
import asyncio
import json
import platform
import re
import sys
import sysconfig
from pathlib import Path

import perdure
from perdure.core.entry import JOURNAL_FORMAT, Kind
from perdure.core.payload import unpack
from perdure.testing import TestApp
from tests.golden import programs
from tests.golden.journal import FOLDER, Golden, comparable, state_of, write

PROGRAMS = {}


def records(call, *, tags=(), released=True):
    """Registers how a program is recorded: its call, and what happens to it from outside."""

    def register(script):
        PROGRAMS[script.__name__] = (call, script, tags, released)
        return script

    return register


async def _result(run):
    """Wait for the end, whatever it is."""
    try:
        await run.result()
    except (perdure.RunFailed, perdure.RunCancelled):
        pass


async def _until(app, run, kind, count=1):
    """Let things happen, and no time pass, until the journal has so many entries of a kind."""
    while sum(entry.kind == kind for entry in await run.history()) < count:
        await asyncio.sleep(0.001)
        if await run.status() in ("succeeded", "failed", "cancelled", "blocked"):
            raise RuntimeError(f"{run.id} is {await run.status()} and has no {count} entries of kind {kind}")


def _hangs(app, step, *, times=1):
    """Make a step's body hang for its first calls; afterwards it gives its argument back. The body is running when `.wait()` ends."""
    running = asyncio.Event()
    state = {"left": times}

    async def body(value):
        if state["left"]:
            state["left"] -= 1
            if not state["left"]:
                running.set()
            await asyncio.Event().wait()
        return f"{value}"

    app.stub(step, side_effect=body)
    return running


# ── nothing from outside ─────────────────────────────────────────────────────────────────────────────────────────────


for _name, _call in {
    "steps": lambda: programs.steps("llamas", count=21),
    "surroundings": programs.surroundings,
    "fails": lambda: programs.fails("llamas"),
    "timers": programs.timers,
    "completes": programs.completes,
    "gathers": programs.gathers,
    "groups": programs.groups,
    "primitives": programs.primitives,
    "generators": programs.generators,
    "parent": programs.parent,
    "changed": programs.changed,
    "has_deadline": programs.has_deadline,
    "leaves_open": programs.leaves_open,
}.items():

    async def _ends(app, run):
        await _result(run)

    PROGRAMS[_name] = (_call, _ends, ("golden", "alone") if _name == "surroundings" else (), True)


# ── with something from outside ──────────────────────────────────────────────────────────────────────────────────────


@records(programs.changed, released=False)
async def not_changed(app, run):
    """The code as it was before the change."""
    await _result(run)


@records(programs.retries)
async def retries(app, run):
    app.stub(
        programs.flaky,
        side_effect=[
            ConnectionError("reset"),
            TimeoutError("slow"),
            "works",
            *(ConnectionError(f"refused {n}") for n in range(4)),
        ],
    )
    await _result(run)


@records(programs.waits_for)
async def waits_for(app, run):
    running = _hangs(app, programs.slow)
    end = asyncio.create_task(_result(run))
    await running.wait()
    app.clock.jump()  # time does not pass by itself while a step runs
    await end


@records(programs.receives)
async def receives(app, run):
    await run.send("message", "the first")
    await run.send("message", {"number": 2, "text": "zweitens: ü"})
    await run.send("stop", None)
    assert await run.request("order", {"article": "llama", "count": 3}, id="order-1") == {"accepted": 3}
    await app.advance("1h")
    await run.send("right", 1)
    await app.settle()
    await run.send("left", 2)
    await _result(run)


@records(programs.asks)
async def asks(app, run):
    await app.settle()
    opened = {each.question: each for each in (await app.inbox()).items}
    await app.decline(opened["Delete it?"].id, "not mine to say", by="bob")
    await app.answer(opened["Publish it?"].id, True, by="ann")
    await app.advance("3h")
    await _result(run)


@records(programs.promises)
async def promises(app, run):
    await app.settle()
    names = {each.name: each for each in await _promises(app)}
    await app.resolve(names["paid"].id, {"article": "llama", "count": 2}, by="bank")
    await app.settle()
    await app.reject(names["shipped"].id, ValueError("lost at sea"))
    await _result(run)


async def _promises(app):
    return await app.gate.read(lambda: app.gate.store.promises())


@records(lambda: programs.sends("receiver"))
async def sends(app, run):
    await _result(run)


@records(programs.cancelled)
async def cancelled(app, run):
    await app.settle()
    await run.cancel("no longer wanted", by="ann")
    await _result(run)


@records(programs.never_unwinds)
async def never_unwinds(app, run):
    await app.settle()
    await run.cancel(by="ann")
    await _result(run)


@records(programs.has_timeout)
async def has_timeout(app, run):
    running = _hangs(app, programs.slow)
    end = asyncio.create_task(_result(run))
    await running.wait()
    app.clock.jump()
    await end


@records(programs.pays)
async def pays(app, run):
    running = asyncio.Event()

    async def body(amount):
        if amount == 6:
            running.set()
            await asyncio.Event().wait()
        return f"paid {amount}"

    app.stub(programs.pay, side_effect=body)
    await running.wait()
    await app.crash()


@records(programs.crashes)
async def crashes(app, run):
    running = _hangs(app, programs.slow, times=2)
    await running.wait()
    await app.crash()


@records(programs.in_the_middle)
async def in_the_middle(app, run):
    await _until(app, run, Kind.CHILD)
    await run.send("unwanted", [1, 2])
    await app.advance("1h")
    await app.settle()


UNFINISHED = {"in_the_middle"}


# ── recording ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def record(name):
    """Run a program and gather its journal."""
    call, script, tags, released = PROGRAMS[name]
    programs.RELEASED = released
    app = TestApp(
        workflows=[each for each in vars(programs).values() if isinstance(each, perdure.Workflow)], cancel_grace="30s"
    )
    try:
        async with app:
            await app.start(programs.receives(), id="receiver")
            if name in STUBBED:
                app.stub(programs.flaky, raises=ConnectionError("refused"))
            run = await app.start(call(), id=f"golden-{name}", tags=tags)
            await script(app, run)
            return await _gather(app, app.handle(run.id), name, released)
    finally:
        programs.RELEASED = True


STUBBED = {"in_the_middle"}


_ROOTS = [str(Path(__file__).resolve().parents[2]), sysconfig.get_path("stdlib"), sys.prefix, sys.base_prefix]
_FOLDERS = re.compile("|".join(re.escape(json.dumps(f"{root}/")[1:-1]) for root in _ROOTS))


def _anywhere(data):
    """Values without the folders in which this machine keeps the code (they are in the tracebacks of errors)."""
    return None if data is None else _FOLDERS.sub("", data.decode()).encode()


async def _gather(app, run, name, released):
    if name not in UNFINISHED:
        await _result(run)
    store, process = app.gate.store, app.gate.process
    row = store.run(run.id)
    golden = Golden(
        program=name,
        perdure=perdure.__version__,
        python=platform.python_version(),
        format=JOURNAL_FORMAT,
        released=released,
        id=row.id,
        number=row.number,
        workflow=row.workflow,
        identity=app.worker.identity(row.number),
        tags=sorted(row.tags),
        input=unpack(row.input, store.blobs),
        entries=process.unpacked(store.journal(row.number)),
    )
    for entry in golden.entries:
        entry.value = _anywhere(entry.value)
    if row.ended_at:
        golden.outcome = (row.status, _anywhere(await process.fetch(row.result)))
    elif name not in UNFINISHED:
        raise RuntimeError(f"{name} is {row.status}: {row.blocked}")
    execution, golden.asked = golden.replay()
    golden.open = state_of(execution)
    ended, drifts = execution.ended, execution.drifts
    execution.drop()
    assert not drifts, f"{name}: drift of {drifts[0].key}"
    assert (ended is None) == (golden.outcome is None), name
    assert ended is None or comparable(ended.status, ended.data) == comparable(*golden.outcome), name
    return golden


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replace", action="store_true", help="record journals again that are there")
    parser.add_argument("names", nargs="*", metavar="name", help="only these programs")
    options = parser.parse_args()
    folder = FOLDER / perdure.__version__ / f"python{sys.version_info.major}.{sys.version_info.minor}"
    unknown = sorted(set(options.names) - set(PROGRAMS))
    if unknown:
        parser.error(f"no program is called {', '.join(unknown)}")
    recorded = 0
    for name in options.names or PROGRAMS:
        path = folder / f"{name}.json"
        if path.exists() and not options.replace:
            continue
        golden = asyncio.run(asyncio.wait_for(record(name), 60))
        write(golden, path)
        recorded += 1
        print(
            f"{name:16} {len(golden.entries):4} entries  {golden.outcome[0] if golden.outcome else 'in the middle'}", flush=True
        )
    print(f"{recorded} journals recorded in {folder}")


if __name__ == "__main__":
    main()
