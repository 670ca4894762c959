"""The agent: it reads a folder, plans, searches, writes a report section by section, asks a person, and publishes once.

Everything that costs, waits or touches the world is a step. The workflow is ordinary `async` Python: killed anywhere, it
starts again, is told what its recorded steps brought, and goes on with the first that is not recorded.

It can also be hosted without the conductor: `perdure worker examples.research.agent`.
"""

from __future__ import annotations

import asyncio
import difflib
from dataclasses import dataclass
from pathlib import Path

from perdure import ask, step, workflow
from perdure.demo import ledger

from . import library
from .library import Passage
from .local_model import TINY
from .model import Answer, complete

__all__ = ["Section", "research"]

SECTIONS = 3
CHOICE = 8  # headings that the model chooses from


@dataclass(frozen=True)
class Section:
    """One section of the report: what the model wrote, and from which passage."""

    heading: str
    source: str
    answer: Answer


@step
def read(folder: str, index: str) -> int:
    """Read every document of the folder into a full-text index."""
    passages = library.build(Path(folder), Path(index))
    ledger.enter("read", "read", f"{passages} passages from the documents")
    return passages


@step
def search(index: str, query: str, limit: int) -> list[Passage]:
    """The tool: look something up in the library."""
    found = library.search(Path(index), query, limit)
    ledger.enter("searched", "search", f"{query!r}: {len(found)} passages")
    return found


@step(retry=3, timeout="120s")
async def plan(question: str, headings: list[str]) -> list[str]:
    """Let the model choose the headings that the report is made of."""
    choice = "\n".join(f"- {heading}" for heading in headings)
    task = f"Name the {SECTIONS} headings that help to answer the question, one per line."
    answer = await complete("plan", f"Question: {question}\nHeadings:\n{choice}\n\n{task}")
    return choose(answer.text, headings)


@step(retry=3, timeout="120s")
async def write(part: str, question: str, passage: Passage) -> Section:
    """Let the model write one section from one passage: the slow and costly step."""
    prompt = f"Notes:\n{passage.text}\n\nUsing only these notes, write a short paragraph that answers: {question}"
    answer = await complete(f"write {part}", prompt)
    return Section(passage.heading, passage.document, answer)


@step(once=True)
def publish(path: str, question: str, sections: list[Section]) -> str:
    """Publish the report by creating its file. `once=True`: it happens at most once, whatever dies."""
    with Path(path).open("x", encoding="utf-8") as file:
        file.write(report(question, sections))
    ledger.enter("published", "publish", Path(path).name)
    return Path(path).name


@workflow
async def research(question: str, folder: str, index: str, path: str) -> str:
    """Research `question` in the documents of `folder` and publish the report at `path`, if a person agrees."""
    await read(folder, index)
    overview = await search(index, question, 4 * CHOICE)
    headings = list(dict.fromkeys(passage.heading for passage in overview))[:CHOICE]
    chosen = await plan(question, headings)
    found = await asyncio.gather(*(search(index, f"{heading} {question}", CHOICE) for heading in chosen))
    passages = pick(chosen, found)
    sections = [await write(f"{number}/{len(passages)}", question, passage) for number, passage in enumerate(passages, 1)]
    if not await ask(f"Publish the report of {len(sections)} sections?", timeout="7d", default=False):
        return "not published"
    return f"published: {await publish(path, question, sections)}"


def choose(answer: str, headings: list[str]) -> list[str]:
    """The headings that an answer names, in its order; a small model names few, so the best found fill up."""
    lines = [line.strip("-* .0123456789") for line in answer.splitlines()]
    named = [match for line in lines for match in difflib.get_close_matches(line, headings, 1)]
    return list(dict.fromkeys([*named, *headings]))[:SECTIONS]


def pick(chosen: list[str], found: list[list[Passage]]) -> list[Passage]:
    """For each chosen heading the best passage under it that is not taken yet."""
    taken: list[Passage] = []
    for heading, passages in zip(chosen, found, strict=True):
        free = [passage for passage in passages if passage not in taken]
        taken += ([passage for passage in free if passage.heading == heading] or free)[:1]
    return taken


def report(question: str, sections: list[Section]) -> str:
    """The report as Markdown, with its sources, and the truth about its author."""
    model = sections[0].answer.model if sections else TINY
    parts = [f"# {question}", f"Written by the language model {model} from the documents named below each section."]
    if model == TINY:
        parts.append("It has 135 million parameters: what it writes is poor and may be wrong.")
    for section in sections:
        parts += [f"## {section.heading}", section.answer.text, f"From: {section.source}"]
    return "\n\n".join(parts) + "\n"
