"""Messages to and between runs: durable, buffered until they are received, each received once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from perdure.context import inside
from perdure.core.codec import natural_encode, schema_of
from perdure.core.duration import microseconds
from perdure.core.entry import Kind
from perdure.core.errors import NotRestorable, WrongContext
from perdure.core.execution import Execution
from perdure.core.mail import Mail
from perdure.core.operation import ReplyRequest, SendRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from typing_extensions import TypeForm

    from perdure.core.duration import Duration
    from perdure.core.loop import RunFuture

__all__ = ["Message", "receive", "send"]

T = TypeVar("T")


class Message(Generic[T]):
    """A message that reached the run."""

    def __init__(self, mail: Mail, value: T, execution: Execution) -> None:
        self.name = mail.name
        self.value = value
        self.sender = mail.by or None
        self._uid = mail.uid
        self._execution = execution

    def reply(self, value: Any) -> Awaitable[None]:
        """Answer a message that was sent by `handle.request`. Await it."""
        execution = inside("reply()")
        if not self._uid:
            raise WrongContext(f"message {self.name!r} has no address to reply to", run=execution.facts.id)
        request = ReplyRequest(uid=self._uid, value=natural_encode(value, where=f"reply to {self.name}"))
        return execution.command(Kind.REPLIED, "reply", request, describe=(self.name,))

    def __repr__(self) -> str:
        return f"<message {self.name} {self.value!r}>"


@overload
async def receive(*names: str, timeout: Duration | None = None) -> Message[Any]: ...
@overload
async def receive(*names: str, schema: TypeForm[T], timeout: Duration | None = None) -> Message[T]: ...
async def receive(*names: str, schema: Any = Any, timeout: Duration | None = None) -> Message[Any]:
    """Wait for the next message of one of these names; messages that came before are kept and given first.

    `schema` is the type of its value. Raises `TimeoutError` when `timeout` passes, and `NotRestorable` for a message that does
    not fit the schema.
    """
    execution = inside("receive()")
    if not names:
        raise ValueError("receive() needs at least one message name")
    limit = microseconds(timeout, "timeout of receive()") if timeout is not None else None
    mail = execution.receive(frozenset(names))
    if not isinstance(mail, Mail):
        mail = await _next(execution, mail, names, limit)
    try:
        value = schema_of(schema, where=f"message {mail.name}").decode(mail.data)
    except NotRestorable as error:
        error.hint = "the message is consumed: catch NotRestorable to wait for the next one, or name a schema that it fits"
        raise
    return Message(mail, value, execution)


async def _next(execution: Execution, waiter: RunFuture, names: tuple[str, ...], limit: int | None) -> Mail:
    timer = None
    if limit is not None:
        error = TimeoutError(f"no message {' or '.join(names)} came in time")
        timer = execution.loop.set_timer(execution.loop.now + limit, "receive", _expire, waiter, error)
    try:
        mail: Mail = await waiter
    except asyncio.CancelledError:
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            execution.mail.appendleft(waiter.result())  # it was given to us in the instant of the cancellation
        raise
    else:
        return mail
    finally:
        if timer is not None:
            timer.cancel()
        execution.forget(waiter)


def _expire(waiter: RunFuture, error: TimeoutError) -> None:
    if not waiter.done():
        waiter.set_exception(error)


def send(run_id: str, name: str, value: Any = None) -> Awaitable[None]:
    """Send a message to another run, from inside a run. Await it.

    Recorded with the sending itself, so it is sent once. Raises `UnknownRun` or `RunEnded` where it is awaited.
    """
    execution = inside("send()")
    data = natural_encode(value, where=f"message {name}")
    return execution.command(
        Kind.SENT, "send", SendRequest(run_id=str(run_id), name=name, value=data), describe=(run_id, name, value)
    )
