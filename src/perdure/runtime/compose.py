"""Composing a turn: everything pending of one run as one `Advance`, its entries numbered and timed.

The order of entries is the order in which the code will see them, live and replayed:

1. commands that the code issued before anything else could reach it;
2. a cancellation, with what came before it: the store has closed the promises with it, so that no timer may go first;
3. arrivals, as they came, up to the next deadline; an answer that the store accepted before it takes all in front of it along;
4. if there were none, the timers of that deadline: firing them may set others, due before a later arrival.

Arrivals and due timers never share a turn: what arrives may take a timer away, as an answer does with its own promise's.

An entry's time is the moment it stands for, never below the entry before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.core.codec import encode_error
from perdure.core.entry import Entry, Kind, Note
from perdure.core.errors import NotStorable, RunCancelled
from perdure.core.payload import pack
from perdure.stores.base import Advance, End, Send
from perdure.stores.rows import InboxKind, Message, PromiseRow

from .outgoing import child_start, schema_text

if TYPE_CHECKING:
    from perdure.core.loop import Timer
    from perdure.core.operation import ChildRequest, Operation, PromiseRequest, SendRequest

    from .arrival import Arrival
    from .driver import Driver

__all__ = ["compose", "compose_cancelled", "undo"]


def compose(driver: Driver) -> Advance | None:
    """The next advance of a run, or None if nothing is pending."""
    return None if _nothing_pending(driver) else _Composition(driver).result()


def _nothing_pending(driver: Driver) -> bool:
    """Asked before anything is made: after most steps there is only the next step to wait for."""
    execution = driver.execution
    if execution is None or execution.ended is not None or execution.timers or driver.halting is not None:
        return False
    return not (
        driver.arrivals
        or driver.commands
        or driver.steps.begins
        or driver.consumed
        or driver.published
        or driver.reopened
        or driver.agenda.run_end()
    )


def compose_cancelled(driver: Driver) -> Advance:
    """The end of a run that is cancelled without its code being asked. The request is recorded, unless it was before."""
    composition = _Composition(driver)
    for request in [arrival for arrival in driver.arrivals if arrival.entry.kind == Kind.CANCEL]:
        composition.take(request)
    data, _ = pack(encode_error(RunCancelled("the run was cancelled", run=driver.id)), cap=1 << 62, where="")
    composition.advance.end = End(status="cancelled", value=data, failed=True, at=composition.now, active=driver.row.active)
    driver.composed(composition.data, composition.taken)
    return composition.advance


def undo(driver: Driver, advance: Advance, arrivals: list[Arrival]) -> None:
    """Put back what an advance had taken, to be composed again."""
    taken = {*driver.pausing.requests, *(arrival.consumed for arrival in arrivals)}
    driver.consumed[:0] = [number for number in advance.consumed if number not in taken]
    driver.arrivals.extendleft(reversed(arrivals))
    driver.reopened[:0] = advance.reopened
    driver.steps.begins[:0] = driver.starting
    driver.starting = []
    driver.commands |= dict.fromkeys(entry.key for entry in advance.entries if driver.open_command(entry.key))
    driver.blobs[:0] = advance.blobs
    driver.published = dict(advance.published) | driver.published


class _Composition:
    """One advance in the making."""

    __slots__ = ("advance", "data", "driver", "now", "sequence", "taken", "time")

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.now = driver.now()
        self.sequence = driver.sequence
        self.time = driver.time
        self.advance = Advance(run=driver.number, claim=driver.claim, sequence=driver.sequence, at=self.now)
        self.data: list[bytes | None] = []
        self.taken: list[Arrival] = []

    def result(self) -> Advance | None:
        driver, advance = self.driver, self.advance
        execution = driver.execution
        if execution is not None:
            if driver.commands:
                self._commands()
            if execution.ended is not None:
                self._end()
            elif driver.halting is None:
                self._live()
            else:
                self._recorded_only()
        else:
            self._recorded_only()
        self._beside()
        if not (advance.entries or advance.consumed or advance.published or advance.reopened or advance.end is not None):
            return None
        if driver.suspect:
            advance.progress = any(entry.kind != Kind.BEGUN for entry in advance.entries)
        if driver.status == "waiting" and advance.end is None:
            advance.status = "running"
        driver.composed(self.data, self.taken)
        return advance

    def _add(self, entry: Entry, at: int, data: bytes | None) -> None:
        self.sequence += 1
        if at > self.time:
            self.time = at
        entry.sequence = self.sequence
        entry.time = self.time
        self.advance.entries.append(entry)
        self.data.append(data)

    # ── commands ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _commands(self) -> None:
        commands, self.driver.commands = self.driver.commands, {}
        for key in commands:
            operation = self.driver.open_command(key)
            if operation is None:
                continue
            failure = self.driver.failures.pop(key, None)
            note = Note(digest=operation.digest, arguments=self.driver.steps.arguments(operation))
            if failure is None:
                failure = self._carry_out(operation, note)
            if failure is None:
                self._add(Entry(0, operation.kind, key, 0, None, False, note), self.now, None)
                continue
            data = encode_error(failure)
            packed, blobs = pack(data, cap=self.driver.worker.options.cap(failed=True), where=key)
            self.advance.blobs.extend(blobs)
            self._add(Entry(0, operation.kind, key, 0, packed, True, note), self.now, data)

    def _carry_out(self, operation: Operation, note: Note) -> NotStorable | None:
        """Add what a command changes outside; a value that is too large fails it, once, in the code that asked for it."""
        try:
            _EFFECTS[operation.kind](self, operation, note)
        except NotStorable as problem:
            problem.run, problem.step = self.driver.id, operation.key
            return problem
        return None

    def _packed(self, operation: Operation) -> bytes:
        where = f"{operation.kind} {operation.name}"
        packed, blobs = pack(operation.request.value, cap=self.driver.worker.options.payload_cap, where=where)
        self.advance.blobs.extend(blobs)
        return packed

    def _open(self, operation: Operation, note: Note) -> None:
        request: PromiseRequest = operation.request
        note.subject, note.deadline = request.id, request.deadline
        self.advance.opened.append(
            PromiseRow(
                id=request.id,
                run=self.driver.number,
                key=operation.key,
                kind=request.kind,
                name=request.name,
                question=request.question,
                to=request.to,
                schema=schema_text(request.schema),
                opened_at=self.now,
                deadline=request.deadline,
            )
        )

    def _start_child(self, operation: Operation, note: Note) -> None:
        request: ChildRequest = operation.request
        note.subject = request.id
        self.advance.children.append(child_start(self.driver, operation.key, request, self.now))

    def _send(self, operation: Operation, note: Note) -> None:
        request: SendRequest = operation.request
        note.subject, note.name = request.run_id, request.name
        message = Message(
            number=0,
            run=0,
            kind=InboxKind.SIGNAL,
            name=request.name,
            value=self._packed(operation),
            by=f"run {self.driver.id}",
            uid=f"{self.driver.number}{operation.key}",
            at=self.now,
        )
        self.advance.sends.append(Send(run_id=request.run_id, message=message))

    def _reply(self, operation: Operation, note: Note) -> None:
        note.subject = operation.request.uid
        self.advance.replies.append((operation.request.uid, self._packed(operation)))

    def _publish(self, operation: Operation, note: Note) -> None:
        note.name = operation.request.name
        self.advance.published.append((operation.request.name, self._packed(operation)))

    def _patch(self, operation: Operation, note: Note) -> None:
        """The entry itself is all there is."""

    # ── arrivals and timers ─────────────────────────────────────────────────────────────────────────────────────────

    def _live(self) -> None:
        driver = self.driver
        self._begun()
        if driver.cancel_pending() and any(arrival.entry.kind == Kind.CANCEL for arrival in driver.arrivals):
            self._until_cancelled()
            return
        timer = driver.execution.next_timer() if driver.execution is not None else None
        deadline = timer.deadline if timer is not None else 0
        run_deadline = driver.agenda.run_end()
        if run_deadline and run_deadline[0] <= self.now and (not deadline or run_deadline[0] <= deadline):
            self._arrivals_until(run_deadline[0])
            if not self.advance.opened:
                self._expired(*run_deadline)
            return
        if deadline and deadline <= self.now:
            if self._arrivals_until(deadline) == 0 and not driver.waiting_for_messages:
                self._timers(deadline)
            return
        self._arrivals_until(0)

    def _until_cancelled(self) -> None:
        """A cancellation comes right after what came before it: the store has closed the promises, so that no timer may go first.

        It has a turn to itself, since it closes what is open by then.
        """
        arrivals = self.driver.arrivals
        if arrivals[0].entry.kind == Kind.CANCEL and not self.advance.opened:
            self.take(arrivals.popleft())
            return
        while arrivals[0].entry.kind != Kind.CANCEL:
            self.take(arrivals.popleft())

    def _recorded_only(self) -> None:
        """While halting: ends of steps are recorded; messages stay where they are."""
        kept = []
        for arrival in self.driver.arrivals:
            if arrival.consumed:
                kept.append(arrival)
            else:
                self.take(arrival)
        self.driver.arrivals.clear()
        self.driver.arrivals.extend(kept)

    def take(self, arrival: Arrival) -> None:
        """Let an arrival be the next entry."""
        at = arrival.at
        if arrival.entry.kind == Kind.CANCEL:
            at = self.now  # the grace counts from the delivery, however long the request waited for a worker
            self._close_promises()
        self._add(arrival.entry, at, arrival.data)
        self.taken.append(arrival)
        if arrival.blobs:
            self.advance.blobs.extend(arrival.blobs)
        if arrival.consumed:
            self.advance.consumed.append(arrival.consumed)

    def _arrivals_until(self, deadline: int) -> int:
        arrivals, in_time = self.driver.arrivals, self._in_time(deadline)
        for _ in range(in_time):
            self.take(arrivals.popleft())
        return in_time

    def _in_time(self, deadline: int) -> int:
        """How many arrivals come before a deadline. Their own times may be by clocks that differ; their order is what stands."""
        arrivals, count = self.driver.arrivals, 0
        if not deadline:
            return len(arrivals)
        for number, arrival in enumerate(arrivals):
            if arrival.at < deadline and (arrival.first or count == number):
                count = number + 1
        return count

    def _timers(self, deadline: int) -> None:
        execution = self.driver.execution
        assert execution is not None
        due = sorted(
            (timer for timer in execution.timers.values() if timer.deadline == deadline), key=lambda timer: timer.number
        )
        for timer in due:
            self._fire(timer)

    def _fire(self, timer: Timer) -> None:
        execution = self.driver.execution
        assert execution is not None
        wait = execution.waits.get(timer.key)
        if wait is not None:
            self.advance.expired.append(wait.id)
            note = Note(name="expired", deadline=timer.deadline)
            self._add(Entry(0, Kind.RESOLVED, timer.key, 0, None, False, note), timer.deadline, None)
        else:
            self._add(Entry(0, Kind.TIMER, timer.key, 0, None, False, Note(deadline=timer.deadline)), timer.deadline, None)

    def _begun(self) -> None:
        """Attempts that must be known before they start (once steps, suspects)."""
        steps, worker = self.driver.steps, self.driver.worker
        begins, steps.begins = steps.begins, []
        for key in begins:
            operation = self.driver.execution.operations.get(key) if self.driver.execution is not None else None
            if operation is None:
                continue
            # Should it be found in doubt, or asked for with other arguments, people must see with which ones it began.
            note = Note(
                attempt=steps.next_attempt(operation), digest=operation.digest, arguments=steps.arguments(operation),
                worker=worker.number, claim=self.driver.claim,
            )  # fmt: skip
            self._add(Entry(0, Kind.BEGUN, key, 0, None, False, note), self.now, None)
            self.driver.starting.append(key)

    def _expired(self, when: int, why: str) -> None:
        if why != "grace":
            when, deadline = self.now, when  # the grace counts from the delivery
            self._close_promises()
        else:
            deadline = when
        self._add(Entry(0, Kind.EXPIRED, "", 0, None, False, Note(name=why, deadline=deadline)), when, None)

    def _close_promises(self) -> None:
        """The run is told to end: nobody may answer what its code will not see any more."""
        execution = self.driver.execution
        if execution is not None and not execution.ending:
            self.advance.closed.extend(wait.id for wait in execution.open_promises())

    # ── what has no entry ───────────────────────────────────────────────────────────────────────────────────────────

    def _beside(self) -> None:
        driver, advance = self.driver, self.advance
        if driver.consumed:
            advance.consumed.extend(driver.consumed)
            driver.consumed = []
        if driver.reopened:
            advance.reopened, driver.reopened = driver.reopened, []
        if driver.published:
            advance.published.extend(driver.published.items())
            driver.published = {}
        if driver.blobs:
            advance.blobs.extend(driver.blobs)
            driver.blobs = []

    def _end(self) -> None:
        driver = self.driver
        assert driver.execution is not None
        ended = driver.execution.ended
        assert ended is not None
        data, failed, status = ended.data, ended.status != "succeeded", ended.status
        try:
            packed, blobs = pack(data, cap=driver.worker.options.cap(failed=failed), where="result")
        except Exception as problem:  # noqa: BLE001 - too large: a deterministic failure of the run
            data, failed, status = encode_error(problem), True, "failed"
            packed, blobs = pack(data, cap=1 << 62, where="")
        self.advance.blobs.extend(blobs)
        self.advance.end = End(status=status, value=packed, failed=failed, at=self.now, active=driver.row.active)
        driver.result_data = data


_EFFECTS: dict[Kind, Any] = {
    Kind.OPENED: _Composition._open,  # noqa: SLF001 - a table of this module's own methods
    Kind.CHILD: _Composition._start_child,  # noqa: SLF001
    Kind.SENT: _Composition._send,  # noqa: SLF001
    Kind.REPLIED: _Composition._reply,  # noqa: SLF001
    Kind.PUBLISHED: _Composition._publish,  # noqa: SLF001
    Kind.PATCHED: _Composition._patch,  # noqa: SLF001
}
