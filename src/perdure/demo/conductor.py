"""The conductor: the story of `perdure demo`, from the first worker to the tally.

It speaks to the run only as any outsider would: start, inbox, answer, result, history.
"""

from __future__ import annotations

from perdure import App

from .agent import QUESTION, research
from .stage import Stage, recorded_steps
from .tally import Tally, count

__all__ = ["MODULE", "RUN", "play"]

MODULE = "perdure.demo.agent"
RUN = "report-1"
KILL_IN = "write 2/3"  # the model call that is cut off
KILL_AFTER = 9  # words of it


async def play(stage: Stage) -> Tally:
    """Run the agent, kill its worker in the middle of a model call, and see it through."""
    screen = stage.screen
    async with App(stage.url, worker=False) as app:
        handle = await app.start(research(QUESTION), id=RUN)
        screen.line("run", f"{RUN}: {QUESTION}")
        stage.watch(handle)
        try:
            stage.start_worker()
            await _until_half_way(stage)
            stage.kill_worker(f"{KILL_AFTER} words into an answer")
            await stage.show_journal(handle)
            stage.start_worker()
            await stage.until_asked(app, RUN)
            await stage.answer(app, RUN)
            screen.line("result", await stage.until(handle.result()), "bold")
        finally:
            stage.stop_worker()
        return count(stage.events, await recorded_steps(handle), stage.kills)


async def _until_half_way(stage: Stage) -> None:
    words = 0
    while words < KILL_AFTER:
        event = await stage.next()
        words += event.what == "token" and event.step == KILL_IN
