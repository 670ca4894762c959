"""The library: a folder of Markdown and text documents, cut into passages and searched by SQLite's FTS5."""

from __future__ import annotations

import re
import sqlite3
import textwrap
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Passage", "build", "search"]

SHORTEST = 120  # characters below which a passage says too little to be found
LONGEST = 800  # characters after which a passage is cut, so that a small model can follow it
LEFT_OUT = frozenset({"build", "node_modules", "site-packages", "src", "tests"})
COMMON = frozenset(
    "a an and are as at be by can do does for from how in is it its of on or that the this to what when who why with".split()  # noqa: SIM905 - words read better as text
)

SCHEMA = "CREATE VIRTUAL TABLE passages USING fts5(document UNINDEXED, heading, text, tokenize = 'porter unicode61')"
SEARCH = """
SELECT document, heading, text FROM passages WHERE passages MATCH ?
ORDER BY bm25(passages, 0.0, 4.0, 1.0), rowid LIMIT ?
"""


@dataclass(frozen=True)
class Passage:
    """What a document says under a heading, or a part of it."""

    document: str
    heading: str
    text: str


def build(folder: Path, index: Path) -> int:
    """Index every document under `folder` anew; returns the number of passages."""
    index.unlink(missing_ok=True)
    with closing(sqlite3.connect(index)) as database, database:
        database.execute(SCHEMA)
        rows = [(found.document, found.heading, found.text) for path in _documents(folder) for found in _passages(path, folder)]
        database.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows)
    return len(rows)


def search(index: Path, query: str, limit: int) -> list[Passage]:
    """The passages that fit `query` best."""
    words = [word for word in re.findall(r"\w+", query.lower()) if word not in COMMON]
    if not words:
        return []
    with closing(sqlite3.connect(f"{index.resolve().as_uri()}?mode=ro", uri=True)) as database:
        rows = database.execute(SEARCH, (" OR ".join(f'"{word}"' for word in words), limit))
        return [Passage(*row) for row in rows]


def _documents(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.suffix in {".md", ".txt"} and not any(part.startswith(".") or part in LEFT_OUT for part in inside[:-1]):
            yield path


def _passages(path: Path, folder: Path) -> Iterator[Passage]:
    """The prose of one document, heading by heading: code, tables and pictures are left out."""
    text = re.sub(
        r"^(```|~~~).*?^\1[^\n]*$", "", path.read_text(encoding="utf-8", errors="replace"), flags=re.DOTALL | re.MULTILINE
    )
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        title = re.match(r"#+ +(.+)", part)
        heading = _plain(title[1]) if title else path.stem
        blocks = (_plain(block) for block in re.split(r"\n\s*\n|\n(?=[-*] |\d+\. )", part[title.end() if title else 0 :]))
        prose = " ".join(block for block in blocks if block and not block.startswith(("|", "<", "!")))
        for piece in textwrap.wrap(prose, LONGEST, break_long_words=False, break_on_hyphens=False):
            if len(piece) >= SHORTEST:
                yield Passage(path.relative_to(folder).as_posix(), heading, piece)


def _plain(markdown: str) -> str:
    """Markdown without its marks."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", text)
    return " ".join(re.sub(r"[*`]+|(?<!\w)_+|_+(?!\w)", "", text).split())
