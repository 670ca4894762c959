"""A worker for tests of stores: commits changes with a clock and batch numbers of its own, keeps track of what it owns."""

import itertools

from perdure.core.entry import Entry, Note
from perdure.stores.base import Advance, Answer, Batch, Cancel, Claim, Lost, Pause, Resume, Send, Start, Takeover
from perdure.stores.rows import InboxKind, Message, PromiseRow, WorkerRow

LEASE = 1_000


class Owned:
    """A claimed run as its owner knows it."""

    def __init__(self, claimed):
        self.row = claimed.run
        self.number = claimed.run.number
        self.id = claimed.run.id
        self.claim = claimed.run.claim
        self.sequence = claimed.run.sequence
        self.inbox = claimed.run.inbox
        self.messages = claimed.messages


class Hand:
    def __init__(self, store, *, at=100, build="b1", lease=LEASE, **row):
        self.store = store
        self.at = at
        self.build = build
        self.lease = lease
        self.batches = itertools.count(1)
        self.number = store.enter(WorkerRow(number=0, build=build, started_at=at, lease_until=at + lease, **row))

    def commit(self, *changes, number=None):
        batch = Batch(
            worker=self.number,
            number=number or next(self.batches),
            lease_until=self.at + self.lease,
            at=self.at,
            changes=list(changes),
        )
        return self.store.commit(batch)

    def do(self, change):
        [outcome] = self.commit(change)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def start(self, id="run", **options):
        return self.do(self.a_start(id, **options)).run

    def a_start(self, id="run", **options):
        return Start(**{"id": id, "workflow": "flow", "input": b"in", "digest": b"same", "at": self.at} | options)

    def claim(self, limit=10, **options):
        options.setdefault("build", self.build)
        claim = Claim(**{"at": self.at, "limit": limit, "started": Note(seed=b"seed", format=1)} | options)
        return [Owned(claimed) for claimed in self.do(claim)]

    def take(self, id="run", **options):
        """Start a run and claim it."""
        run = self.start(id, **options)
        [owned] = self.claim(only=run.number)
        return owned

    def an_advance(self, owned, steps=0, **options):
        after = owned.sequence
        written = [Entry(after + n, "step", f"step#{after + n}", self.at, b"value") for n in range(1, steps + 1)]
        return Advance(
            **{"run": owned.number, "claim": owned.claim, "sequence": after, "entries": written, "at": self.at} | options
        )

    def advance(self, owned, steps=0, **options):
        outcome = self.do(self.an_advance(owned, steps, **options))
        if outcome is None:
            owned.sequence += steps
        return outcome

    def send(self, run_id="run", name="message", **message):
        return self.do(a_send(run_id, name, **message))

    def answer(self, id, state="answered", value=b"yes", **options):
        return self.do(
            Answer(**{"id": id, "state": state, "value": value, "failed": False, "by": "ann", "at": self.at} | options)
        )

    def cancel(self, run_id="run", **options):
        return self.do(Cancel(run_id=run_id, by="ann", at=self.at, **options))

    def pause(self, run_id="run"):
        return self.do(Pause(run_id=run_id, by="ann", at=self.at))

    def resume(self, run_id="run"):
        return self.do(Resume(run_id=run_id, by="ann", at=self.at))

    def take_over(self, worker, *, proven=True):
        return self.do(Takeover(worker=worker, proven=proven, at=self.at))

    def leave(self):
        self.store.leave(self.number, self.at)


def a_send(run_id="run", name="message", **message):
    message = Message(**{"number": 0, "run": 0, "kind": InboxKind.SIGNAL, "name": name} | message)
    return Send(run_id=run_id, message=message)


def a_promise(id, key="ask#1", **options):
    return PromiseRow(id=id, run=0, key=key, **options)


def is_lost(outcome):
    return isinstance(outcome, Lost)
