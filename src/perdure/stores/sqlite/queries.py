"""The SQL of this store by name, read once from `queries.sql`.

A query is `-- name: word`, a line of purpose, then its text; a `-- fragment: word` is text that queries include as
`{word}`. This module may know nothing of what the queries mean.
"""

from __future__ import annotations

import re
from importlib import resources

__all__ = ["QUERIES", "parse"]

_HEAD = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)


def parse(text: str) -> dict[str, str]:
    """The queries of a file, by name. Raises `ValueError` for one without purpose or text, and for a name given twice."""
    pieces = _HEAD.split(text)[1:]  # kind, name, body, kind, name, body, ...
    queries: dict[str, str] = {}
    fragments: dict[str, str] = {}
    for kind, name, body in zip(pieces[0::3], pieces[1::3], pieces[2::3], strict=True):
        lines = body.strip().splitlines()
        if name in queries or name in fragments:
            raise ValueError(f"{name} is there twice")
        if kind == "name" and not (lines and lines[0].startswith("-- ")):
            raise ValueError(f"{name} does not say what it is for")
        statement = "\n".join(line for line in lines if line and not line.startswith("--"))
        if not statement:
            raise ValueError(f"{name} is empty")
        for fragment, piece in fragments.items():
            statement = statement.replace("{" + fragment + "}", piece)
        (queries if kind == "name" else fragments)[name] = statement
    return queries


QUERIES = parse(resources.files(__package__).joinpath("queries.sql").read_text(encoding="utf-8"))
