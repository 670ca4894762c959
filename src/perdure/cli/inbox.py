"""`perdure inbox` and `perdure answer`: what waits for people, and what they say."""

from __future__ import annotations

from typing import Any

import click

from perdure.app import App
from perdure.core.errors import AlreadyResolved, UnknownWait
from perdure.listing import OpenPromise

from .reply import as_typed, expected, from_json
from .screen import Screen, ago, compact
from .session import command_line, database_option, json_option, person, use

__all__ = ["answer", "ask_lines", "inbox"]

PAGE = 500


@click.command()
@click.option("--to", default="", help="Only what is addressed to this person or role.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many.")
@click.option("--after", help="Go on after an earlier page: its `next`.")
@click.option("--all", "everything", is_flag=True, help="All of them, not only a page.")
@database_option
@json_option
def inbox(to: str, limit: int, after: str | None, everything: bool, url: str | None, as_json: bool) -> None:
    """List the open asks, the oldest first, and how to answer them.

    With --json: {"asks": [...], "next": ...}; each ask has its `id`, `question`, `schema` and `run`.
    """
    screen = Screen()

    async def read(app: App) -> tuple[list[OpenPromise], str | None, str]:
        found: list[OpenPromise] = []
        following = after
        while True:
            page = await app.inbox(to=to, limit=PAGE if everything else limit, after=following)
            found += page.items
            following = page.next
            if not everything or following is None:
                return found, following, app.url

    with screen.progress("reading the inbox"):
        found, following, resolved = use(url, read)
    if as_json:
        screen.json({"asks": found, "next": following})
        return
    if not found:
        screen.note(f"nothing waits for {to!r}" if to else "nothing waits for an answer")
        return
    for number, each in enumerate(found):
        if number:
            screen.out.print()
        screen.say(compact(each.question or each.name), style="bold")
        screen.fields(ask_lines(each, resolved))
    if following is not None:
        screen.note(f"\nmore with --after {following}, or --all")


def ask_lines(ask: OpenPromise, url: str) -> list[tuple[str, str]]:
    """The facts of an open ask, and the command that answers it."""
    return [
        ("run", f"{ask.run}, asked {ago(ask.opened_at)}"),
        ("to", ask.to),
        ("open until", f"{ago(ask.deadline)}" if ask.deadline else ""),
        ("sent back", ask.problem),
        ("answer", command_line(url, "answer", ask.id, then=expected(ask.schema).example)),
    ]


@click.command()
@click.argument("id")
@click.argument("value", required=False)
@click.option("--json", "json_text", help="The answer as JSON, instead of VALUE.")
@click.option("--decline", metavar="REASON", help="Refuse to answer: the run gets a PermissionError with the reason.")
@click.option("--by", default=person, help="Who answers. Default: the user of this system.")
@database_option
def answer(id: str, value: str | None, json_text: str | None, decline: str | None, by: str, url: str | None) -> None:
    """Answer an ask, or complete a promise.

    VALUE is what the ask expects: yes or no, a text, a number, one of its choices; for anything else it is JSON. An answer that
    does not fit changes nothing. After `--`, VALUE may begin with a dash: perdure answer ID -- -3
    """
    if [value, json_text, decline].count(None) != 2:
        raise click.UsageError("give one answer: VALUE, or --json, or --decline REASON")

    async def write(app: App) -> OpenPromise:
        ask = await _find(app, id)
        if decline is not None:
            await app.decline(ask.id, decline, by=by)
        else:
            given: Any = from_json(json_text, ask) if json_text is not None else as_typed(value or "", ask)
            await app.resolve(ask.id, given, by=by)
        return ask

    ask = use(url, write)
    done = "declined" if decline is not None else "answered"
    Screen().say(f"{done} {compact(ask.question or ask.name)} of run {ask.run}")


async def _find(app: App, id: str) -> OpenPromise:
    """The open promise with this id, or the only open one whose id begins so, with or without its `ask-`."""
    store = app.gate.store
    row = await app.gate.read(lambda: store.promise(id))
    if row is None:
        beginnings = (id, f"ask-{id}", f"promise-{id}")
        found = [each for each in await _all_open(app) if each.id.startswith(beginnings)] if id else []
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(each.id for each in found[:5])
            raise UnknownWait(f"the ids of several open asks begin with {id!r}", hint=f"type more of it: {listed}")
        raise UnknownWait(f"no ask or promise has the id {id!r}", hint=command_line(app.url, "inbox") + " lists the open ones")
    promise = OpenPromise.of(row)
    if promise.state != "open":
        who = f" by {promise.by}" if promise.by else ""
        raise AlreadyResolved(
            f"{compact(promise.question or promise.name)} was {promise.state}{who} {ago(promise.resolved_at)}; nothing was changed",
            run=promise.run,
            hint=command_line(app.url, "runs", "show", promise.run),
        )
    return promise


async def _all_open(app: App) -> list[OpenPromise]:
    found: list[OpenPromise] = []
    while True:
        page = await _page_of_open(app, found[-1].id if found else "")
        found += page
        if len(page) < PAGE:
            return found


async def _page_of_open(app: App, after: str) -> list[OpenPromise]:
    store = app.gate.store
    return [OpenPromise.of(row) for row in await app.gate.read(lambda: store.promises(after=after, limit=PAGE))]
