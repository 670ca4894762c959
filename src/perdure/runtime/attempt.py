"""One attempt at a step: runs the body, on the loop or in the thread pool, and reports how it ended.

An attempt knows its step's call and its own number. It decides nothing: whether an error is retried, and what is recorded,
is its driver's business.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import logging
from typing import TYPE_CHECKING, Any

from perdure.core.duration import SECOND, show

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from perdure.core.definition import StepDefinition
    from perdure.core.operation import Operation

    from .clock import Alarm, Clock

__all__ = ["Attempt", "StepFacts", "current_attempt", "run_body", "run_inside"]

logger = logging.getLogger("perdure.step")

UNWIND = 10 * SECOND
"""How long a cancelled body may take to unwind before its attempt is given up."""


class StepFacts:
    """What a step's body may know of itself; `heartbeat` and `publish` are handed in by the driver."""

    __slots__ = ("_identity", "attempt", "definition", "heartbeat", "key", "progress", "publish", "run")

    def __init__(
        self, run: str, key: str, attempt: int, identity: bytes, definition: StepDefinition, progress: Any,
        heartbeat: Callable[[Any], None], publish: Callable[[str, Any], None],
    ) -> None:  # fmt: skip
        self.run = run
        self.key = key
        self.attempt = attempt
        self.definition = definition
        self.progress = progress
        self.heartbeat = heartbeat
        self.publish = publish
        self._identity = identity

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts and recoveries of this step in this run, and for no other."""
        return "prd-" + hashlib.blake2b(self.key.encode(), key=self._identity[:64], digest_size=16).hexdigest()


current_attempt: contextvars.ContextVar[StepFacts | None] = contextvars.ContextVar("perdure_step", default=None)
"""The step whose body is running, None outside of steps."""


class Attempt:
    """A running body. `ended(attempt, value, error)` is called once, unless the attempt is abandoned first."""

    __slots__ = (
        "_alarm",
        "_args",
        "_clock",
        "_ended",
        "_expired",
        "_kwargs",
        "_pool",
        "_task",
        "_thread",
        "began",
        "facts",
        "operation",
        "over",
    )

    def __init__(
        self, facts: StepFacts, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], *, clock: Clock, pool: Executor,
        ended: Callable[[Attempt, Any, BaseException | None], None],
    ) -> None:  # fmt: skip
        self.facts = facts
        self.operation = operation  # as it was asked for: the execution may be dropped before the body ends
        self.began = 0
        self.over = False  # it has reported, or nobody listens any more
        self._args = args
        self._kwargs = kwargs
        self._clock = clock
        self._pool = pool
        self._ended = ended
        self._expired = False
        self._thread = False
        self._alarm: Alarm | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
        """Begin. The context is the step's own copy: what the body changes in it does not flow back."""
        self.began = self._clock.now()
        definition = self.facts.definition
        context.run(current_attempt.set, self.facts)
        self._thread = not definition.is_async
        self._task = loop.create_task(self._run(definition), context=context)
        if definition.timeout:
            self._alarm = self._clock.call_at(self.began + definition.timeout, self._expire)

    async def _run(self, definition: StepDefinition) -> None:
        try:
            if definition.is_async:
                value = await definition.fn(*self._args, **self._kwargs)
            else:
                context = contextvars.copy_context()
                loop = asyncio.get_running_loop()
                value = await loop.run_in_executor(self._pool, _in_context, context, definition.fn, self._args, self._kwargs)
        except BaseException as error:  # noqa: BLE001 - reported, whatever it is: a step's SystemExit ends the step only
            if self._expired and isinstance(error, asyncio.CancelledError):
                error = self._timeout()
            self._report(None, error)
        else:
            self._report(value, None)

    def _report(self, value: Any, error: BaseException | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if not self.over:
            self.over = True
            self._ended(self, value, error)

    def _timeout(self) -> TimeoutError:
        return TimeoutError(f"step {self.facts.definition.name} took longer than {show(self.facts.definition.timeout)}")

    def _expire(self) -> None:
        self._expired = True
        if self._thread:
            logger.warning(
                "a step in a thread exceeded its timeout; its thread goes on until the call returns", extra=self.extra()
            )
            self._report(None, self._timeout())
            return
        assert self._task is not None
        self._task.cancel()
        self._alarm = self._clock.call_later(UNWIND, self._give_up)

    def _give_up(self) -> None:
        logger.warning("a step did not stop after its timeout and is left behind", extra=self.extra())
        self._report(None, self._timeout())

    def abandon(self) -> None:
        """Nobody waits for it any more: stop the body if it can be stopped, and report nothing."""
        self.over = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()

    @property
    def stoppable(self) -> bool:
        """Whether the body's end is known once its task has ended: not so in a thread."""
        return not self._thread

    @property
    def timed_out(self) -> bool:
        """Whether its timeout was reached."""
        return self._expired

    def extra(self) -> dict[str, Any]:
        """Fields for log records."""
        return {"perdure_run": self.facts.run, "perdure_step": self.facts.key, "perdure_attempt": self.facts.attempt}


def _in_context(context: contextvars.Context, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return context.run(fn, *args, **kwargs)
    except StopIteration as error:  # a future cannot carry it
        raise RuntimeError("step raised StopIteration") from error


async def run_body(definition: StepDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Just run a step's function: what awaiting its call outside of any run does."""
    if definition.is_async:
        return await definition.fn(*args, **kwargs)
    return await asyncio.to_thread(definition.fn, *args, **kwargs)


async def run_inside(definition: StepDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a plain step inside another step's body: it is part of that one, but its own retry and timeout hold."""
    attempt = 0
    while True:
        attempt += 1
        try:
            async with asyncio.timeout(definition.timeout / SECOND if definition.timeout else None):
                return await run_body(definition, args, kwargs)
        except Exception as error:
            if attempt >= definition.retry.attempts or not definition.retry.wants(error):
                raise
            await asyncio.sleep(definition.retry.delay(attempt) / SECOND)
