"""The journal's entries: what a run recorded, in the one order in which its code saw it.

An entry names what it completes (`kind` and `key`), when (`time`) and with which value. Entries are data: this module
may not know how they are stored or fed.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["JOURNAL_FORMAT", "Entry", "Kind", "Note"]

JOURNAL_FORMAT = 1
"""The version of the journal's meaning, written into every `started` entry."""


class Kind(StrEnum):
    """What an entry records. The text is stored, so it never changes its meaning."""

    STARTED = "started"  # first claim: the random seed, format and code version
    STEP = "step"  # a step's outcome
    ATTEMPT = "attempt"  # a failed attempt that will be retried
    BEGUN = "begun"  # an attempt is about to run (once steps, and runs suspected of killing their worker)
    TIMER = "timer"  # a timer fired
    SIGNAL = "signal"  # a message reached the run
    OPENED = "opened"  # a promise or ask was opened
    RESOLVED = "resolved"  # a promise or ask got its outcome
    CHILD = "child"  # a child run was started
    CHILD_ENDED = "child_ended"  # a child run ended
    SENT = "sent"  # a message was sent to another run
    REPLIED = "replied"  # a message was replied to
    PUBLISHED = "published"  # a value was published
    PATCHED = "patched"  # a code change was recorded as taken
    CANCEL = "cancel"  # cancellation was requested
    EXPIRED = "expired"  # the run's own timeout, deadline or cancel grace was reached


# The letters under which a note's facts are stored, once per entry. They never change their meaning.
_LETTERS = {
    "attempt": "a", "retry_at": "r", "digest": "d", "arguments": "p", "deadline": "l", "worker": "w", "claim": "c", "seed": "s",
    "version": "v", "python": "i", "format": "f", "name": "n", "by": "b", "subject": "o", "began": "t",
}  # fmt: skip


class Note(msgspec.Struct, omit_defaults=True, gc=False, rename=_LETTERS):
    """The small facts of an entry beside its value. Each kind uses some of them; unset ones are not stored."""

    attempt: int = 0  # STEP, ATTEMPT, BEGUN: which attempt, from 1
    retry_at: int = 0  # ATTEMPT: when the next one starts, µs since the epoch
    digest: bytes = b""  # commands and steps: digest of the arguments that count
    arguments: bytes = b""  # commands and steps: the packed arguments, kept for people
    deadline: int = 0  # TIMER, OPENED: when it was due, µs since the epoch
    worker: int = 0  # BEGUN: the incarnation whose attempt it was
    claim: int = 0  # BEGUN: the claim under which it ran
    seed: bytes = b""  # STARTED: the run's random seed
    version: str = ""  # STARTED: the workflow's declared version
    python: str = ""  # STARTED: the interpreter that began the run
    format: int = 0  # STARTED: JOURNAL_FORMAT
    name: str = ""  # SIGNAL, SENT: the message's name; RESOLVED: how (answered, rejected, expired, cancelled)
    by: str = ""  # SIGNAL, RESOLVED, CANCEL: who
    subject: str = ""  # ids: the promise, the child run, the receiving run, the message to reply to
    began: int = 0  # STEP: when the body began, µs since the epoch


class Entry(msgspec.Struct, gc=False):
    """One line of a journal."""

    sequence: int  # from 1, without gaps
    kind: str
    key: str
    time: int  # µs since the epoch, never below the entry before
    value: bytes | None = None  # a packed payload
    failed: bool = False  # the value is an error
    note: Note | None = None
