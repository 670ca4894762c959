"""What the tests of all frameworks do: run an agent inside a workflow live, after a recovery, and replayed at every await."""

import asyncio
import threading

import pytest

from perdure import Status, step
from perdure.errors import RunBlocked
from perdure.testing import TestApp

MODES = ("live", "recovered", "replayed")

began: list[str] = []
ended: list[str] = []


@step
async def look_up(city: str) -> str:
    """The weather in a city."""
    began.append(city)
    for _ in range(5):  # let the others begin, if they are to run at the same time
        await asyncio.sleep(0)
    ended.append(city)
    return f"sunny in {city}"


class Stage:
    """Plays runs. `recovered` closes the app while a run waits for an answer and opens another one on the same file."""

    def __init__(self, mode, folder):
        self.mode = mode
        self.began = began
        self.look_up = look_up
        self.release = threading.Event()  # ends the threads of tools that wait in one
        self._url = f"sqlite:///{folder}/runs.db"

    def play(self, call, answers=()):
        """Run a workflow's call to its end, answering its asks in order. Gives its result."""
        return asyncio.run(self._play(call, answers))

    def blocked(self, call):
        """Run a call that is refused. Gives why it is blocked."""
        return asyncio.run(self._blocked(call))

    def ran_together(self, *cities):
        """Whether a step ran once for each of these, all at the same time."""
        return sorted(began) == sorted(cities) == sorted(ended) and set(began[: len(cities)]) == set(cities)

    def _app(self):
        return TestApp(self._url, replay_every_await=self.mode == "replayed")

    async def _play(self, call, answers):
        app = await self._app().open()
        try:
            await app.start(call, id="run")
            for answer in answers:
                asked = await _ask_of(app)
                if self.mode == "recovered":
                    await app.close()
                    app = await self._app().open()
                await app.answer(asked.id, answer)
            return await app.handle("run").result()
        finally:
            await app.close()

    async def _blocked(self, call):
        async with self._app() as app:
            run = await app.start(call, id="run")
            with pytest.raises(RunBlocked):
                await run.result(timeout=20)
            assert await run.status() == Status.BLOCKED
            return (await run.info()).blocked


async def _ask_of(app):
    """The next ask; if the run ends instead, its outcome is raised."""
    ask, end = asyncio.ensure_future(app.next_ask()), asyncio.ensure_future(app.handle("run").result())
    await asyncio.wait([ask, end], return_when=asyncio.FIRST_COMPLETED)
    if ask.done():
        end.cancel()
        return ask.result()
    ask.cancel()
    raise AssertionError(f"the run ended without asking: {end.result()!r}")


@pytest.fixture(params=MODES)
def stage(request, tmp_path):
    """A stage in each of the modes."""
    began.clear()
    ended.clear()
    yield Stage(request.param, tmp_path)


@pytest.fixture
def once(tmp_path):
    """A stage in the plain mode, for what is refused."""
    began.clear()
    ended.clear()
    played = Stage("live", tmp_path)
    yield played
    played.release.set()
