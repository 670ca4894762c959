"""The app: the composition root. It opens the store, hosts a worker if wanted, and has the verbs for everyone outside of runs."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure import arguments, isolation, logs
from perdure.announcing import announce
from perdure.build import build_of
from perdure.call import Call, WorkflowCall
from perdure.core import stdlib
from perdure.core.codec import encode_error, natural_encode, validate
from perdure.core.duration import SECOND, microseconds
from perdure.core.errors import (
    ConfigurationError,
    InvalidAnswer,
    NotStorable,
    PerdureError,
    StoreError,
    UnknownWait,
    UnknownWorkflow,
    WrongContext,
)
from perdure.core.status import Status
from perdure.gate import Gate
from perdure.handle import Handle
from perdure.importing import stop_programs
from perdure.listing import OpenPromise, Page, RunInfo, WorkerInfo
from perdure.location import resolve, store_for
from perdure.registry import definitions, unknown_workflow
from perdure.runtime.clock import SystemClock
from perdure.runtime.options import WorkerOptions
from perdure.runtime.process import Process
from perdure.runtime.worker import Worker
from perdure.stores.base import Filter, Start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from perdure.core.duration import Duration
    from perdure.runtime.clock import Clock
    from perdure.stores.base import Store
    from perdure.stores.rows import PromiseRow

__all__ = ["App"]

R = TypeVar("R")
logger = logging.getLogger("perdure.app")

ENTER_AGAIN = SECOND
"""How long a fenced process waits before it tries to enter the store again."""

IF_EXISTS = ("return", "reject", "replace", "retry_failed")


class App:
    """Opens a store and hosts a worker in this process.

    `url` names the store (default: `$PERDURE_URL`, else `sqlite:///perdure.db`). `worker=False` only starts, sends, asks and
    observes. `workflows` narrows down what the worker runs (default: all that are defined). `public_url` and `secret` make the
    addresses of promises. `drain` is how long `close()` lets steps finish. The rest is for tuning: `lease` (how long a silent
    worker is believed to live), `residency` (how long a waiting run stays in memory), `cancel_grace` (how long a cancelled run
    may unwind), `payload_cap` (the largest value in bytes), `threads` (for `def` steps).

    Constructing does no I/O. Use `async with App(...) as app`, or `await app.open()` and `await app.close()`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        worker: bool = True,
        workflows: Iterable[Any] | None = None,
        public_url: str = "",
        secret: str = "",
        drain: Duration = "30s",
        lease: Duration = "10s",
        residency: Duration = "5s",
        cancel_grace: Duration = "30s",
        payload_cap: int = 16 * 1024 * 1024,
        threads: int = 16,
    ) -> None:
        self.url = resolve(url)
        self.definitions = definitions if workflows is None else definitions.only(workflows)
        self._hosts_worker = worker
        self._options = WorkerOptions(
            lease=arguments.positive(microseconds(lease, "lease"), "lease"),
            residency=microseconds(residency, "residency"),
            cancel_grace=microseconds(cancel_grace, "cancel_grace"),
            drain=microseconds(drain, "drain"),
            payload_cap=arguments.positive(payload_cap, "payload_cap"),
            threads=arguments.positive(threads, "threads"),
            public_url=public_url,
            secret=secret,
        )
        self._only = 0  # the one run that an isolated process may claim
        self._reentering: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._worker: Worker | None = None
        self._gate: Gate | None = None

    # ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> Self:
        """Open the store and begin to work. Raises a `StoreError` that says what is wrong; nothing was changed then."""
        if self._process is not None:
            raise WrongContext("this App is open already", hint="close it first, or make another App")
        stop_programs()
        stdlib.install()
        logs.install()
        self._warn_of_memory()
        self._gate = Gate(await self._enter(None), self._worker, self.definitions)
        if self._worker is not None:
            self._worker.take()
        return self

    async def _enter(self, before: Process | None) -> Process:
        """Take a place in the store, with a worker if this app hosts one."""
        process = Process(
            before.store if before is not None else self._make_store(),
            self._make_clock(),
            self._options,
            role="client" if not self._hosts_worker else "isolated" if self._only else "worker",
            build=build_of({definition.fn.__module__ for definition in self.definitions.all()}),
            version=_version(),
            workflows=self.definitions.names() if self._hosts_worker else [],
            threads=self._uses_threads(),
            before=before,
        )
        await process.open()
        process.on_fenced.append(partial(self._on_fenced, process))
        self._process = process
        if self._hosts_worker:
            former, self._worker = self._worker, Worker(process, self.definitions)
            if before is not None and former is not None:
                self._worker.succeed(former)
            else:
                self._furnish(self._worker)
        return process

    def _furnish(self, worker: Worker) -> None:
        if self._uses_threads() and not self._in_memory and not self._only:
            worker.isolate = isolation.isolating(self.url, self.definitions)
        worker.only = self._only
        worker.on_opened.append(partial(announce, self.url))

    def _on_fenced(self, process: Process) -> None:
        """Others took this process for dead. Its runs are theirs now; it goes on as a newcomer."""
        if process is self._process:
            self._reentering = asyncio.get_running_loop().create_task(self._reenter(process))

    async def _reenter(self, old: Process) -> None:
        """Enter anew, however long that takes. Nothing may end this silently: without it the process would own nothing more."""
        await old.retire()
        while self._process is old and self._gate is not None:
            try:
                process = await self._enter(old)
            except Exception as error:
                logger.warning("the store cannot be entered again yet: %s", error, exc_info=not isinstance(error, StoreError))
                await old.clock_passes(ENTER_AGAIN)
            else:
                logger.info("this process goes on as worker %d", process.number, extra={"perdure_worker": process.number})
                self._gate.connect(process, self._worker)
                if self._worker is not None:
                    self._worker.take()

    async def close(self) -> None:
        """Stop: claim nothing more, let steps finish within `drain`, hand runs back. Parked runs are not waited for."""
        if self._reentering is not None:
            self._reentering.cancel()
            await asyncio.wait([self._reentering])
            self._reentering = None
        process, worker, gate = self._process, self._worker, self._gate
        self._process = self._worker = self._gate = None
        if gate is not None:
            gate.disconnect()
        if process is None:
            return
        try:
            if worker is not None:
                await worker.drain(self._options.drain)
            await process.close()
        finally:
            if gate is not None:
                gate.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _make_store(self) -> Store:
        return store_for(self.url)

    def _make_clock(self) -> Clock:
        return SystemClock(asyncio.get_running_loop())

    def _uses_threads(self) -> bool:
        return True

    def _warn_of_memory(self) -> None:
        if self._in_memory:
            logger.warning("runs kept in :memory: end with the process; it is meant for tests (perdure.testing.TestApp)")

    @property
    def _in_memory(self) -> bool:
        return ":memory:" in self.url or self.url in ("sqlite://", "sqlite:///")

    @property
    def gate(self) -> Gate:
        """The way to the store. Raises `WrongContext` when the app is not open."""
        if self._gate is None:
            raise WrongContext("this App is not open", hint="use it inside `async with App(...) as app:`")
        return self._gate

    # ── starting ────────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    async def start(
        self,
        call: WorkflowCall[R],
        *,
        id: str | None = None,
        tags: Iterable[str] = (),
        priority: int = 0,
        delay: Duration | None = None,
        if_exists: str = "return",
        send: tuple[str, Any] | None = None,
    ) -> Handle[R]: ...
    @overload
    async def start(
        self,
        call: str,
        *,
        args: Mapping[str, Any] | Sequence[Any] = (),
        id: str | None = None,
        tags: Iterable[str] = (),
        priority: int = 0,
        delay: Duration | None = None,
        if_exists: str = "return",
        send: tuple[str, Any] | None = None,
    ) -> Handle[Any]: ...
    async def start(
        self,
        call: WorkflowCall[Any] | str,
        *,
        args: Mapping[str, Any] | Sequence[Any] = (),
        id: str | None = None,
        tags: Iterable[str] = (),
        priority: int = 0,
        delay: Duration | None = None,
        if_exists: str = "return",
        send: tuple[str, Any] | None = None,
    ) -> Handle[Any]:
        """Start a run: durable when this returns.

        `call` is a workflow's call, or the workflow's name with `args` (by parameter name, or in order), for processes that do
        not import it. The same `id` again is the same run: `if_exists` says what to do then: `return` it (with other arguments:
        `DuplicateRun`), `reject`, `replace` it, or `retry_failed`. `delay` puts the start off; of runs that are due at the same
        time, those of a higher `priority` are taken up first. `tags` are found by `runs(tag=)`. `send=(name, value)` leaves a
        first message in the same transaction, for a run that exists too.

        A name is known if this process defines the workflow, or if a worker on this store runs it or ever did; the run then
        waits for such a worker. Another name is `UnknownWorkflow`, except in a client (`worker=False`) on a store that has never
        had a worker: there nothing can tell what workers will know, and the run waits for one that does.

        Raises `DuplicateRun`, `UnknownWorkflow`, `NotStorable`, `StoreError`.
        """
        gate = self.gate
        if if_exists not in IF_EXISTS:
            raise ConfigurationError(f"if_exists must be one of {', '.join(IF_EXISTS)}, not {if_exists!r}")
        change = Start(id=arguments.run_id(id), workflow="", input=b"", digest=b"", at=gate.now(), if_exists=if_exists)
        change.tags, change.priority = arguments.tags(tags), arguments.priority(priority)
        if isinstance(call, str):
            definition, data = await self._by_name(call, args)
            change.workflow = definition.name if definition is not None else call
        elif isinstance(call, WorkflowCall):
            definition = call.definition
            data = definition.arguments.encode(call.args, call.kwargs)
            call.use()
            change.workflow = definition.name
        else:
            raise _not_a_call(call)
        change.due_at = change.at + (microseconds(delay, "delay") if delay is not None else 0)
        if definition is not None:
            change.version = definition.version
            change.deadline_at = change.due_at + definition.deadline if definition.deadline else 0
        gate.packed_input(change, data)
        if send is not None:
            message, blobs = gate.signal(*send, uid="")
            change.messages.append(message)
            change.blobs.extend(blobs)
        started = await gate.start(change)
        if started.created and change.due_at > change.at and self._worker is not None:
            self._worker.dues.add(change.due_at)
        schema = definition.schema if definition is not None else None
        return Handle(gate, change.id, started.run.number, schema)

    async def _by_name(self, name: str, args: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, bytes]:
        definition = self.definitions.workflow(name) or definitions.workflow(name)
        positional, named = ((), dict(args)) if hasattr(args, "keys") else (tuple(args), {})
        if definition is not None:
            return definition, definition.arguments.encode(positional, named)
        served = await self.gate.served(name)
        if name not in served and (served or self._hosts_worker):
            raise unknown_workflow(name, {*served, *self.definitions.names()})
        return None, natural_encode(list(positional) if positional else named, where=f"arguments of {name}")

    @overload
    async def run(self, call: WorkflowCall[R], **options: Any) -> R: ...
    @overload
    async def run(self, call: str, **options: Any) -> Any: ...
    async def run(self, call: Any, **options: Any) -> Any:
        """Start a run and wait for its result. Takes the options of `start`."""
        return await (await self.start(call, **options)).result()

    def handle(self, id: str) -> Handle[Any]:
        """A handle on the run with this id. Makes no query: an unknown id shows at the first use."""
        return Handle(self.gate, str(id))

    # ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def runs(
        self,
        *,
        status: Status | str | Iterable[Status | str] | None = None,
        workflow: str = "",
        tag: str | Iterable[str] = (),
        id_prefix: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[RunInfo]:
        """A page of runs, newest first. `after` is the `next` of the page before.

        `since` and `until` limit the time of creation; several tags must all be there.
        """
        if limit < 1:
            raise ConfigurationError(f"limit must be at least 1, not {limit}")
        wanted = Filter(
            statuses=arguments.statuses(status),
            workflow=workflow,
            tags=arguments.tags((tag,) if isinstance(tag, str) and tag else tag or ()),
            id_prefix=id_prefix,
            created_from=arguments.stamp(since),
            created_until=arguments.stamp(until),
            before=arguments.page_start(after),
            limit=limit + 1,
        )
        store = self.gate.store
        rows = await self.gate.read(lambda: store.list_runs(wanted))
        more = rows[limit - 1].number if len(rows) > limit else None
        return Page([RunInfo.of(row) for row in rows[:limit]], str(more) if more is not None else None)

    async def count(self) -> dict[str, int]:
        """How many runs there are, per status."""
        return await self.gate.read(self.gate.store.count_runs)

    async def workers(self, *, live_only: bool = True) -> list[WorkerInfo]:
        """Processes with an app on this store."""
        store = self.gate.store
        return [WorkerInfo.of(row) for row in await self.gate.read(lambda: store.workers(live_only=live_only))]

    # ── people and the outside world ────────────────────────────────────────────────────────────────────────────────

    async def inbox(self, *, to: str = "", limit: int = 100, after: str | None = None) -> Page[OpenPromise]:
        """Open asks, oldest first: what waits for a person. `after` is the `next` of the page before."""
        store = self.gate.store
        rows = await self.gate.read(lambda: store.promises(kind="ask", to=to, after=after or "", limit=limit + 1))
        more = rows[limit - 1].id if len(rows) > limit else None
        return Page([OpenPromise.of(row) for row in rows[:limit]], more)

    async def answer(self, id: str, value: Any, *, by: str = "") -> None:
        """Answer an ask. Raises `InvalidAnswer` (nothing is changed), `AlreadyResolved`, `UnknownWait`."""
        await self.resolve(id, value, by=by)

    async def decline(self, id: str, reason: str = "", *, by: str = "") -> None:
        """Refuse to answer an ask: awaiting it raises `PermissionError` with the reason."""
        await self.reject(id, PermissionError(reason or "the question was declined"), by=by)

    async def resolve(self, id: str, value: Any, *, by: str = "") -> None:
        """Complete a promise with a value. Raises `InvalidAnswer`, `AlreadyResolved`, `UnknownWait`."""
        try:
            data = natural_encode(value)
        except NotStorable as error:
            raise InvalidAnswer(f"the answer cannot be stored: {error.message}", hint="answer with JSON data") from error
        await self._check_answer(id, data)
        await self.gate.answer(id, "answered", data, failed=False, by=by)

    async def reject(self, id: str, error: BaseException | str, *, by: str = "") -> None:
        """Complete a promise with an error: awaiting it raises it. Raises `AlreadyResolved`, `UnknownWait`."""
        problem = error if isinstance(error, BaseException) else RuntimeError(error)
        await self._promise(id)
        await self.gate.answer(id, "rejected", encode_error(problem), failed=True, by=by)

    async def _promise(self, id: str) -> PromiseRow:
        store = self.gate.store
        row = await self.gate.read(lambda: store.promise(id))
        if row is None:
            open_now = await self.gate.read(lambda: store.promises(limit=5))
            listed = ", ".join(each.id for each in open_now)
            raise UnknownWait(
                f"no ask or promise has the id {id!r}",
                hint=f"open now: {listed}" if listed else "nothing is open: see perdure inbox",
            )
        return row

    async def _check_answer(self, id: str, data: bytes) -> None:
        row = await self._promise(id)
        promise = OpenPromise.of(row)
        # One that is closed is refused for that, whatever is answered.
        problems = validate_answer(data, promise.schema) if promise.state == "open" else []
        if problems:
            raise InvalidAnswer(
                f"the answer does not fit {promise.question or promise.name!r}: {'; '.join(problems)}",
                run=promise.run,
                hint=f"it must fit {row.schema}",
            )

    @property
    def worker(self) -> Worker | None:
        """The worker in this process, if one is hosted."""
        return self._worker


def validate_answer(data: bytes, schema: dict[str, Any]) -> list[str]:
    """What is wrong with an answer, one sentence each."""
    import msgspec

    return validate(msgspec.json.decode(data), schema) if schema else []


def _not_a_call(call: Any) -> PerdureError:
    if isinstance(call, Call):
        return WrongContext(
            f"{call!r} is a step's call, and only workflows are started", hint="call the step inside a workflow"
        )
    if asyncio.iscoroutine(call):
        call.close()
    return UnknownWorkflow(
        f"app.start() was given {type(call).__name__}, not a workflow's call",
        hint="decorate the function with @workflow and call it",
    )


def _version() -> str:
    from perdure import __version__

    return __version__
