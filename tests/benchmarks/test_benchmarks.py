"""Every workload runs, at a size that shows nothing but that it works, and its last line has what README.md promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVERY_LINE = {"workload", "backend", "n", "c", "k", "python", "version", "durability", "wall_s", "cpu_us_per_step"}
WORKLOADS = {
    "steps": ("--n 4 --c 2 --steps 3", {"steps_per_s", "runs_per_s", "p50_ms", "p99_ms", "commits"}),
    "latency": ("--n 3", {"p50_ms", "p99_ms", "commit_p50_ms"}),
    "long": ("--steps 20", {"ms_per_step_first_tenth", "ms_per_step_last_tenth"}),
    "recover": ("--steps 5", {"recover_s", "recover_us_per_step"}),
    "fanout": ("--n 5", {"steps_per_s", "children_per_s"}),
    "signal": ("--n 3", {"p50_ms", "p99_ms"}),
    "sleepers": ("--n 5 --lead 1", {"rss_kib_per_run", "wake_all_s"}),
    "queue": ("--n 6 --steps 2", {"runs_per_s"}),
    "replay": ("--n 2 --steps 10", {"us_per_step"}),
    "conversation": ("--n 3", {"bytes_stored", "bytes_of_new_information", "ratio"}),
    "idle": ("--n 5 --seconds 1", {"queries_per_min", "cpu_pct", "rss_mib"}),
    "ten_turns": ("--n 1", {"commits", "rows", "bytes", "cpu_ms", "usd_per_run"}),
}


def run(*arguments):
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_runs_and_says_what_it_promises(workload):
    options, keys = WORKLOADS[workload]

    done = run(workload, *options.split())

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert not (EVERY_LINE | keys) - set(line)
    assert line["workload"] == workload
    assert line["backend"] == "sqlite"


def test_a_journal_costs_little_beyond_its_payloads():
    done = run("steps", "--n", "100")

    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout.splitlines()[-1])["bytes_per_step_beyond_payload"] <= 300


def test_a_store_that_there_is_not_is_one_clear_error():
    done = run("steps", "--backend", "postgres")

    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.splitlines() == ["benchmarks: there is no Postgres store yet, only --backend sqlite"]


def test_all_workloads_are_described():
    described = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")

    assert all(f"| `{workload}` |" in described for workload in WORKLOADS)
