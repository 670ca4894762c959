"""The command line: runs one workload on a fresh store and prints one JSON line."""

import argparse
import asyncio
import json
import logging
import sys
import time

from . import several, storing, throughput, waiting
from .measuring import Options, fresh_folder

WORKLOADS = {
    "steps": throughput.steps,
    "latency": throughput.latency,
    "long": throughput.long,
    "recover": several.recover,
    "fanout": throughput.fanout,
    "signal": waiting.signal,
    "sleepers": waiting.sleepers,
    "queue": several.queue,
    "replay": storing.replay,
    "conversation": storing.talk,
    "idle": waiting.idle,
    "ten_turns": storing.ten_turns,
}


def parse(arguments=None):
    """The options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--backend", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--dsn", default="", help="address of the database server")
    parser.add_argument("--n", type=int, default=0, help="runs (or turns, or sleepers): each workload has its own default")
    parser.add_argument("--c", type=int, default=64, help="runs in flight at once (default 64)")
    parser.add_argument("--steps", type=int, default=0, help="steps per run: each workload has its own default")
    parser.add_argument("--workers", type=int, default=2, help="worker processes of `queue` (default 2)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long `idle` looks (default 60)")
    parser.add_argument("--lead", type=float, default=0.0, help="seconds in which `sleepers` must be parked")
    parser.add_argument(
        "--usd-per-hour", type=float, default=0.10, help="price of this machine, for `ten_turns` (default 0.10)"
    )
    given = vars(parser.parse_args(arguments))
    return Options(**given)


def main():
    """Run one workload."""
    options = parse()
    if options.backend == "postgres":
        sys.exit("benchmarks: there is no Postgres store yet, only --backend sqlite")
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    with fresh_folder() as folder:
        options.folder = folder
        begun = time.perf_counter()
        line = asyncio.run(WORKLOADS[options.workload](options))
        line.setdefault("cpu_us_per_step", None)
        line["total_s"] = round(time.perf_counter() - begun, 2)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
