"""`TestApp`: an app for tests. Its store is in memory, its clock is virtual, and each wait is a crash test.

Runs are evicted at every park and replayed when they go on, and a step that is then asked for with other arguments than the
recorded ones is an error: so a `time.time()` in a workflow shows on its first run. The clock stands still while the test
works, and moves to the next deadline when everything is idle and the test waits for a result or an ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from perdure.app import App
from perdure.core.duration import microseconds
from perdure.core.errors import DefinitionError
from perdure.stores.base import Takeover

from .clock import VirtualClock
from .stubs import MISSING, Stub

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from perdure.core.duration import Duration
    from perdure.listing import OpenPromise
    from perdure.runtime.clock import Clock
    from perdure.stores.base import Store

__all__ = ["TestApp"]

logger = logging.getLogger("perdure.testing")

PATIENCE = 200
"""Passes after which a closing app no longer does without time."""

CALM_PASSES = 3
"""Passes of the event loop without anything happening after which everything counts as idle."""


class TestApp(App):
    """An app whose time is virtual.

    `replay_every_await=True` evicts and replays before every single entry instead of at every park: slower, and finds more.
    `strict=False` lets drift under unchanged code pass. Everything else is as for `App`.
    """

    __test__ = False  # pytest: this is no test class

    def __init__(
        self,
        url: str | None = None,
        *,
        workflows: Iterable[Any] | None = None,
        replay_every_await: bool = False,
        strict: bool = True,
        **options: Any,
    ) -> None:
        options.setdefault("residency", 0)
        super().__init__(url or "sqlite:///:memory:", workflows=workflows, lease="36500d", **options)
        self._options.replay_every_await = replay_every_await
        self._options.replay_at_park = strict
        self.clock = VirtualClock()
        self._kept: _KeptStore | None = None
        self._pilot: asyncio.Task[None] | None = None
        self._seekers: list[tuple[str, asyncio.Future[OpenPromise]]] = []
        self._stubs: dict[str, Stub] = {}

    # ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> Self:
        """Open the store and start the virtual clock."""
        await super().open()
        if self._worker is not None:
            self._worker.stubs = self._stubs
        self._pilot = asyncio.create_task(self._fly(), name="perdure-test-clock")
        return self

    async def close(self) -> None:
        """Stop everything at once."""
        if self._pilot is not None:
            self._pilot.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pilot
            self._pilot = None
        self._options.drain = 0
        closing = asyncio.ensure_future(super().close())
        passes = 0
        while not closing.done():
            # Nobody else moves the clock now, and the end of the drain is an alarm like others: without this, a step that
            # waits for something would hold up the end of the test for ever, and so would a batch that is to be tried again.
            self.clock.jump(self.clock.now() if passes < PATIENCE else None)
            passes += 1
            await asyncio.sleep(0)
        await closing
        if self._kept is not None:
            self._kept.really_close()

    async def crash(self) -> None:
        """Die and come back: as if the process had been killed here and started again.

        Steps under way are lost and run again; what was recorded stands.
        """
        process, worker = self._process, self._worker
        assert process is not None
        assert worker is not None
        dead = process.number
        worker.stop_at_once()
        process.abandon()
        self._process = self._worker = self._gate = None
        if self._pilot is not None:
            self._pilot.cancel()
        await self.open()
        process = self._process
        assert process is not None
        await process.committer.write(Takeover(worker=dead, proven=True, at=self.clock.now()))
        assert self._worker is not None
        self._worker.take()
        self._worker.suspects.look()  # as after every takeover: a run that saw too many deaths is set aside

    def _make_store(self) -> Store:
        if self._kept is None:
            self._kept = _KeptStore(super()._make_store())
        return self._kept

    def _make_clock(self) -> Clock:
        return self.clock

    def _uses_threads(self) -> bool:
        return False

    def _warn_of_memory(self) -> None:
        """Memory is what a test wants."""

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def advance(self, length: Duration) -> None:
        """Let a length of time pass, with everything that is due in it, in order."""
        target = self.clock.now() + microseconds(length, "advance")
        while True:
            await self.settle()
            if not self.clock.jump(target):
                break
        self.clock.advance_to(target)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing goes on any more: all runs are parked or ended, all steps are done."""
        calm = spins = 0
        while calm < CALM_PASSES:
            # Steps may do real I/O: after some quick looks there is no hurry.
            await asyncio.sleep(0 if spins < 200 else 0.001)
            spins += 1
            calm = calm + 1 if self._quiet() else 0

    def _quiet(self) -> bool:
        return self._gate is not None and self._gate.quiet

    async def _fly(self) -> None:
        """Move the clock whenever all is idle and somebody waits for what only time can bring."""
        warned = False
        while True:
            await self.settle()
            # Whoever looks for an ask looks first: time that passes might close it.
            if await self._serve_seekers() or not self._somebody_waits():
                await asyncio.sleep(0.0005)
                continue
            if self.clock.jump():
                warned = False
                continue
            if not warned:
                warned = True
                logger.warning(
                    "everything waits, and nothing is due: unless the test answers or sends something, it waits for ever"
                )
            await asyncio.sleep(0.002)

    def _somebody_waits(self) -> bool:
        process = self._process
        if self._gate is not None and self._gate.delayed:
            return True
        return bool(self._seekers) or (process is not None and bool(process.observers.runs or process.observers.uids))

    async def _serve_seekers(self) -> bool:
        served = False
        for to, future in list(self._seekers):
            page = await self.inbox(to=to, limit=1)
            if page.items and not future.done():
                future.set_result(page.items[0])
                served = True
        return served

    # ── asks and stubs ──────────────────────────────────────────────────────────────────────────────────────────────

    async def next_ask(self, *, to: str = "") -> OpenPromise:
        """The oldest open ask; waits until there is one, letting time pass."""
        seeker = (to, asyncio.get_running_loop().create_future())
        self._seekers.append(seeker)
        try:
            return await seeker[1]  # type: ignore[no-any-return]
        finally:
            self._seekers.remove(seeker)

    def stub(
        self,
        step: Any,
        *,
        returns: Any = MISSING,
        raises: BaseException | type[BaseException] | None = None,
        side_effect: Any = None,
    ) -> Stub:
        """Replace a step's body for this app. Give exactly one of `returns`, `raises` and `side_effect`."""
        definition = getattr(step, "definition", None)
        if definition is None or not hasattr(definition, "retry"):
            raise DefinitionError(f"{step!r} is not a step", hint="app.stub() takes a function with @step")
        stub = Stub(returns, raises, side_effect)
        self._stubs[definition.name] = stub
        return stub


class _KeptStore:
    """A store that survives `crash()`: opened once, closed once, whatever its processes do."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._opened = False

    def open(self) -> None:
        if not self._opened:
            self._store.open()
            self._opened = True

    def close(self) -> None:
        """A process goes; the store stays."""

    def really_close(self) -> None:
        if self._opened:
            self._store.close()
            self._opened = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
