"""The attempts of one run: which steps run, wait for a retry, or are in doubt, and what their ends become.

Everything here is by key, never by object: the execution may be dropped and rebuilt from the journal under running attempts.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import logging
import random
import traceback
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.core.codec import encode_error, natural_encode
from perdure.core.duration import show
from perdure.core.entry import Entry, Kind, Note
from perdure.core.errors import InDoubt, NotStorable, StepError
from perdure.core.payload import pack, unpack
from perdure.core.retry import retry_after

from .arrival import Arrival
from .attempt import Attempt, StepFacts
from .probing import Finding, probing

if TYPE_CHECKING:
    from perdure.core.operation import Operation
    from perdure.stores.base import Store

    from .driver import Driver

__all__ = ["PROGRESS", "Steps"]

logger = logging.getLogger("perdure.step")


PROGRESS = "~progress/"
"""Published keys that start with this hold the progress of steps."""


class Steps:
    """The attempts of one run."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.running: dict[str, Attempt] = {}
        self.retries: dict[str, int] = {}  # key: when the next attempt starts
        self.held: list[str] = []  # asked for, to start when earlier commands are committed
        self.begins: list[str] = []  # to be journaled as begun before they start
        self.progress: dict[str, Any] = {}
        self.taken_up = False  # the steps asked for now were open when the run was taken up
        self._catching_up = False
        self._recovered: set[str] = set()  # keys of steps that were open when the run was taken up again

    def knows(self, key: str) -> bool:
        """Whether this step is under way in some manner."""
        return (
            key in self.running or key in self.retries or key in self.begins or key in self.held or key in self._driver.starting
        )

    # ── starting ────────────────────────────────────────────────────────────────────────────────────────────────────

    def take_up(self, *, due: bool) -> None:
        """The run was taken up: the steps asked for next were open before. With `due`, it may have to catch up first."""
        self.taken_up, self._catching_up = True, due

    def ask(self, operation: Operation) -> None:
        """A step was asked for: it starts as soon as it may."""
        if self.knows(operation.key):
            return
        if self.taken_up:
            self._recovered.add(operation.key)
        if self._held_back():
            self.held.append(operation.key)
        else:
            self.admit(operation)

    def _held_back(self) -> bool:
        """Whether steps may not start yet: something comes first that they depend on, or that may give them up."""
        driver = self._driver
        if driver.commands or driver.halting is not None or driver.cancel_pending():
            return True
        if self._catching_up:  # what fell due while nobody owned the run
            self._catching_up = bool(driver.arrivals) or 0 < driver.agenda.next_wake() <= driver.now()
        return self._catching_up

    def admit(self, operation: Operation) -> None:
        """Start a step, or find out first what became of an attempt that the journal knows as begun."""
        definition = operation.request.definition
        if operation.begun is not None and definition.once:
            if definition.probe is not None:
                self._probe(operation)
            else:
                self._doubt(operation, "its worker ended before its outcome was recorded")
        elif operation.retry_at > self._driver.now():
            self.retries[operation.key] = operation.retry_at
        elif definition.once or self._driver.suspect:
            self.begins.append(operation.key)
        else:
            self.start(operation)

    def release(self) -> None:
        """Start what was held back, if nothing holds it any more."""
        if self.held and not self._held_back():
            held, self.held = self.held, []
            for key in held:
                operation = self._operation(key)
                if operation is not None:
                    self.admit(operation)

    def try_again(self, key: str) -> None:
        """A failed attempt is recorded: start the next one when it is time."""
        operation = self._operation(key)
        if operation is not None and not self.knows(key):
            self.admit(operation)

    def start_due(self) -> None:
        """Start the attempts whose retry time has come."""
        if not self.retries:
            return
        now = self._driver.now()
        for key in [key for key, when in self.retries.items() if when <= now]:
            del self.retries[key]
            operation = self._operation(key)
            if operation is not None:
                operation.retry_at = 0
                self.admit(operation)

    def start_begun(self, key: str) -> None:
        """Start an attempt whose begun entry is durable now."""
        operation = self._operation(key)
        if operation is not None and key not in self.running:
            self.start(operation)

    def next_attempt(self, operation: Operation) -> int:
        """The number of its next attempt: above the failed ones, and above those that its former workers may have begun."""
        return operation.attempts + 1 + (self._driver.recoveries if operation.key in self._recovered else 0)

    def start(self, operation: Operation) -> None:
        """Run the body."""
        driver, call = self._driver, operation.request
        definition = call.definition
        number = self.next_attempt(operation)
        facts = self._facts(operation, number)
        args = call.args if call.bound is None else (call.bound, *call.args)
        stub = driver.worker.stubs.get(definition.name) if driver.worker.stubs else None
        if stub is not None:
            facts.definition = dataclasses.replace(definition, fn=stub.body, is_async=True)
        attempt = Attempt(
            facts, operation, args, call.kwargs, clock=driver.worker.clock, pool=driver.worker.pool, ended=self._ended
        )
        self.running[operation.key] = attempt
        attempt.start(driver.worker.loop, operation.context or contextvars.Context())

    def _facts(self, operation: Operation, number: int) -> StepFacts:
        key = operation.key
        return StepFacts(
            self._driver.id,
            key,
            number,
            self._driver.identity,
            operation.request.definition,
            self.progress.get(key),
            lambda progress: self.publish_progress(key, progress),
            self.publish,
        )

    def _operation(self, key: str) -> Operation | None:
        execution = self._driver.execution
        return execution.operations.get(key) if execution is not None else None

    # ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ended(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        key = attempt.facts.key
        if self.running.get(key) is not attempt:
            return
        del self.running[key]
        # A run that is being blocked has no execution any more, but what its bodies did is recorded all the same.
        operation = self._operation(key) if self._driver.execution is not None else attempt.operation
        if operation is None or self._driver.gone:
            self._driver.wake()
            return
        definition = operation.request.definition
        note = Note(
            attempt=attempt.facts.attempt, digest=operation.digest, arguments=self.arguments(operation), began=attempt.began
        )
        if error is None:
            try:
                data = definition.schema.encode(value, where=f"step {definition.name}")
                self._record(key, note, data, failed=False)
            except NotStorable as problem:
                error = problem
            except Exception as problem:  # noqa: BLE001 - a value's own code failed while it was stored
                error = NotStorable(
                    f"the result of step {definition.name} cannot be stored: {type(problem).__name__}: {problem}"
                )
        if error is not None:
            self._failed(operation, attempt, note, error)
        self._driver.wake()

    def _failed(self, operation: Operation, attempt: Attempt, note: Note, error: BaseException) -> None:
        definition = operation.request.definition
        if isinstance(error, NotStorable) and error.step is None:
            error.run, error.step = self._driver.id, operation.key
        if isinstance(error, asyncio.CancelledError | GeneratorExit | SystemExit | KeyboardInterrupt | StopIteration):
            error = StepError(f"the step ended with {type(error).__name__}", type_name=type(error).__name__)
        if definition.once and attempt.timed_out:
            self._doubt(operation, "its time ran out while it was under way")
            return
        failures = operation.attempts + 1
        retry = definition.retry
        if failures < retry.attempts and retry.wants(error, listed_only=definition.once):
            now = self._driver.now()
            asked = retry_after(error, now)
            wait = asked if asked is not None else retry.delay(failures, random.random())
            note.attempt, note.retry_at = failures, now + wait
            logger.warning(
                "run %s: %s failed at its attempt %d, the next one starts in %s: %s: %s",
                self._driver.id, operation.key, failures, show(wait), type(error).__name__, error, extra=attempt.extra(),
            )  # fmt: skip
            self._record(operation.key, note, encode_error(error), failed=True, kind=Kind.ATTEMPT)
        else:
            self._record(operation.key, note, encode_error(error), failed=True)

    def arguments(self, operation: Operation) -> bytes:
        """The packed arguments, for the note of an entry; their blobs go with the next advance."""
        shown = operation.arguments
        if not shown:
            return b""
        if len(shown) > self._driver.worker.options.payload_cap:  # they are for people only: no reason to fail
            shown = natural_encode({"$omitted": f"{len(shown):,} bytes"})
        packed, blobs = pack(shown, cap=1 << 62, where="arguments")
        self._driver.blobs.extend(blobs)
        return packed

    def _record(self, key: str, note: Note, data: bytes, *, failed: bool, kind: Kind = Kind.STEP) -> None:
        driver = self._driver
        try:
            packed, blobs = pack(data, cap=driver.worker.options.cap(failed=failed), where=f"step {key}")
        except NotStorable as problem:
            problem.run, problem.step = driver.id, key
            data, failed, kind = encode_error(problem), True, Kind.STEP
            packed, blobs = pack(data, cap=1 << 62, where="")
        driver.arrive(Arrival(driver.now(), Entry(0, kind, key, 0, packed, failed, note), data, blobs))

    # ── doubt ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _doubt(self, operation: Operation, why: str) -> None:
        error = InDoubt(
            f"step {operation.name} was started and {why}; it is not run again",
            run=self._driver.id,
            step=operation.key,
            hint="find out whether it happened, or give the step a probe= that does",
        )
        self._record(operation.key, Note(digest=operation.digest), encode_error(error), failed=True)
        self._driver.wake()

    def _probe(self, operation: Operation) -> None:
        """Ask the outside world whether a begun attempt had its effect."""
        facts = self._facts(operation, max(1, self.next_attempt(operation) - 1))
        self.running[operation.key] = attempt = probing(self._driver.worker, facts, operation, self._probed)
        attempt.start(self._driver.worker.loop, operation.context or contextvars.Context())

    def _probed(self, attempt: Attempt, value: Any, error: BaseException | None) -> None:
        key = attempt.facts.key
        if self.running.get(key) is not attempt:
            return
        del self.running[key]
        operation = self._operation(key) if self._driver.execution is not None else attempt.operation
        if operation is not None and not self._driver.gone:
            self._found_out(operation, value if error is None else Finding(problem=error))
        self._driver.wake()

    def _found_out(self, operation: Operation, finding: Finding) -> None:
        definition = operation.request.definition
        if finding.outcome == "happened":
            note = Note(digest=operation.digest, name="probed")
            try:
                data = definition.schema.encode(finding.value, where=f"probe of step {definition.name}")
            except NotStorable as problem:
                problem.run, problem.step = self._driver.id, operation.key
                self._record(operation.key, note, encode_error(problem), failed=True)
            else:
                self._record(operation.key, note, data, failed=False)
        elif finding.outcome == "not_happened" and finding.ended:
            self.begins.append(operation.key)
        elif finding.problem is not None:
            problem_text = "".join(traceback.format_exception_only(finding.problem)).strip()
            logger.warning("the probe of %s failed: %s", operation.key, problem_text)
            self._doubt(operation, f"its probe failed ({problem_text})")
        elif finding.outcome == "not_happened":
            self._doubt(operation, "has not happened yet by its probe, but its worker may still be at it")
        else:
            self._doubt(operation, "its probe could not find out what became of it")

    # ── what bodies show ──────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, key: str, value: Any) -> None:
        """Show a value from inside a step."""
        data, blobs = pack(
            natural_encode(value, where=f"published {key}"),
            cap=self._driver.worker.options.payload_cap,
            where=f"published {key}",
        )
        self._driver.published[key] = data
        self._driver.blobs.extend(blobs)
        self._driver.wake()

    def publish_progress(self, key: str, progress: Any) -> None:
        """Keep what a step reports of its progress, for its next attempt."""
        self.progress[key] = progress
        self.publish(f"{PROGRESS}{key}", progress)

    # ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────────

    def drop(self, key: str) -> None:
        """The code no longer waits for this step."""
        self.retries.pop(key, None)
        attempt = self.running.pop(key, None)
        if attempt is not None:
            attempt.abandon()

    def drop_all(self) -> None:
        """The run leaves this worker: stop what can be stopped, listen to nothing more."""
        running, self.running = self.running, {}
        for attempt in running.values():
            attempt.abandon()
        self.retries.clear()
        self.begins.clear()
        self.held.clear()


def progress_of(store: Store, run: int) -> dict[str, Any]:
    """What earlier attempts of a run reported of their progress, by step. Runs on the reading line."""
    kept = {each.key.removeprefix(PROGRESS): each.value for each in store.published(run) if each.key.startswith(PROGRESS)}
    return {key: msgspec.json.decode(unpack(packed, store.blobs)) for key, packed in kept.items()}
