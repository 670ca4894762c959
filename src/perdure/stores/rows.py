"""What a store keeps, as plain rows: runs, inbox messages, promises, workers. No behaviour, no SQL."""

from __future__ import annotations

import msgspec

__all__ = ["Blocked", "Claimed", "InboxKind", "Message", "PromiseRow", "PublishedRow", "RunRow", "Suspect", "WorkerRow"]


class Blocked(msgspec.Struct, omit_defaults=True):
    """Why a run is blocked: the two sides of a divergence, or the call that was refused, with the place in the code."""

    code: str
    reason: str
    hint: str = ""
    recorded: list[str] = msgspec.field(default_factory=list)
    asked: list[str] = msgspec.field(default_factory=list)
    where: str = ""
    build: str = ""
    at: int = 0


class RunRow(msgspec.Struct, kw_only=True):
    """One run as its row says. Times are µs since the epoch; 0 or None means never."""

    number: int  # never reused
    id: str
    workflow: str
    status: str
    version: str = ""
    input: bytes = b""  # packed arguments
    digest: bytes = b""  # of the arguments, to tell a duplicate from another call
    tags: list[str] = msgspec.field(default_factory=list)
    priority: int = 0
    created_at: int = 0
    started_at: int = 0  # the first claim
    ended_at: int = 0
    due_at: int | None = None  # when a worker may claim it; None: nothing to do
    deadline_at: int = 0  # absolute wall deadline of the run
    active: int = 0  # µs spent not parked, for the run's `timeout`
    owner: int = 0  # the worker that holds it, 0 for none
    claim: int = 0  # raised by each claim
    sequence: int = 0  # the last entry's
    inbox: int = 0  # raised by each message from outside
    crashes: int = 0  # deaths of its worker since its last entry of progress
    recoveries: int = 0  # takeovers in all
    cancel_at: int = 0  # when cancellation was requested
    parent: int = 0
    parent_key: str = ""
    detached: bool = False
    result: bytes | None = None  # packed result or error
    failed: bool = False  # `result` is an error
    blocked: Blocked | None = None
    blocked_builds: list[str] = msgspec.field(default_factory=list)


class InboxKind:
    """What a message in a run's inbox asks for. The text is stored."""

    SIGNAL = "signal"
    RESOLVED = "resolved"
    CHILD_ENDED = "child_ended"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"


class Message(msgspec.Struct, kw_only=True):
    """One inbox row: what somebody outside left for a run's owner."""

    number: int  # grows in commit order
    run: int
    kind: str
    name: str = ""  # signal: its name; resolved: how; child_ended: the child's status
    key: str = ""  # resolved, child_ended: the operation it completes
    value: bytes | None = None
    failed: bool = False
    by: str = ""
    uid: str = ""  # the sender's idempotency id, also the address of a reply
    at: int = 0


class Claimed(msgspec.Struct, kw_only=True):
    """A run that has just been claimed, with all messages waiting for it, oldest first."""

    run: RunRow
    messages: list[Message] = msgspec.field(default_factory=list)


class PromiseRow(msgspec.Struct, kw_only=True):
    """A promise, or an ask when it has a `question`. `schema` is a JSON Schema as text."""

    id: str
    run: int
    key: str
    kind: str = "promise"  # promise | ask
    name: str = ""
    question: str = ""
    to: str = ""
    schema: str = ""
    state: str = "open"  # open | answered | rejected | expired | cancelled
    opened_at: int = 0
    deadline: int = 0
    resolved_at: int = 0
    by: str = ""
    problem: str = ""  # why the last answer was sent back
    run_id: str = ""  # filled when read
    workflow: str = ""  # filled when read


class PublishedRow(msgspec.Struct, kw_only=True):
    """A value that a run published under a key; the newest one stands."""

    key: str
    value: bytes
    at: int


class Suspect(msgspec.Struct):
    """A run that was running when its worker died, and that has recorded nothing since."""

    number: int
    id: str
    workflow: str
    crashes: int


class WorkerRow(msgspec.Struct, kw_only=True):
    """One start of a process with an app. `number` is its incarnation and is never reused."""

    number: int
    name: str = ""
    host: str = ""
    pid: int = 0
    build: str = ""
    version: str = ""
    role: str = "worker"  # worker | client | isolated
    workflows: list[str] = msgspec.field(default_factory=list)  # names that it runs
    started_at: int = 0
    seen_at: int = 0
    lease_until: int = 0
    ended_at: int = 0
    end: str = ""  # closed | dead (proven) | expired (only its lease ran out)
    runs: int = 0  # filled when read: runs it owns
