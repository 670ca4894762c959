"""What waiting costs: signals to parked runs, many sleepers with one wake time, a worker with nothing to do."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import apsw

from perdure import App

from .measuring import Meter, commit_times, committer_of, head, in_ms, latencies, percentile, resident_kib, settle, tell
from .programs import sleeping, waiting

AT_ONCE = 256
"""Runs that are started at once when there are many."""


async def start_many(app, count, make, *, keep=True):
    """Start runs and give their handles, if those are to be kept."""
    handles, numbers = [], iter(range(count))
    done = 0

    async def start_some():
        nonlocal done
        for _ in numbers:
            handle = await app.start(make())
            if keep:
                handles.append(handle)
            done += 1
            if done % 10_000 == 0:
                tell(f"{done} of {count} runs started, {len(app.worker.drivers)} in memory")

    await asyncio.gather(*(start_some() for _ in range(min(AT_ONCE, count))))
    return handles


async def _signal_each(app, handles):
    """Signal each run in turn; the seconds from sending to the result."""
    seconds = []
    for handle in handles:
        result = asyncio.ensure_future(handle.result())
        await asyncio.sleep(0.003)  # somebody waits for the result already, as they do
        begun = time.perf_counter()
        await handle.send("go", "on")
        await result
        seconds.append(time.perf_counter() - begun)
    return seconds


async def signal(options):
    """N parked runs, each sent a signal in turn; the same for runs that wait in memory still."""
    options.with_defaults(n=200)
    async with App(options.url, residency=0) as app:
        handles = await start_many(app, options.n, waiting)
        await settle(app)
        await _signal_each(app, (await start_many(app, 5, waiting)))
        with Meter() as meter:
            parked = await _signal_each(app, handles)
    async with App(options.url, residency="1h") as app:
        resident = await _signal_each(app, await start_many(app, min(options.n, 200), waiting))
        bare = commit_times(options.folder)
    commit = percentile(bare, 0.5)
    return {
        **head(options),
        **meter.facts(options.n),
        **latencies(parked),
        **latencies(resident, "resident_"),
        "commit_p50_ms": in_ms(commit),
        "in_commits_p50": round(percentile(parked, 0.5) / commit, 2),
        "resident_in_commits_p50": round(percentile(resident, 0.5) / commit, 2),
    }


async def sleepers(options):
    """N parked runs with one wake time."""
    options.with_defaults(n=2000)
    lead = options.lead or 5 + options.n / 400
    async with App(options.url, residency=0) as app:
        for handle in await start_many(app, 512, lambda: sleeping(datetime.now(UTC) + timedelta(seconds=0.2))):
            await handle.result()
        await settle(app)
        before, cached_before = resident_kib(), apsw.memory_used()
        wake = datetime.now(UTC) + timedelta(seconds=lead)
        with Meter() as parking:
            await start_many(app, options.n, lambda: sleeping(wake), keep=False)
            await settle(app)
        after, cached = resident_kib(), apsw.memory_used()
        left = (wake - datetime.now(UTC)).total_seconds()
        if left < 0:
            raise SystemExit(f"not all runs were parked when their time came: give more than --lead {lead}")
        tell(f"{options.n} runs parked in {parking.wall:.1f} s, waking in {left:.1f} s")
        await asyncio.sleep(left)
        with Meter() as meter:
            while (await app.count()).get("succeeded", 0) < options.n + 512:
                await asyncio.sleep(0.02)
        at_the_end = resident_kib()
    return {
        **head(options),
        **meter.facts(),
        "rss_kib_per_run": round((after - before) / options.n, 3),
        "of_it_sqlite_cache": round((cached - cached_before) / 1024 / options.n, 3),
        "wake_all_s": round(meter.wall, 3),
        "park_all_s": round(parking.wall, 3),
        "cpu_us_per_wake": round(meter.cpu / options.n * 1e6, 1),
        "rss_mib_at_the_end": round(at_the_end / 1024, 1),
    }


def count_queries(store):
    """Count from now on: queries (each time that a verb of the store takes one of its connections), the statements in them,
    and looks at the counter by which SQLite tells in shared memory that others have committed."""
    counts = {"queries": 0, "statements": 0, "looks": 0}
    opened = store._opened

    def executed(*_):
        counts["statements"] += 1
        return True

    for connection in {id(each): each for each in (opened.writer, opened.reader)}.values():
        connection._raw.exec_trace = executed
    for name in ("_writing", "_reading"):

        def counting(take=getattr(store, name)):
            counts["queries"] += 1
            return take()

        setattr(store, name, counting)
    look = store._watch.look

    def looking(connection):
        counts["looks"] += 1
        look(connection)

    store._watch.look = looking
    return counts


async def idle(options):
    """A worker with N parked runs and nothing to do."""
    options.with_defaults(n=100_000)
    async with App(options.url, residency=0) as app:
        await start_many(app, options.n, waiting, keep=False)
        await settle(app)
    async with App(options.url) as app:
        await asyncio.sleep(1)  # what opening brings with it
        counts, commits = count_queries(app.gate.store), committer_of(app).commits
        with Meter() as meter:
            await asyncio.sleep(options.seconds)
        commits = committer_of(app).commits - commits
        memory = resident_kib()
    a_minute = 60 / meter.wall
    return {
        **head(options),
        **meter.facts(),
        "queries_per_min": round(counts["queries"] * a_minute, 1),
        "statements_per_min": round(counts["statements"] * a_minute, 1),
        "looks_per_min": round(counts["looks"] * a_minute, 1),
        "commits_per_min": round(commits * a_minute, 1),
        "cpu_pct": round(100 * meter.cpu / meter.wall, 3),
        "rss_mib": round(memory / 1024, 1),
    }
