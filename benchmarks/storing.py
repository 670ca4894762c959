"""What is stored and read back: replay, conversations, and the price of one agent's run."""

import os
import time

import msgspec

from perdure import App
from perdure.core.execution import Execution
from perdure.core.facts import RunFacts
from perdure.core.payload import unpack

from .measuring import Meter, commit_times, committer_of, empty_size, head, in_ms, percentile, stored_facts, warm_up
from .programs import QUESTION, REPLY, agent, conversation, sequence, text_of


async def _journal_of(options):
    """A stored journal of K steps, unpacked, with the facts of its run."""
    async with App(options.url) as app:
        handle = await app.start(sequence(options.steps))
        await handle.result()
        store = app.gate.store
        row = store.run(handle.id)
        entries = app.gate.process.unpacked(store.journal(row.number))
        facts = RunFacts(
            id=row.id,
            number=row.number,
            workflow=row.workflow,
            input=unpack(row.input, store.blobs),
            identity=app.worker.identity(row.number),
        )
    return facts, entries


async def replay(options):
    """A stored journal of K steps replayed in memory, N times: the median."""
    options.with_defaults(n=7, steps=2000)
    facts, entries = await _journal_of(options)
    walls, cpu = [], 0.0
    for _ in range(options.n):
        execution = Execution(sequence.definition, facts)
        with Meter() as meter:
            execution.begin(entries[0])
            for entry in entries[1:]:
                execution.feed(entry)
        if execution.ended is None or execution.ended.status != "succeeded":
            raise SystemExit("the replay did not reach the end of the run")
        execution.drop()
        walls.append(meter.wall)
        cpu += meter.cpu
    wall = percentile(walls, 0.5)
    return {
        **head(options),
        "wall_s": round(wall, 4),
        "cpu_us_per_step": round(cpu / options.n / options.steps * 1e6, 1),
        "us_per_step": round(wall / options.steps * 1e6, 2),
    }


async def talk(options):
    """One conversation of N turns; each call of the model gets all messages so far."""
    options.with_defaults(n=200)
    empty = await empty_size(options)
    async with App(options.url) as app:
        committer = committer_of(app)
        commits = committer.commits
        with Meter() as meter:
            await app.run(conversation(options.n))
        commits = committer.commits - commits
    facts = stored_facts(options.path)
    new, sent, total = 0, 0, 0
    for turn in range(options.n):
        question = len(msgspec.json.encode({"role": "user", "content": text_of(-turn - 1, QUESTION)}))
        reply = len(msgspec.json.encode({"role": "assistant", "content": text_of(2 * turn + 1, REPLY)}))
        total += question
        sent += total
        total += reply
        new += question + reply
    stored = facts["bytes"] - empty
    return {
        **head(options),
        **meter.facts(options.n),
        "bytes_stored": stored,
        "bytes_of_new_information": new,
        "ratio": round(stored / new, 3),
        "bytes_sent_to_the_model": sent,
        "commits": commits,
    }


async def ten_turns(options):
    """One agent's run of ten turns (N of them, one after another; the figures are for one)."""
    options.with_defaults(n=20, steps=20)
    empty = await empty_size(options)
    async with App(options.url) as app:
        await warm_up(app, agent(10))
        committer = committer_of(app)
        commits = committer.commits
        begun = time.perf_counter()
        with Meter() as meter:
            for _ in range(options.n):
                await app.run(agent(10))
        commits = committer.commits - commits
        seconds = time.perf_counter() - begun
        bare = commit_times(options.folder)
    facts = stored_facts(options.path)
    tables = {"entries", "runs", "run_values", "blobs", "inbox", "delivered", "replies", "promises", "published"}
    rows = sum(count for table, count in facts["rows"].items() if table in tables)
    cpu = meter.cpu / options.n
    return {
        **head(options),
        **meter.facts(options.n * options.steps),
        "commits": round(commits / options.n, 2),
        "rows": round(rows / (options.n + 1), 2),
        "bytes": round((facts["bytes"] - empty) / (options.n + 1)),
        "cpu_ms": in_ms(cpu),
        "usd_per_run": float(f"{cpu / 3600 * options.usd_per_hour / (os.cpu_count() or 1):.3g}"),
        "usd_per_hour": options.usd_per_hour,
        "cores": os.cpu_count(),
        "run_ms": in_ms(seconds / options.n),
        "commit_p50_ms": in_ms(percentile(bare, 0.5)),
    }
