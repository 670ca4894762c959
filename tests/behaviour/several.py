"""Several apps in one process that share a file, as processes do, and what happens to them: silence, takeover, death."""

import asyncio
import contextlib

from perdure.testing import VirtualClock


@contextlib.asynccontextmanager
async def sharing(make_app, folder, count=2, **options):
    """Several open apps on one file, as processes that share a store are, with one clock and a lease of 10 s.

    Nothing happens by itself in them: `beat` is what their lease keepers would do, `see` their look at the file.
    """
    clock = VirtualClock()
    options.setdefault("lease", 10)
    apps = [make_app(f"sqlite:///{folder}/shared.db", clock=clock, **options) for _ in range(count)]
    async with contextlib.AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app)
        yield apps


async def beat(*apps):
    """Renew the leases of these apps, and let them look round."""
    for app in apps:
        app._process.beat()
        await rest(app)


async def see(*apps):
    """Let these apps notice what others have committed."""
    for app in apps:
        app._process.changed()
        await rest(app)


async def rest(app, passes=60):
    """Let an app do what it can at once. Unlike `settle`, it does not wait for bodies that wait for the test."""
    for _ in range(passes):
        await asyncio.sleep(0)


async def leased_out(app, *others):
    """An app has been silent for longer than its lease, and the others take its runs over."""
    app.clock.advance_to(app.clock.now() + 2 * app._options.lease)
    await beat(*others)


async def row_of(app, run):
    """A run as the store has it."""
    return await app.gate.read(lambda: app.gate.store.run(run.id))


async def live(seconds, *apps):
    """Let time pass for these apps together: their alarms ring, and their leases are renewed in time."""
    clock = apps[0].clock
    target = clock.now() + int(seconds * 1_000_000)
    while clock.now() < target:
        stop = min(target, clock.now() + apps[0]._options.lease // 2)
        while clock.jump(stop):
            for app in apps:
                await rest(app, 20)
        clock.advance_to(stop)
        await beat(*apps)


def die(app):
    """An app's process is killed: it does nothing any more, and tells nobody. Its file lock goes with it on closing."""
    app.worker.stop_at_once()
    app._process.abandon()


class Bodies:
    """Bodies of a step that wait until the test lets them go on; one per attempt, in order."""

    def __init__(self):
        self.gates = []
        self.ended = []
        self.open = False

    async def enter(self):
        """A body begins: it waits for its turn, even when its worker cancels it, and gives its place in the order."""
        place, gate = len(self.gates), asyncio.Event()
        self.gates.append(gate)
        if self.open:
            gate.set()
        try:
            await gate.wait()
        except asyncio.CancelledError:  # only its worker's: the end of a test is not held up
            await gate.wait()
        self.ended.append(place)
        return place

    def release(self):
        """Let all go on, those that begin later too."""
        self.open = True
        for gate in self.gates:
            gate.set()
