"""The conductor: the story of `make demo`. It kills the agent's worker twice and lets it finish once.

The first kill comes in the middle of a model call, the second while the agent waits for a person's approval. The
conductor speaks to the run only as any outsider would: start, inbox, answer, result, history.
"""

from __future__ import annotations

from pathlib import Path

from perdure import App
from perdure.demo.stage import Stage, recorded_steps
from perdure.demo.tally import Tally, count

from .agent import research

__all__ = ["MODULE", "RUN", "play"]

MODULE = "examples.research.agent"
RUN = "report"
KILL_IN = "write 2/3"  # the model call that is cut off
KILL_AFTER = 40  # characters of its answer


async def play(stage: Stage, question: str, library: Path, report: Path) -> Tally:
    """Run the agent on `question` over the documents in `library`, kill its worker twice, and see it through."""
    screen = stage.screen
    async with App(stage.url, worker=False) as app:
        index = report.with_name("library.db")
        handle = await app.start(research(question, str(library), str(index), str(report)), id=RUN)
        screen.line("run", f"{RUN}: {question}")
        stage.watch(handle)
        try:
            stage.start_worker()
            await _until_half_way(stage)
            stage.kill_worker("in the middle of a model call")
            await stage.show_journal(handle)
            stage.start_worker()
            await stage.until_asked(app, RUN)
            stage.kill_worker("while the agent waits for approval")
            await stage.show_journal(handle)
            stage.start_worker()
            await stage.answer(app, RUN)
            screen.line("result", await stage.until(handle.result()), "bold")
        finally:
            stage.stop_worker()
        return count(stage.events, await recorded_steps(handle), stage.kills)


async def _until_half_way(stage: Stage) -> None:
    length = 0
    while length < KILL_AFTER:
        event = await stage.next()
        if event.step == KILL_IN and event.what in {"token", "answered"}:
            length += len(event.text) if event.what == "token" else KILL_AFTER
