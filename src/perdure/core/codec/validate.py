"""A small JSON Schema checker: the subset that perdure's own schemas and pydantic's use. Unknown keywords are ignored.

It answers with sentences for people, since its main use is an answer typed into a form or a terminal.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from .node import described, shape_of
from .refusal import step_to

__all__ = ["validate"]

Schema = dict[str, Any] | bool

_DEPTH = 100


def validate(value: Any, schema: dict[str, Any]) -> list[str]:
    """What is wrong with a JSON value, as sentences with paths; empty when nothing is.

    >>> validate({"count": "3"}, {"type": "object", "properties": {"count": {"type": "integer"}}})
    ["answer.count must be an integer, not a str ('3')"]
    """
    return list(_Checker(schema).problems(value, schema, "answer", _DEPTH))


class _Checker:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root

    def problems(self, value: Any, schema: Schema, path: str, depth: int) -> Iterator[str]:
        """Every problem of `value` under `schema`."""
        if isinstance(schema, bool) or depth <= 0:
            if schema is False:
                yield f"{path} is not allowed"
            return
        if isinstance(reference := schema.get("$ref"), str):
            yield from self.problems(value, self._target(reference), path, depth - 1)
        for keyword, check in _CHECKS.items():
            if keyword in schema:
                yield from check(self, value, schema, path, depth)

    def _target(self, reference: str) -> Schema:
        found: Any = self.root
        for escaped in reference.removeprefix("#").split("/")[1:]:
            part = escaped.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or part not in found:
                return True
            found = found[part]
        return found if isinstance(found, dict | bool) else True


Check = Callable[[_Checker, Any, dict[str, Any], str, int], Iterator[str]]

_WORDS = {
    "null": "null",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "an object",
}


def _is_type(value: Any, name: str) -> bool:
    shape = shape_of(value)
    if name == "number":
        return shape == "integer" or (shape == "number" and math.isfinite(value))
    return shape == name  # 1.0 is no integer here, as it is none where the answer is restored


def _type(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(_is_type(value, name) for name in names):
        yield f"{path} must be {' or '.join(_WORDS.get(name, str(name)) for name in names)}, not {described(value)}"


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON has it: `true` is not 1, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _enum(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    if not any(_same(value, each) for each in schema["enum"]):
        yield f"{path} must be one of {', '.join(repr(each) for each in schema['enum'])}"


def _const(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    if not _same(value, schema["const"]):
        yield f"{path} must be {schema['const']!r}"


def _all_of(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    for each in schema["allOf"]:
        yield from checker.problems(value, each, path, depth - 1)


def _any_of(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    yield from _choice(checker, value, schema["anyOf"], path, depth, exactly_one=False)


def _one_of(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    yield from _choice(checker, value, schema["oneOf"], path, depth, exactly_one=True)


def _choice(checker: _Checker, value: Any, choices: list[Schema], path: str, depth: int, *, exactly_one: bool) -> Iterator[str]:
    attempts = [list(checker.problems(value, each, path, depth - 1)) for each in choices]
    fitting = sum(not problems for problems in attempts)
    if fitting == 1 or (fitting and not exactly_one):
        return
    if fitting:
        yield f"{path} fits {fitting} of its alternatives, but must fit one"
        return
    # Of several alternatives, tell of the one that came closest: it failed inside the value, not at it.
    inside = [problems for problems in attempts if not any(problem.startswith(f"{path} must be") for problem in problems)]
    if len(inside) == 1:
        yield from inside[0]
    else:
        yield " or ".join(dict.fromkeys("; ".join(problems) for problems in inside or attempts))


def _object(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    """`properties`, `patternProperties` and `additionalProperties`, which depend on each other."""
    if not isinstance(value, dict):
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, item in value.items():
        known = [properties[name]] if name in properties else []
        known += [each for pattern, each in patterns.items() if re.search(pattern, name)]
        for each in known:
            yield from checker.problems(item, each, f"{path}{step_to(name)}", depth - 1)
        if not known and (rest := schema.get("additionalProperties", True)) is not True:
            if rest is False:
                yield f"{path} has a field {name!r} that is not known"
            else:
                yield from checker.problems(item, rest, f"{path}{step_to(name)}", depth - 1)


def _object_once(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    if not any(word in schema for word in ("properties", "patternProperties")):
        yield from _object(checker, value, schema, path, depth)


def _pattern_properties(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    if "properties" not in schema:
        yield from _object(checker, value, schema, path, depth)


def _property_names(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    for name in value if isinstance(value, dict) else ():
        yield from (
            f"{path} has the key {name!r}: {each}" for each in checker.problems(name, schema["propertyNames"], "it", depth - 1)
        )


def _required(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    for name in schema["required"] if isinstance(value, dict) else ():
        if name not in value:
            yield f"{path} lacks the field {name!r}"


def _prefix_items(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    for index, (item, each) in enumerate(zip(value if isinstance(value, list) else (), schema["prefixItems"], strict=False)):
        yield from checker.problems(item, each, f"{path}[{index}]", depth - 1)


def _items(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    first = len(schema.get("prefixItems", ()))
    for index, item in enumerate(value[first:] if isinstance(value, list) else (), first):
        yield from checker.problems(item, schema["items"], f"{path}[{index}]", depth - 1)


def _unique_items(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    if schema["uniqueItems"] and isinstance(value, list):
        for index, item in enumerate(value):
            if any(_same(item, other) for other in value[:index]):
                yield f"{path}[{index}] is there twice"


def _pattern(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        try:
            found = re.search(schema["pattern"], value)
        except re.error:  # a pattern of another dialect than Python's
            return
        if not found:
            yield f"{path} must match {schema['pattern']!r}"


def _bound(
    shapes: tuple[type, ...], measure: Callable[[Any], Any], fits: Callable[[Any, Any], bool], words: str, keyword: str
) -> Check:
    def check(checker: _Checker, value: Any, schema: dict[str, Any], path: str, depth: int) -> Iterator[str]:
        bound = schema[keyword]
        if (
            isinstance(value, shapes)
            and not isinstance(value, bool)
            and isinstance(bound, int | float)
            and not fits(measure(value), bound)
        ):
            yield f"{path} must {words.format(bound)}"

    return check


def _itself(value: Any) -> Any:
    return value


def _divides(value: Any, bound: Any) -> bool:
    return bool(bound == 0 or value % bound == 0)


_NUMBER = (int, float)

_CHECKS: dict[str, Check] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "properties": _object,
    "patternProperties": _pattern_properties,
    "additionalProperties": _object_once,
    "propertyNames": _property_names,
    "required": _required,
    "prefixItems": _prefix_items,
    "items": _items,
    "uniqueItems": _unique_items,
    "pattern": _pattern,
    "minimum": _bound(_NUMBER, _itself, operator.ge, "be at least {}", "minimum"),
    "maximum": _bound(_NUMBER, _itself, operator.le, "be at most {}", "maximum"),
    "exclusiveMinimum": _bound(_NUMBER, _itself, operator.gt, "be more than {}", "exclusiveMinimum"),
    "exclusiveMaximum": _bound(_NUMBER, _itself, operator.lt, "be less than {}", "exclusiveMaximum"),
    "multipleOf": _bound(_NUMBER, _itself, _divides, "be a multiple of {}", "multipleOf"),
    "minLength": _bound((str,), len, operator.ge, "have at least {} characters", "minLength"),
    "maxLength": _bound((str,), len, operator.le, "have at most {} characters", "maxLength"),
    "minItems": _bound((list,), len, operator.ge, "have at least {} items", "minItems"),
    "maxItems": _bound((list,), len, operator.le, "have at most {} items", "maxItems"),
    "minProperties": _bound((dict,), len, operator.ge, "have at least {} fields", "minProperties"),
    "maxProperties": _bound((dict,), len, operator.le, "have at most {} fields", "maxProperties"),
}
