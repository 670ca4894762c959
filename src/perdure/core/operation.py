"""What workflow code asked for and has not got yet: operations and waits. Data only; `core.execution` gives them meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .entry import Kind
from .loop import RunFuture

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Generator

    from .execution import Execution

__all__ = ["ChildRequest", "Operation", "PromiseRequest", "PublishRequest", "ReplyRequest", "SendRequest", "Wait"]


class Operation(RunFuture):
    """One keyed thing that was asked for. It is itself the future that its entry completes.

    A step is completed by its `step` entry. A command (start a child, open a promise, send, reply, publish, patch) changes
    something outside, and is completed by the entry that is committed together with that change.
    """

    __slots__ = (
        "arguments",
        "attempts",
        "begun",
        "context",
        "digest",
        "execution",
        "key",
        "kind",
        "name",
        "other_keys",
        "request",
        "retry_at",
    )

    def __init__(self, execution: Execution, kind: Kind, key: str, name: str, request: Any) -> None:
        super().__init__(loop=execution.loop)
        self.execution = execution
        self.kind = kind
        self.key = key
        self.name = name
        self.request = request
        self.digest = b""
        self.arguments = b""
        self.other_keys: tuple[str, ...] = ()  # under former names of a renamed step
        self.context: contextvars.Context | None = None
        self.attempts = 0  # failed ones that the journal knows
        self.retry_at = 0  # when the next attempt starts, µs; 0: at once
        self.begun: tuple[int, int] | None = None  # (worker, claim) of the attempt that the journal knows as begun

    def cancel(self, msg: Any = None) -> bool:
        """Called by asyncio when the task that waits for it is cancelled: the operation is abandoned."""
        if not super().cancel(msg):
            return False
        self.execution.abandon(self)
        return True


class Wait:
    """Something that ends later and may be awaited any number of times: a promise, an ask, a child run."""

    __slots__ = ("by", "done", "error", "execution", "id", "key", "kind", "value", "waiters")

    def __init__(self, execution: Execution, kind: Kind, key: str, id: str) -> None:
        self.execution = execution
        self.kind = kind
        self.key = key
        self.id = id
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.by = ""
        self.waiters: list[RunFuture] = []

    def resolve(self, value: Any, error: BaseException | None = None, by: str = "") -> None:
        """Give it its outcome and wake everyone who waits, in the order in which they began to."""
        self.done, self.value, self.error, self.by = True, value, error, by
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done:
            if self.execution.loop.dead:
                yield from self.execution.never()
            # Each awaiter has a future of its own: cancelling one must not take the outcome from the others.
            waiter = self.execution.loop.create_future()
            self.waiters.append(waiter)
            try:
                yield from waiter
            finally:
                if waiter in self.waiters:
                    self.waiters.remove(waiter)
        if self.error is not None:
            raise self.error
        return self.value


class PromiseRequest(msgspec.Struct, kw_only=True):
    """Open a promise or an ask."""

    id: str
    kind: str
    name: str
    question: str = ""
    to: str = ""
    schema: Any = None  # a codec Schema
    deadline: int = 0
    has_default: bool = False
    default: Any = None


class ChildRequest(msgspec.Struct, kw_only=True):
    """Start a child run."""

    id: str
    workflow: str
    input: bytes
    derived: bool = False  # the id follows from the parent's, nobody chose it
    detached: bool = False
    schema: Any = None  # how its result is restored
    deadline: int = 0  # µs of wall time from its start, 0 for none
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class SendRequest(msgspec.Struct, kw_only=True):
    """Send a message to another run."""

    run_id: str
    name: str
    value: bytes


class ReplyRequest(msgspec.Struct, kw_only=True):
    """Answer a message that was sent as a request."""

    uid: str
    value: bytes


class PublishRequest(msgspec.Struct, kw_only=True):
    """Show a value outside while the run goes on."""

    name: str
    value: bytes
