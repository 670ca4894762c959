"""Lengths of time as people write them (`"60s"`, `"7d"`, `90`, a `timedelta`), kept as whole microseconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from .errors import ConfigurationError

__all__ = ["SECOND", "Duration", "microseconds", "show"]

Duration = str | int | float | timedelta
"""A length of time: a number of seconds, a `timedelta`, or text such as `"1h30m"`, `"250ms"`, `"7d"`."""

SECOND = 1_000_000
_UNITS = {"us": 1, "ms": 1_000, "s": SECOND, "m": 60 * SECOND, "h": 3_600 * SECOND, "d": 86_400 * SECOND, "w": 604_800 * SECOND}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)\s*")


def microseconds(value: Duration, what: str = "duration") -> int:
    """The length in microseconds.

    Raises `ConfigurationError` for a negative, infinite or unreadable one, naming `what`.

    >>> microseconds("1h30m"), microseconds(2.5), microseconds(timedelta(days=1))
    (5400000000, 2500000, 86400000000)
    """
    if isinstance(value, timedelta):
        total = value // timedelta(microseconds=1)
    elif isinstance(value, str):
        total = _parse(value, what)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        total = round(value * SECOND)
    else:
        raise ConfigurationError(f"{what} must be seconds, a timedelta or text such as '90s', not {value!r}")
    if total < 0:
        raise ConfigurationError(f"{what} must not be negative, got {value!r}")
    return total


def _parse(text: str, what: str) -> int:
    total, end = 0.0, 0
    for match in _PART.finditer(text.strip()):
        if match.start() != end:
            break
        total += float(match[1]) * _UNITS[match[2]]
        end = match.end()
    if not text.strip() or end != len(text.strip()):
        raise ConfigurationError(
            f"{what} {text!r} is not a length of time", hint="write a number and a unit: '250ms', '60s', '1h30m', '7d', '2w'"
        )
    return round(total)


def show(length: int) -> str:
    """The length as people read it, at most two units.

    >>> show(5_400_000_000), show(250_000), show(0)
    ('1h 30m', '250ms', '0s')
    """
    if length < SECOND:
        return f"{length // 1000}ms" if length >= 1000 else ("0s" if length <= 0 else f"{length}us")
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, length = divmod(length, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(parts)
