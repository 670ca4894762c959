"""Promises and asks: durable futures that somebody outside resolves, and those that put a question to a person."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from perdure.context import inside
from perdure.core.codec import schema_of
from perdure.core.duration import microseconds
from perdure.core.operation import PromiseRequest, Wait

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from perdure.core.duration import Duration

__all__ = ["Promise", "ask", "promise"]

T = TypeVar("T")
NO_DEFAULT: Any = object()


class Promise(Awaitable[T], Generic[T]):
    """A durable future. It is open from the moment in which it is made; awaiting it any number of times is fine."""

    def __init__(self, wait: Wait, link: str) -> None:
        self._wait = wait
        self._link = link

    @property
    def id(self) -> str:
        """What `app.answer`, `app.resolve` and `perdure answer` take."""
        return self._wait.id

    @property
    def url(self) -> str:
        """Where it can be answered, when the app has a `public_url`."""
        return self._link

    @property
    def done(self) -> bool:
        """Whether it has its outcome."""
        return self._wait.done

    @property
    def answered_by(self) -> str | None:
        """Who answered; `default` if time ran out and there was a default; None as long as it is open."""
        return self._wait.by or None

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait.__await__()

    def __repr__(self) -> str:
        return f"<promise {self.id} {'done' if self.done else 'open'}>"


def _open(
    kind: str, name: str, schema: Any, timeout: Duration | None, *, question: str = "", to: str = "", default: Any = NO_DEFAULT
) -> Promise[Any]:
    execution = inside(f"{kind}()")
    loop = execution.loop
    key = loop.scope().key(kind if kind == "ask" else f"promise:{name}")
    digest = hashlib.blake2b(key.encode(), key=execution.facts.identity[:64], digest_size=10).digest()
    promise_id = f"{kind}-{base64.b32encode(digest).decode().lower()}"
    deadline = loop.now + microseconds(timeout, f"timeout of {kind}()") if timeout is not None else 0
    request = PromiseRequest(
        id=promise_id,
        kind=kind,
        name=name,
        question=question,
        to=to,
        schema=schema_of(schema, where=f"answer to {name!r}"),
        deadline=deadline,
        has_default=default is not NO_DEFAULT,
        default=default,
    )
    # The deadline depends on the time, the rest is what the code says: only that must be the same on replay.
    wait = execution.promise(request, key, (name, to))
    return Promise(wait, execution.facts.link(promise_id))


@overload
def promise(name: str, *, timeout: Duration | None = None) -> Promise[Any]: ...
@overload
def promise(name: str, *, schema: TypeForm[T], timeout: Duration | None = None) -> Promise[T]: ...
def promise(name: str, *, schema: Any = Any, timeout: Duration | None = None) -> Promise[Any]:
    """Open a promise: `app.resolve(promise.id, value)` or `app.reject(promise.id, error)` completes it.

    `schema` is the type of its value. Awaiting one whose `timeout` passes raises `TimeoutError`.
    """
    return _open("promise", name, schema, timeout)


@overload
def ask(question: str, *, to: str = "", timeout: Duration | None = None, default: bool = ...) -> Promise[bool]: ...
@overload
def ask(
    question: str, *, schema: TypeForm[T], to: str = "", timeout: Duration | None = None, default: T = ...
) -> Promise[T]: ...
def ask(
    question: str, *, schema: Any = bool, to: str = "", timeout: Duration | None = None, default: Any = NO_DEFAULT
) -> Promise[Any]:
    """Put a question to a person. It is shown in the inbox until it is answered.

    `schema` is the type of the answer, `to` says who should answer. When `timeout` passes, the answer is `default`; without a
    default awaiting it raises `TimeoutError`.
    """
    return _open("ask", question, schema, timeout, question=question, to=to, default=default)
