"""Journals that were meddled with: every entry that lacks, is foreign or stands elsewhere is divergence."""

import asyncio
import random
import re

import pytest

from perdure import ask, publish, receive, send, start, step, workflow
from perdure.core.errors import Diverged

from .tools import journal_of, replayed


@step(name="meddled.work")
async def work(n: int = 0) -> int:
    return n


@step(name="meddled.pay", once=True)
async def pay(amount: int) -> int:
    return amount


@workflow(name="meddled.child")
async def child(n: int) -> int:
    return n


@workflow(name="meddled.other")
async def other() -> str:
    return (await receive("note")).value


@workflow(name="meddled.everything")
async def everything() -> list:
    """One of each kind, each with something recorded behind it."""
    question = ask("ready?", default=True, timeout="1h")
    await work(1)
    await publish("at", 1)
    handle = await start(child(2))
    message = await receive("go")
    await message.reply("going")
    await asyncio.sleep(5)
    await send("other", "note", "hello")
    await pay(3)
    results = await asyncio.gather(question, handle.result(), work(4))
    publish("left", 1)
    return [*results, await work(5)]


async def recorded_everything(app):
    await app.start(other(), id="other")
    run = await app.start(everything())
    assert await run.request("go") == "going"
    assert await run.result() == [True, 2, 4, 5]
    entries = await journal_of(app, run)
    listed = {"opened", "published", "child", "child_ended", "signal", "replied", "timer", "sent", "begun", "step", "resolved"}
    assert {each.kind for each in entries} == {"started", *listed}
    return run, entries


async def test_a_journal_without_one_of_its_entries_is_divergence(perdure_app):
    """Not only a missing outcome: what was changed outside, too, has to have its entry before anything that came after it."""
    app = perdure_app
    run, entries = await recorded_everything(app)
    ended = await replayed(app, run, entries)
    assert ended.ended.status == "succeeded"
    missed = []
    for left_out in range(1, len(entries)):
        if entries[left_out].kind == "begun":  # the attempt's entry says all of it once it has ended
            continue
        try:
            execution = await replayed(app, run, entries[:left_out] + entries[left_out + 1 :])
        except Diverged as error:
            assert error.recorded
        else:
            missed.append((entries[left_out].kind, entries[left_out].key, execution.ended))
    assert [(kind, ended) for kind, _, ended in missed if kind != "step" or ended] == []
    assert [key for _, key, _ in missed] == [entries[-1].key], "only the last outcome can be missing: it is to come"


async def test_a_journal_with_a_foreign_entry_is_divergence(perdure_app):
    app = perdure_app
    run, entries = await recorded_everything(app)
    foreign = {
        "step": "/meddled.never#0",
        "timer": "/sleep#9",
        "opened": "/ask#9",
        "published": "/publish#9",
        "sent": "/send#9",
    }
    foreign |= {"child": "/meddled.child#9", "child_ended": "/meddled.child#9", "resolved": "/ask#9", "begun": "/meddled.pay#9"}
    for each in entries:
        if each.kind not in foreign:
            continue
        inserted = type(each)(each.sequence, each.kind, foreign[each.kind], each.time, each.value, each.failed, each.note)
        for place in range(1, len(entries) + 1):
            with pytest.raises(Diverged, match=re.escape(foreign[each.kind])):
                await replayed(app, run, [*entries[:place], inserted, *entries[place:]])


async def test_commands_that_changed_places_are_divergence(perdure_app):
    app = perdure_app
    run, entries = await recorded_everything(app)
    commands = [place for place, each in enumerate(entries) if each.kind in ("opened", "published", "child", "replied", "sent")]
    chance = random.Random(7)
    for place in commands[:-1]:
        later = chance.choice([each for each in commands if each > place])
        swapped = list(entries)
        swapped[place], swapped[later] = swapped[later], swapped[place]
        with pytest.raises(Diverged):
            await replayed(app, run, swapped)
