"""What code inside a run, or inside a step, may ask of its surroundings: the time, randomness, itself."""

from __future__ import annotations

import asyncio
import hashlib
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.core.codec import natural_encode
from perdure.core.entry import Kind
from perdure.core.errors import WrongContext
from perdure.core.execution import Execution, current
from perdure.core.operation import PublishRequest
from perdure.runtime.attempt import current_attempt

if TYPE_CHECKING:
    from collections.abc import Generator

    from perdure.runtime.attempt import StepFacts

__all__ = [
    "CurrentRun",
    "CurrentStep",
    "current_run",
    "current_step",
    "inside",
    "now",
    "patched",
    "publish",
    "rng",
    "sleep_until",
    "uuid4",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def inside(verb: str) -> Execution:
    """The execution whose code is running.

    Raises `WrongContext` outside of a run, and inside a step, where the verb has no meaning.
    """
    execution = current()
    if execution is not None:
        return execution
    if current_attempt.get() is not None:
        raise WrongContext(
            f"{verb} was called inside a step",
            run=current_attempt.get().run,  # type: ignore[union-attr]
            hint="call it in the workflow; a step does I/O and returns a value",
        )
    raise WrongContext(f"{verb} was called outside of a run", hint="call it in a function with @workflow, started by app.start")


def now() -> datetime:
    """The run's time, aware, in UTC: the time of the newest thing that reached it, the same on every replay."""
    return _EPOCH + timedelta(microseconds=inside("now()").loop.now)


async def sleep_until(moment: datetime) -> None:
    """Sleep until an absolute time; one in the past returns at once. Raises `ValueError` for a naive datetime."""
    execution = inside("sleep_until()")
    if moment.tzinfo is None:
        raise ValueError("sleep_until() needs an aware datetime, such as now() + timedelta(days=1)")
    await asyncio.sleep((moment - (_EPOCH + timedelta(microseconds=execution.loop.now))).total_seconds())


def _draw(execution: Execution, name: str, size: int) -> bytes:
    """Bytes that depend on the run's recorded seed and on where in it they are asked for, and on nothing else."""
    key = execution.loop.scope().key(name)
    return hashlib.blake2b(key.encode(), key=(execution.seed + execution.facts.identity)[:64], digest_size=size).digest()


def rng() -> random.Random:
    """A random generator, seeded from the run's recorded seed and the place of the call: the same on every replay.

    Each call gives a new generator; keep one to draw several numbers.
    """
    return random.Random(_draw(inside("rng()"), "rng", 32))


def uuid4() -> uuid.UUID:
    """A random UUID that is the same on every replay. A fork draws others."""
    return uuid.UUID(bytes=_draw(inside("uuid4()"), "uuid4", 16), version=4)


def patched(change: str) -> bool:
    """Whether this run takes a changed path of its code: true for runs that had not passed this place before the change.

    >>> # async def flow(): ...
    >>> #     if patched("check-budget"):
    >>> #         await check_budget()
    """
    return inside("patched()").patched(change)


class _Published:
    """The awaitable of `publish` in a step, where nothing has to be waited for."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def publish(key: str, value: Any) -> Any:
    """Show a value under a key while the run goes on: `await handle.get(key)` reads it. Await it.

    In a workflow it is recorded; in a step it is written with the step's next record.
    """
    execution = current()
    if execution is None:
        facts = current_attempt.get()
        if facts is None:
            inside("publish()")
            raise AssertionError  # inside() raises
        facts.publish(key, value)
        return _Published()
    data = natural_encode(value, where=f"published {key}")
    return execution.command(Kind.PUBLISHED, "publish", PublishRequest(name=key, value=data), describe=(key,))


class CurrentRun:
    """The run whose code is running."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    @property
    def id(self) -> str:
        """Its id."""
        return self._execution.facts.id

    @property
    def workflow(self) -> str:
        """The name of its workflow."""
        return self._execution.facts.workflow

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self._execution.facts.tags

    @property
    def started_at(self) -> datetime:
        """When it was first claimed."""
        return _EPOCH + timedelta(microseconds=self._execution.started_at)

    @property
    def cancelling(self) -> bool:
        """Whether its cancellation, timeout or deadline has been delivered and it is unwinding."""
        return bool(self._execution.ending)


def current_run() -> CurrentRun:
    """The run whose code is running. Raises `WrongContext` outside of workflow code."""
    return CurrentRun(inside("current_run()"))


class CurrentStep:
    """The step whose body is running."""

    def __init__(self, facts: StepFacts) -> None:
        self._facts = facts

    @property
    def run(self) -> str:
        """The id of its run."""
        return self._facts.run

    @property
    def key(self) -> str:
        """Its key in the run's journal."""
        return self._facts.key

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; higher after a failure and after a crash."""
        return self._facts.attempt

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts and all recoveries of this step, for the outside world to recognise a repeat."""
        return self._facts.idempotency_key

    @property
    def progress(self) -> Any:
        """What an earlier attempt last reported by `heartbeat`, or None."""
        return self._facts.progress

    def heartbeat(self, progress: Any = None) -> None:
        """Report progress (JSON data), for the next attempt should this one die, and for people who watch."""
        self._facts.heartbeat(progress)


def current_step() -> CurrentStep:
    """The step whose body is running. Raises `WrongContext` outside of steps."""
    facts = current_attempt.get()
    if facts is None or current() is not None:
        raise WrongContext(
            "current_step() was called outside of a step", hint="call it in a function with @step, run by a workflow"
        )
    return CurrentStep(facts)
