"""Random programs on real executions: replaying a journal is a fixed point, and every prefix of it resumes to it (P14, P15)."""

import asyncio
import hashlib
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from tests.core.programs import LONGEST, Run

PROGRAMS = 600
AT_ONCE = 60


def lived(seed, journal=(), world=None):
    """A run to its end, whose replay shows the same after every single entry."""
    run = Run.resume(seed, list(journal), world)
    again = Run.replay(seed, run.journal)
    assert again.trace == run.trace
    outcome = run.end()
    assert again.end() == outcome
    assert outcome is not None
    return run


@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_a_replayed_journal_leads_to_the_same_end(first):
    for seed in range(first, first + AT_ONCE):
        lived(seed)


@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_a_journal_that_is_cut_anywhere_can_be_continued_otherwise(first):
    for seed in range(first, first + AT_ONCE):
        run = lived(seed)
        chance = random.Random(seed)
        for world in range(3):
            cut = chance.randint(0, len(run.journal))
            other = lived(seed, run.journal[:cut], world=f"other {world}")
            assert other.journal[:cut] == run.journal[:cut]


@settings(max_examples=60)
@given(seed=st.integers(PROGRAMS, 1 << 32))
def test_every_prefix_of_a_journal_resumes_to_the_same_journal(seed):
    run = lived(seed)
    # In the middle of a batch the world has chosen what comes next already: a run that is cut there goes on otherwise.
    for length in run.ends if len(run.journal) < LONGEST else random.Random(seed).sample(run.ends, 5):
        resumed = Run.resume(seed, run.journal[:length])
        assert resumed.journal == run.journal
        assert resumed.trace == run.trace
        resumed.end()


def test_an_execution_may_be_dropped_anywhere():
    for seed in range(60):
        journal = lived(seed).journal
        for length in range(1, len(journal), 5):
            Run.replay(seed, journal[:length]).end()


def test_several_runs_at_once_do_not_touch_each_other():
    runs = [lived(seed) for seed in range(20)]
    again = [Run(run.seed) for run in runs]
    chance = random.Random(1)
    order = [number for number, run in enumerate(runs) for _ in run.journal]
    chance.shuffle(order)

    async def interleaved():
        for number in order:
            again[number].feed(runs[number].journal[len(again[number].journal)])

    asyncio.run(interleaved())
    for run, other in zip(runs, again, strict=True):
        assert other.trace == run.trace
        other.end()


DIGEST = """
import sys
from tests.core.test_random_programs import digest
print(digest(range(40)))
"""


def digest(seeds):
    """What all these programs did, in a few letters."""
    runs = [lived(seed) for seed in seeds]
    told = [[(entry.kind.value, entry.key, entry.time) for entry in run.journal] + [run.trace[-1]] for run in runs]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_other_processes_do_the_same(hash_seed):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True, env=environment)
    assert output.stdout.strip() == digest(range(40))
