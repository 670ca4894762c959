"""`perdure runs why`: what a run waits for, since when, when it goes on, and what its last error was."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from perdure.app import App
from perdure.core.status import Status

from .explaining import Explanation, Wait, explain
from .loading import load
from .screen import Screen, ago, moment, status_text
from .session import database_option, find_run, json_option, use

__all__ = ["why"]


@click.command()
@click.argument("id")
@click.option(
    "--load",
    "target",
    metavar="pkg.mod | file.py",
    help="Replay the journal with this code: then it knows every timer and message.",
)
@database_option
@json_option
def why(id: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Say what a run is waiting for, since when, and what its last error was.

    From the database alone this is: open asks and promises, child runs, retries, when it wakes, who runs it. Timers, and which
    messages it would take, are only in its code: with --load the journal is replayed here, which changes nothing and runs no step.

    With --json: {"run": ..., "summary": ..., "since": ..., "waits": [...], "last_error": ..., "notes": [...], "exact": ...}
    """
    screen = Screen()
    if target is not None:
        load(target)

    async def read(app: App) -> Explanation:
        return await explain(app, await find_run(app, id), replay=target is not None)

    with screen.progress("reading the journal"):
        explanation = use(url, read)
    if as_json:
        screen.json(explanation)
    else:
        _show(screen, explanation)


def _show(screen: Screen, explanation: Explanation) -> None:
    run = explanation.run
    screen.say(Text.assemble((run.id, "bold"), "  ", status_text(run.status), "  ", run.workflow))
    screen.out.print()
    screen.say(explanation.summary, style="bold")
    screen.fields([("since", moment(explanation.since)), ("at", explanation.where)])
    if run.blocked is not None and run.status is Status.BLOCKED:
        _show_sides(screen, explanation)
    for wait in explanation.waits:
        screen.out.print()
        _show_wait(screen, wait)
    error = explanation.last_error
    if error is not None:
        screen.heading("last error")
        screen.fields(
            [
                ("error", error.message),
                ("step", error.key),
                ("attempt", str(error.attempt) if error.attempt else ""),
                ("when", moment(error.at)),
            ]
        )
    elif not run.status.ended:
        screen.out.print()
        screen.say("no step of it has failed so far")
    if explanation.notes:
        screen.out.print()
    for note in explanation.notes:
        screen.say(note, style="dim")


def _show_wait(screen: Screen, wait: Wait) -> None:
    screen.say(Text.assemble((wait.kind, "bold cyan"), "  ", wait.what))
    screen.fields([("since", ago(wait.since)), (wait.until_word, moment(wait.until)), ("to do", wait.hint)])


def _show_sides(screen: Screen, explanation: Explanation) -> None:
    blocked = explanation.run.blocked
    assert blocked is not None
    hint = "" if blocked.hint.startswith("perdure runs why") else blocked.hint  # that is what was typed
    build = "any" if blocked.build == "*" else blocked.build
    screen.fields([("code", blocked.code), ("place", blocked.where), ("build", build), ("hint", hint)])
    if not blocked.recorded and not blocked.asked:
        return
    screen.out.print()
    rows: list[tuple[Any, ...]] = []
    for number in range(max(len(blocked.recorded), len(blocked.asked))):
        sides = (blocked.recorded, blocked.asked)
        rows.append(tuple(side[number] if number < len(side) else "" for side in sides))
    screen.table(("the journal has", "the code asks for"), rows, keep=(), full=True)
