"""The demo's agent: it plans, searches three times in parallel, writes three sections, asks a person, and publishes.

This is all that an author writes: ordinary `async` Python with the two decorators. Nothing in it knows that its process
is going to be killed.
"""

from __future__ import annotations

import asyncio

from perdure import ask, step, workflow

from . import ledger, model

__all__ = ["QUESTION", "research"]

QUESTION = "What does a crash cost an agent?"

NOTES = {
    "what survives a crash": ["the journal", "every recorded result", "open questions to people"],
    "who may write": ["the owner of the run", "nobody who lost it"],
    "what is paid twice": ["nothing that was recorded"],
}


@step
async def plan(question: str) -> list[str]:
    """Let the model name three things to look up."""
    return (await model.answer("plan")).split(";\n")


@step(retry=3)
async def search(query: str) -> list[str]:
    """Look one thing up. A real tool would go over the network here."""
    await asyncio.sleep(0.2 + len(query) / 50)
    found = NOTES.get(query, [])
    ledger.enter("searched", "search", f"{query}: {len(found)} found")
    return found


@step
async def write(section: str, findings: list[str]) -> str:
    """Let the model write one section: slow, paid for, and killed in the middle once."""
    return await model.answer(f"write {section}")


@step(once=True)
def publish(title: str, sections: list[str]) -> str:
    """Publish the report by creating its file: the effect that must not happen twice."""
    path = ledger.folder() / "report.txt"
    with path.open("x", encoding="utf-8") as file:
        file.write("\n\n".join([title, *sections]) + "\n")
    ledger.enter("published", "publish", path.name)
    return path.name


@workflow
async def research(question: str) -> str:
    """Research a question and publish the answer, if a person agrees."""
    queries = await plan(question)
    findings = await asyncio.gather(*(search(query) for query in queries))
    sections = [await write(f"{number}/{len(queries)}", found) for number, found in enumerate(findings, 1)]
    if not await ask(f"Publish the report of {len(sections)} sections?", timeout="7d", default=False):
        return "not published"
    return f"published {await publish(question, sections)}"
