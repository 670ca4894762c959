"""The driver of one claimed run: feeds its execution, carries out what it asks for, and commits what comes of it.

Theory of operation. A driver takes turns. A turn composes one `Advance` out of everything that is pending (commands that
the code issued, ends of steps, messages, due timers) and hands it to the committer; when it is durable, its entries are fed
one by one, and what the code asks for meanwhile is pending for the next turn. At most one `Advance` of a run is under way.
When nothing is pending the run rests: it is given an alarm for its next deadline and may be parked.

A driver that is *halting* (pausing, blocking, draining) records what ends but feeds nothing and starts nothing; when its
last attempt has ended it lets go of the run.

Everything runs on the thread of the loop that opened the app. The driver knows runs and entries, not SQL.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from perdure.core.entry import Entry, Kind
from perdure.core.errors import Diverged, Poisoned
from perdure.core.execution import Execution
from perdure.core.facts import RunFacts
from perdure.stores.base import Advance, Cancel, Conflict, Lost, Park
from perdure.stores.rows import InboxKind

from .agenda import Agenda
from .blockage import blocking, stuck_error
from .compose import compose, compose_cancelled, undo
from .mailroom import arrival_of
from .outgoing import refused
from .pausing import Pausing
from .replay import drift_error, keep_drifts, new_execution, rebuild, replay
from .steps import Steps

if TYPE_CHECKING:
    from perdure.core.definition import WorkflowDefinition
    from perdure.core.operation import Operation
    from perdure.stores.base import Outcome
    from perdure.stores.rows import Message, RunRow

    from .arrival import Arrival
    from .worker import Worker

__all__ = ["Driver"]

logger = logging.getLogger("perdure.run")

CRASHES_ALLOWED = 3


class Driver:
    """One run in the hands of this worker."""

    def __init__(self, worker: Worker, row: RunRow, definition: WorkflowDefinition) -> None:
        self.worker = worker
        self.row = row
        self.id = row.id
        self.number = row.number
        self.claim = row.claim
        self.definition = definition
        self.identity = worker.identity(row.number)
        self.facts = RunFacts(
            id=row.id,
            number=row.number,
            workflow=row.workflow,
            input=b"",  # set when it is loaded
            identity=self.identity,
            tags=tuple(row.tags),
            link=worker.link,
        )
        self.execution: Execution | None = None
        self.steps = Steps(self)
        self.agenda = Agenda(self)
        self.sequence = row.sequence
        self.time = 0  # of the last entry, µs
        self.suspect = row.crashes > 0
        self.recoveries = row.recoveries
        self.arrivals: deque[Arrival] = deque()
        self.commands: dict[str, None] = {}  # keys of commands to be committed
        self.failures: dict[str, BaseException] = {}  # keys of commands that others' changes made impossible
        self.published: dict[str, bytes] = {}
        self.blobs: list[Any] = []
        self.consumed: list[int] = []  # inbox rows that were dealt with and leave no entry
        self.reopened: list[tuple[str, str]] = []
        self.seen = row.inbox  # the inbox counter up to the messages that came in
        self.last_message = 0
        self.halting: Park | None = None
        self.unfed: list[Entry] = []
        self.starting: list[str] = []  # keys of attempts that start when their begun entry is durable
        self.result_data = b""  # the JSON of the outcome, once ended
        self.status = "running"  # as the row shows it
        self.gone = False
        self.waiting_for_messages = False  # nothing may expire before they are here
        self.asked_for_messages = 0  # the inbox counter that they will bring
        self.had_children = False
        self.pausing = Pausing(self)
        self._early: list[tuple[Message, bytes | None]] = []  # came while the journal was loaded
        self.journal: list[Entry] | None = [] if worker.options.replay_every_await else None
        self._busy: Advance | None = None
        self._fed_values: list[bytes | None] = []
        self._taken: list[Arrival] = []
        self._scheduled = False

    def now(self) -> int:
        """The time, never below the last entry's."""
        return max(self.worker.clock.now(), self.time)

    @property
    def quiet(self) -> bool:
        """Whether the run rests, or waits for a store that is to be tried again."""
        if self._busy is not None:
            return self.worker.committer.pausing and not self.steps.running
        return bool(self.agenda.resting_since) and not self._scheduled and not self.arrivals

    # ── loading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, entries: list[Entry], messages: list[tuple[Message, bytes | None]]) -> None:
        """Replay a journal (values unpacked), then go live with the messages that wait."""
        if self.row.crashes >= CRASHES_ALLOWED:
            self.time = entries[-1].time
            self.block(
                Poisoned(
                    f"the run ended its worker {self.row.crashes} times in a row",
                    hint="mend the step whose attempt was under way (the journal's last entry), then resume the run",
                )
            )
            self.deliver_all(messages)
            return
        if self.journal is not None:
            self.journal = list(entries)
        replay(self, new_execution(self, entries), entries, 0, messages)

    def go_live(self, messages: list[tuple[Message, bytes | None]]) -> None:
        """The journal is replayed: what the code asks for from now on is new."""
        execution = self.execution
        assert execution is not None
        execution.replaying = False
        if self.halting is not None:  # handed back while it was loaded
            return
        if execution.drifts:
            if self.worker.options.replay_at_park:
                self.block(drift_error(self, execution))
                self.deliver_all(messages)
                return
            keep_drifts(self, execution)
        self.steps.take_up(due=bool(messages or self._early or self.sequence > 1 or self.row.deadline_at))
        self.deliver_all(messages)
        self._collect()
        self.turn()

    # ── what comes in ───────────────────────────────────────────────────────────────────────────────────────────────

    def deliver_all(self, messages: list[tuple[Message, bytes | None]]) -> None:
        """The messages that came with the claim, and those that came while the journal was loaded."""
        for message, data in messages:
            self.deliver(message, data)
        for message, data in self._early:
            self.deliver(message, data, counted=True)
        self._early.clear()

    def deliver(self, message: Message, data: bytes | None, *, counted: bool = False) -> None:
        """A message from outside; `data` is its value unpacked. One that came before is ignored."""
        if self.gone or message.number <= self.last_message:
            return
        if self.execution is None and self.halting is None:  # still loading
            self._early.append((message, data))
            return
        self.last_message = message.number
        if counted:
            self.seen += 1
        self.waiting_for_messages = False
        match message.kind:
            case InboxKind.PAUSE:
                self.pausing.ask(message.number)
            case InboxKind.RESUME:
                self.consumed.append(message.number)
                self.pausing.end()
            case _:
                arrival = arrival_of(self, message, data)
                if arrival is None:
                    self.consumed.append(message.number)
                else:
                    self.arrivals.append(arrival)
                    if message.kind == InboxKind.CANCEL:
                        self.row.cancel_at = self.row.cancel_at or message.at
                        self.pausing.end()
        self.wake()

    def polled(self) -> None:
        """The messages that were asked for are here, as far as there are any."""
        self.seen = max(self.seen, self.asked_for_messages)
        self.asked_for_messages = 0
        self.waiting_for_messages = False
        self.wake()

    def arrive(self, arrival: Arrival) -> None:
        """Something that is to become an entry."""
        self.arrivals.append(arrival)
        self.wake()

    def wake(self) -> None:
        """Take a turn soon."""
        if not self._scheduled and self._busy is None and not self.gone:
            self._scheduled = True
            self.worker.loop.call_soon(self.turn)

    def foreign_call(self) -> None:
        """Another thread called into the run's loop: the refusal is kept there, the run must be looked at."""
        self.worker.loop.call_soon_threadsafe(self._check_refusal)

    def _check_refusal(self) -> None:
        execution = self.execution
        if execution is not None and execution.loop.refusal is not None and not self.gone:
            self.block(execution.loop.refusal)

    def unhandled(self, context: dict[str, Any]) -> None:
        """An error in workflow code that nobody awaited."""
        if self.execution is not None and not self.execution.replaying:
            logger.error(
                context.get("message", "error in workflow code"), exc_info=context.get("exception"), extra=self.extra()
            )

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def turn(self) -> None:
        """Compose and submit what is pending; rest if nothing is."""
        self._scheduled = False
        if self._busy is not None or self.gone or (self.execution is None and self.halting is None):
            return
        if self.halting is None and not self.cancel_pending():
            self.steps.start_due()
        advance = compose(self)
        if advance is None:
            if self.steps.held and self.halting is None:  # the commands that they waited for came to nothing
                self.steps.release()
                self.wake()
            else:
                self._rest()
            return
        self.agenda.stir()
        self._busy = advance
        self.worker.committer.submit(advance, self._committed)

    def _committed(self, outcome: Outcome) -> None:
        advance, self._busy = self._busy, None
        assert advance is not None
        if self.gone:
            return
        try:
            self._settle(advance, outcome)
        except Exception as error:
            # A fault of ours may not leave a run owned and forgotten.
            logger.exception("run %s could not go on", self.id, extra=self.extra())
            self.block(error)

    def _settle(self, advance: Advance, outcome: Outcome) -> None:
        if isinstance(outcome, Conflict):
            self._conflict(advance, outcome)
        elif isinstance(outcome, Lost):
            self.worker.lost(self, outcome.reason)
        elif isinstance(outcome, Exception):
            self._unwritable(outcome)
        else:
            self.worker.left(advance)
            if advance.end is not None:
                self.worker.ended(self, advance.end)
            elif advance.park is not None:
                self.worker.parked(self, advance.park)
            else:
                self._advanced(advance)

    def _advanced(self, advance: Advance) -> None:
        if advance.status:
            self.status = advance.status
        if advance.progress:
            self.suspect = False
            self.worker.suspects.cleared(self)
        for entry, data in zip(advance.entries, self._fed_values, strict=True):
            entry.value = data
        if advance.entries:
            self.sequence, self.time = advance.entries[-1].sequence, advance.entries[-1].time
        for row in advance.opened:
            self.worker.opened(self, row)
        self.worker.moved()
        if self.halting is not None:
            self.unfed.extend(advance.entries)
            self._start_begun()  # they count as begun from now on: whoever goes on would take them for in doubt
        elif not self._feed_all(advance.entries):
            return
        self.turn()

    def _feed_all(self, entries: list[Entry]) -> bool:
        """Feed entries that are durable now; False if that blocked the run."""
        for position, entry in enumerate(entries):
            if not self._feed(entry):
                # What follows is recorded and will be fed by whoever may go on.
                self.unfed.extend(entries[position + 1 :])
                return False
        self._collect()
        for entry in entries:
            if entry.kind == Kind.ATTEMPT:
                self.steps.try_again(entry.key)
        self._start_begun()
        self.steps.release()
        return True

    def _start_begun(self) -> None:
        starting, self.starting = self.starting, []
        for key in starting:
            self.steps.start_begun(key)

    def _feed(self, entry: Entry) -> bool:
        if self.journal is not None and not rebuild(self):
            return False
        execution = self.execution
        assert execution is not None
        with self.worker.driving(self):
            try:
                execution.feed(entry)
            except Exception as error:  # noqa: BLE001 - whatever it is blocks the run, never the worker
                self.block(error)
                return False
        self.note_ending(entry)
        if self.journal is not None:
            self.journal.append(entry)
        return True

    def note_ending(self, entry: Entry) -> None:
        """The grace for unwinding runs from the entry that ended the run."""
        of_the_run = entry.kind == Kind.EXPIRED and entry.note is not None and entry.note.name != "grace"
        if (entry.kind == Kind.CANCEL or of_the_run) and not self.agenda.grace_ends:
            self.agenda.grace_ends = entry.time + self.worker.options.cancel_grace

    def cancel_pending(self) -> bool:
        """Whether the run is told to cancel and its code does not know yet."""
        return bool(self.row.cancel_at) and self.execution is not None and not self.execution.ending

    def _collect(self) -> None:
        """Take what the code asked for: commands wait for the next turn, steps start unless they are held back."""
        execution = self.execution
        assert execution is not None
        for key in execution.dropped:
            self.steps.drop(key)
        execution.dropped.clear()
        for run_id in execution.orphans:
            self.worker.cancel_child(Cancel(run_id=run_id, by=f"run {self.id}", at=self.now()))
        execution.orphans.clear()
        if execution.ended is not None:
            self.steps.drop_all()
        for operation in execution.take():
            if operation.kind is not Kind.STEP:
                self.commands[operation.key] = None
            elif execution.ended is None:
                self.steps.ask(operation)
        self.steps.taken_up = False

    # ── trouble ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _conflict(self, advance: Advance, conflict: Conflict) -> None:
        """What others committed meanwhile made this advance impossible; nothing of it was written."""
        undo(self, advance, self._taken)
        self._taken = []
        if conflict.kind in ("send", "child"):
            kind = Kind.SENT if conflict.kind == "send" else Kind.CHILD
            keys = [entry.key for entry in advance.entries if entry.kind == kind]
            refused(self, keys[conflict.index], conflict)
            self.turn()
            return
        if conflict.kind == "consumed":
            self.worker.lost(self, "its inbox changed under it")
            return
        # A message is on its way: fetch it before anything else is decided.
        self.waiting_for_messages = conflict.kind == "answered"
        # Never above the row's counter: a message that comes later would then not keep the run from being parked.
        self.asked_for_messages = max(conflict.index if conflict.kind == "inbox" else 0, self.seen, 1)
        self.worker.inbox.look()

    def _unwritable(self, error: Exception) -> None:
        """The store can never write this advance (S17): the run stops and says why; its neighbours do not notice."""
        self.arrivals.clear()
        self.block(error)

    def block(self, error: BaseException) -> None:
        """Stop the run until a person, or another build of the code, moves it on. What runs may end and be recorded."""
        self.halting = blocking(error, self.execution, build=self.worker.build, at=self.now())
        level = logging.ERROR if not isinstance(error, Diverged) else logging.WARNING
        logger.log(level, "run %s is blocked: %s", self.id, error, extra=self.extra())
        if self.execution is not None:
            self.forget(self.execution)
            self.execution = None
        self.commands.clear()
        self.wake()

    def feed_recorded(self) -> None:
        """Feed what was recorded while the run was halting."""
        unfed, self.unfed = self.unfed, []
        if self._feed_all(unfed):
            self.wake()

    # ── resting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rest(self) -> None:
        if self.halting is not None:
            if not self.steps.running and not self._end_blocked(self.halting):
                self._let_go(self.halting)
            return
        execution = self.execution
        assert execution is not None
        if self.steps.running or self.waiting_for_messages:
            self.agenda.set_alarm()
            return
        if execution.stuck and not self.steps.retries:
            # Waiting for a thread that the code started is not waiting for nothing: it is a refused call.
            self.block(execution.loop.thread or stuck_error(self.id, execution))
            return
        rests_anew = self.agenda.rest()
        self.agenda.set_alarm()
        if rests_anew:
            self.worker.resting.add(self)

    def _end_blocked(self, park: Park) -> bool:
        """A blocked run whose cancellation is requested ends: its code cannot unwind."""
        if park.status != "blocked" or not self.row.cancel_at:
            return False
        self._busy = compose_cancelled(self)
        self.worker.committer.submit(self._busy, self._committed)
        return True

    def park(self, *, evict: bool) -> None:
        """Show that the run waits; with `evict`, let go of it too. Does nothing unless it rests."""
        if not self.agenda.resting_since or self._busy is not None or self._scheduled or self.gone or self.halting is not None:
            return
        wake_at = self.agenda.next_wake() or None
        if evict:
            self._let_go(Park(status="waiting", wake_at=wake_at))
        elif self.status != "waiting":
            self._busy = self._bare_advance()
            self._busy.status, self._busy.wake_at = "waiting", wake_at
            self.worker.committer.submit(self._busy, self._committed)

    def hand_back(self) -> None:
        """The worker drains: let attempts end, then leave the run to others."""
        if self.halting is None:
            resting = bool(self.agenda.resting_since)
            self.halting = (
                Park(status="waiting", wake_at=self.agenda.next_wake() or None) if resting else Park(status="queued", wake_at=0)
            )
            self.wake()

    def _let_go(self, park: Park) -> None:
        park.inbox = self.seen
        self.agenda.account()
        park.active = self.row.active
        advance = self._bare_advance()
        advance.park = park
        self.pausing.set_aside(advance, park)
        self._busy = advance
        self.worker.committer.submit(advance, self._committed)

    def _bare_advance(self) -> Advance:
        self._fed_values, self._taken = [], []
        return Advance(run=self.number, claim=self.claim, sequence=self.sequence, at=self.now())

    def composed(self, data: list[bytes | None], taken: list[Arrival]) -> None:
        """Keep what belongs to the advance that goes under way: the unpacked values of its entries, and where they came from."""
        self._fed_values = data
        self._taken = taken

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def drop(self) -> None:
        """Forget the run: it ended, was parked, or belongs to somebody else now."""
        self.gone = True
        self.steps.drop_all()
        self.agenda.cancel_alarm()
        if self.execution is not None:
            self.forget(self.execution)
            self.execution = None

    def forget(self, execution: Execution) -> None:
        """Drop an execution; a workflow that resists is not evicted again."""
        resisting = execution.drop()
        if resisting:
            self.worker.resting.unevictable.add(self.row.workflow)
            logger.warning(
                "%s of workflow %s cannot be closed: it catches everything and awaits again; this workflow is no longer evicted",
                ", ".join(resisting), self.row.workflow, extra=self.extra(),
            )  # fmt: skip

    def extra(self) -> dict[str, Any]:
        """Fields for log records."""
        return {"perdure_run": self.id, "perdure_workflow": self.row.workflow}

    def open_command(self, key: str) -> Operation | None:
        """The command under a key, if it is not recorded yet."""
        operation = self.execution.operations.get(key) if self.execution is not None else None
        return operation if operation is not None and operation.kind is not Kind.STEP else None
