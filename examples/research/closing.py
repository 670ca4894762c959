"""What `make demo` says at its end: the tally, the report, and what to type next."""

from __future__ import annotations

from pathlib import Path

from perdure.demo.screen import Screen
from perdure.demo.stage import Stage, look_into
from perdure.demo.tally import Tally

from .conductor import RUN

__all__ = ["show"]


def show(screen: Screen, stage: Stage, tally: Tally, report: Path, keep: Path | None) -> None:
    """Print all of it."""
    if report.exists():
        screen.say(f"\nThe report ({report.name}), as the model wrote it:", "bold")
        screen.say("\n" + report.read_text(encoding="utf-8"), "dim")
    screen.table(
        "What was recorded, and what ran again",
        ("step", "recorded", "begun", "when"),
        [(work.name, str(work.recorded), str(work.begun), work.note) for work in tally.works],
    )
    screen.say("\n".join(_facts(stage, tally)))
    if keep is None:
        screen.say("\nNext: keep the journal and look into it:", "bold")
        screen.say("  python -m examples.research --keep demo")
    else:
        screen.say("\nNext: look into the journal:", "bold")
        screen.say(f"  {look_into(RUN, keep)}")


def _facts(stage: Stage, tally: Tally) -> list[str]:
    again = f"Answered twice: {', '.join(tally.twice)}." if tally.twice else "No call was answered twice."
    first, second = (*tally.spared, 0, 0)[:2]
    went_on = " and ".join(f"{seconds:.1f} s" for seconds in stage.restarts)
    return [
        f"The model answered {tally.calls} calls for {tally.tokens} tokens. {again}",
        f"Not paid twice: {first + second} tokens: {first} again after the first kill, {second} again after the second.",
        f"Lost: {tally.lost} tokens of the call that the first kill cut off.",
        f"Published: {tally.published} time{'' if tally.published == 1 else 's'}.",
        f"The next workers went on within {went_on}, which includes starting Python and importing the agent.",
    ]
