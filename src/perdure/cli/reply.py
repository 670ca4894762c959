"""An answer as it was typed: what its ask expects, and the value that was meant. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from perdure.core.codec import validate
from perdure.core.errors import InvalidAnswer
from perdure.listing import OpenPromise

from .arguments import parse_json

__all__ = ["Expected", "as_typed", "expected", "from_json"]

YES, NO = frozenset({"yes", "y", "true"}), frozenset({"no", "n", "false"})
_WORDS = {"boolean": "yes or no", "string": "text", "integer": "a whole number", "number": "a number", "null": "null"}
_EXAMPLES = {"boolean": "yes", "string": "TEXT", "integer": "7", "number": "0.5"}
_DEPTH = 20


class Expected(NamedTuple):
    """What an ask takes: in words, and as it would be typed."""

    words: str
    example: str


def expected(schema: dict[str, Any]) -> Expected:
    """What fits a schema.

    >>> expected({"type": "boolean"}), expected({"enum": ["approve", "revise"]})
    (Expected(words='yes or no', example='yes'), Expected(words='one of approve, revise', example='approve'))
    """
    parts = list(_parts(schema, schema, _DEPTH))
    choices = [choice for part in parts for choice in _choices(part)]
    kinds = [kind for part in parts for kind in _kinds(part)]
    known = [_WORDS[kind] for kind in dict.fromkeys(kinds) if kind in _WORDS]
    if choices and not kinds:
        shown = [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in choices]
        return Expected(f"one of {', '.join(shown)}", shlex.quote(shown[0]))
    if known and len(known) == len(set(kinds)) and not choices:
        return Expected(" or ".join(known), _EXAMPLES.get(kinds[0], "null"))
    return Expected("JSON that fits its schema", "--json JSON")


def as_typed(text: str, ask: OpenPromise) -> Any:
    """The value that somebody meant who typed this. Raises `InvalidAnswer` if nothing that it may mean fits."""
    schema = ask.schema
    candidates = list(_meanings(text, schema))
    if not candidates:
        raise _invalid(ask, f"{text!r} is not JSON, which it expects")
    problems = [validate(each, schema) if schema else [] for each in candidates]
    for candidate, problem in zip(candidates, problems, strict=True):
        if not problem:
            return candidate
    raise _invalid(ask, "; ".join(problems[0]))


def from_json(text: str, ask: OpenPromise) -> Any:
    """The value of a JSON text. Raises `InvalidAnswer` if it is none, or does not fit."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise _invalid(ask, f"{text!r} is not JSON ({error})") from None
    problems = validate(value, ask.schema) if ask.schema else []
    if problems:
        raise _invalid(ask, "; ".join(problems))
    return value


def _invalid(ask: OpenPromise, problem: str) -> InvalidAnswer:
    takes = expected(ask.schema)
    schema = msgspec.json.encode(ask.schema).decode()
    return InvalidAnswer(
        f"the answer does not fit {ask.question or ask.name!r}: {problem}; nothing was changed",
        run=ask.run,
        hint=f"it takes {takes.words}: perdure answer {ask.id} {takes.example}\nschema {schema}",
    )


def _meanings(text: str, schema: dict[str, Any]) -> Iterator[Any]:
    """What a typed text may mean under a schema, the likeliest first."""
    parts = list(_parts(schema, schema, _DEPTH))
    kinds = {kind for part in parts for kind in _kinds(part)}
    choices = [choice for part in parts for choice in _choices(part)]
    word = text.strip().lower()
    yield from (choice for choice in choices if isinstance(choice, str) and choice == text)
    yield from (choice for choice in choices if isinstance(choice, str) and choice.lower() == word)
    if "string" in kinds and kinds <= {"string", "null"}:
        yield text
    if "boolean" in kinds and word in YES | NO:
        yield word in YES
    try:
        yield parse_json(text)
    except ValueError:
        pass
    if "string" in kinds or choices or (kinds and kinds <= _EXAMPLES.keys()):
        yield text


def _parts(schema: Any, root: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """The alternatives of a schema, references followed."""
    if not isinstance(schema, dict) or not depth:
        return
    alternatives = [each for word in ("anyOf", "oneOf", "allOf") for each in schema.get(word, ())]
    if isinstance(reference := schema.get("$ref"), str):
        found: Any = root
        for part in reference.removeprefix("#").split("/")[1:]:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        alternatives.append(found)
    if not alternatives:
        yield schema
    for each in alternatives:
        yield from _parts(each, root, depth - 1)


def _choices(part: dict[str, Any]) -> list[Any]:
    return [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]


def _kinds(part: dict[str, Any]) -> list[str]:
    if _choices(part):
        return []
    kind = part.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)
