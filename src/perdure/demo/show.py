"""The whole show of `perdure demo`: the title, the story, the tally, and what to type next."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from perdure import PerdureError

from .conductor import MODULE, RUN, play
from .screen import Screen
from .stage import Stage, WorkerDied, look_into, perform, place
from .tally import Tally

__all__ = ["run_demo"]


def run_demo(console: Console, *, keep: Path | None = None) -> int:
    """Play the demo on `console` and return the exit code; the files stay in `keep`, or in no place at all."""
    screen = Screen(console)
    screen.say("perdure demo: an agent is killed in the middle of a model call, and goes on", "bold")
    screen.say("The model is scripted. The rest is real: a worker process, its kill, a journal in SQLite.\n")
    try:
        with place(keep) as folder:
            stage = Stage(screen, folder, MODULE)
            tally = perform(play(stage))
            _close(screen, stage, tally)
            _what_next(screen, keep)
    except (OSError, PerdureError, WorkerDied) as problem:
        screen.say(f"The demo stopped: {problem}", "red")
        return 1
    return 0


def _close(screen: Screen, stage: Stage, tally: Tally) -> None:
    screen.table(
        "What was recorded, and what ran again",
        ("step", "recorded", "begun", "when"),
        [(work.name, str(work.recorded), str(work.begun), work.note) for work in tally.works],
    )
    twice = f"Paid for twice: {', '.join(tally.twice)}." if tally.twice else "No answer was paid for twice."
    screen.say(
        f"The model was paid for {tally.tokens} words in {tally.calls} answers. {twice}\n"
        f"Not paid again after the kill: the {tally.spared[0]} words that were recorded before it.\n"
        f"Lost: {tally.lost} words of the call that was cut off.\n"
        f"Published: {tally.published} time{'' if tally.published == 1 else 's'}.\n"
        f"The second worker went on {stage.restarts[0]:.1f} s after it was started."
    )


def _what_next(screen: Screen, keep: Path | None) -> None:
    screen.say("")
    if keep is None:
        screen.say("Next: keep the journal and look into it:", "bold")
        screen.say("  perdure demo --keep demo")
    else:
        screen.say("Next: look into the journal:", "bold")
        screen.say(f"  {look_into(RUN, keep)}")
