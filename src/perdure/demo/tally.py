"""The tally: the journal held against the ledger, what was recorded beside what the world saw. Pure counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .ledger import Event

__all__ = ["Tally", "Work", "count"]

BEGINS = {"asked", "read", "searched", "published"}  # the events by which a step shows that its body ran
ENDS = BEGINS - {"asked"} | {"answered"}


@dataclass(frozen=True)
class Work:
    """One piece of work: how often its outcome is in the journal, how often it was begun outside, and why."""

    name: str
    recorded: int
    begun: int
    note: str


@dataclass(frozen=True)
class Tally:
    """The whole account of a run. Tokens are the model's own count."""

    works: list[Work]
    calls: int  # answered calls
    tokens: int  # of answered calls
    spared: list[int]  # for each kill: the tokens answered before it, which a start from zero would have paid again
    lost: int  # tokens of calls that a kill cut off
    twice: list[str]  # calls that were answered twice: none, or the journal failed
    published: int


def count(events: Sequence[Event], recorded: Sequence[str], kills: Sequence[float]) -> Tally:
    """Count the ledger's `events` and the journal's `recorded` steps (a name for each outcome, in order).

    `kills` are the moments of the kills on the ledger's clock.
    """
    answered = [event for event in events if event.what == "answered"]
    lost = _lost(events)
    return Tally(
        works=_works(events, Counter(recorded), kills, lost),
        calls=len(answered),
        tokens=sum(event.tokens for event in answered),
        spared=[sum(event.tokens for event in answered if event.at < kill) for kill in kills],
        lost=lost.total(),
        twice=[step for step, times in Counter(event.step for event in answered).items() if times > 1],
        published=sum(event.what == "published" for event in events),
    )


def _works(events: Sequence[Event], recorded: Counter[str], kills: Sequence[float], lost: Counter[str]) -> list[Work]:
    """A row for each step of the ledger, in the order in which they began."""
    begun = Counter(event.step for event in events if event.what in BEGINS)
    ended = {event.step: event.at for event in events if event.what in ENDS}
    works = []
    for step, times in begun.items():
        name = step.split()[0]
        alone = step == name  # else one of several under this name: each has one outcome, in order
        outcomes = recorded[name] if alone else min(1, recorded[name])
        recorded[name] -= outcomes
        outlived = sum(ended.get(step, kill) < kill for kill in kills)
        works.append(Work(step, outcomes, times, _note(step, outlived, len(kills), lost[step])))
    return works


def _note(step: str, outlived: int, kills: int, lost: int) -> str:
    if lost:
        return f"cut off after {lost} tokens, so it ran again"
    if step == "publish":
        return "once=True: at most once"
    if not outlived:
        return "after the kill" if kills == 1 else "after both kills"
    return "before the kill, and not again" if kills == 1 else f"outlived {outlived} of {kills} kills, not run again"


def _lost(events: Sequence[Event]) -> Counter[str]:
    """The tokens of each step's calls that were never answered."""
    lost: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for event in events:
        if event.what == "token":
            running[event.step] += 1
        elif event.what in {"asked", "answered"}:
            lost[event.step] += running.pop(event.step, 0) if event.what == "asked" else 0
            running.pop(event.step, None)
    return +lost
