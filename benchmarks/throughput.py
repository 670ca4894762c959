"""How fast: many runs at once, one after another, one long one, one that fans out."""

import asyncio
import time

from perdure import App

from .measuring import Meter, commit_times, committer_of, empty_size, head, in_ms, latencies, percentile, stored_facts, warm_up
from .programs import TEXT, fan_of_children, fan_of_steps, sequence

PAYLOAD = len(TEXT) + len('{"i":100,"text":""}')


async def run_many(app, count, steps, in_flight):
    """Run `count` runs, so many at once; the seconds that each took."""
    seconds, numbers = [], iter(range(count))

    async def run_some():
        for _ in numbers:
            begun = time.perf_counter()
            await app.run(sequence(steps))
            seconds.append(time.perf_counter() - begun)

    await asyncio.gather(*(run_some() for _ in range(in_flight)))
    return seconds


async def steps(options):
    """N runs of K steps, C at once."""
    options.with_defaults(n=2000, steps=10)
    empty = await empty_size(options)
    async with App(options.url) as app:
        await run_many(app, min(options.n, 2 * options.c), options.steps, options.c)
        commits = committer_of(app).commits
        with Meter() as meter:
            seconds = await run_many(app, options.n, options.steps, options.c)
        commits = committer_of(app).commits - commits
    done = options.n * options.steps
    stored = stored_facts(options.path)["bytes"] - empty
    written = (options.n + min(options.n, 2 * options.c)) * options.steps
    return {
        **head(options),
        **meter.facts(done),
        "steps_per_s": round(done / meter.wall),
        "runs_per_s": round(options.n / meter.wall),
        **latencies(seconds),
        "commits": commits,
        "bytes_per_step_beyond_payload": round(stored / written - PAYLOAD, 1),
    }


async def latency(options):
    """N runs of one step, one after another."""
    options.with_defaults(n=300)
    async with App(options.url) as app:
        await run_many(app, min(options.n, 20), 1, 1)
        commits = committer_of(app).commits
        with Meter() as meter:
            seconds = await run_many(app, options.n, options.steps, 1)
        commits = committer_of(app).commits - commits
        bare = commit_times(options.folder)
    return {
        **head(options),
        **meter.facts(options.n * options.steps),
        **latencies(seconds),
        "commit_p50_ms": in_ms(percentile(bare, 0.5)),
        "in_commits_p50": round(percentile(seconds, 0.5) / percentile(bare, 0.5), 2),
        "commits_per_run": round(commits / options.n, 2),
    }


async def long(options):
    """One run of K steps, one after another."""
    options.with_defaults(steps=2000)
    moments = []
    empty = await empty_size(options)
    async with App(options.url) as app:
        await warm_up(app, sequence(20))
        committer = committer_of(app)
        before = committer.commits
        run = asyncio.ensure_future(app.run(sequence(options.steps)))
        with Meter() as meter:
            while not run.done():
                moments.append((time.perf_counter(), committer.commits - before))
                await asyncio.sleep(0.001)
        await run
    tenth = options.steps // 10
    stored = stored_facts(options.path)["bytes"] - empty
    return {
        **head(options),
        **meter.facts(options.steps),
        "ms_per_step_first_tenth": _ms_between(moments, 0, tenth),
        "ms_per_step_last_tenth": _ms_between(moments, options.steps - tenth, options.steps),
        "bytes_per_step_beyond_payload": round(stored / (options.steps + 20) - PAYLOAD, 1),
    }


def _ms_between(moments, first, last):
    """Milliseconds per commit between two counts of commits: each step of the run is one commit."""
    begun = next((each for each in moments if each[1] >= first), moments[0])
    ended = next((each for each in moments if each[1] >= last), moments[-1])
    return in_ms((ended[0] - begun[0]) / max(1, ended[1] - begun[1]))


async def fanout(options):
    """One run that starts N steps at once, and one that starts N child runs at once."""
    options.with_defaults(n=500)
    async with App(options.url) as app:
        await warm_up(app, fan_of_steps(10))
        await warm_up(app, fan_of_children(10))
        with Meter() as of_steps:
            await app.run(fan_of_steps(options.n))
        with Meter() as of_children:
            await app.run(fan_of_children(options.n))
    return {
        **head(options),
        **of_steps.facts(options.n),
        "steps_per_s": round(options.n / of_steps.wall),
        "children_per_s": round(options.n / of_children.wall),
        "cpu_us_per_child": round(of_children.cpu / options.n * 1e6, 1),
    }
