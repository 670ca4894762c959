"""Values that are stored as one JSON string: dates and times, UUID, Decimal, bytes, paths, addresses.

Each kind has a writer and a reader that are exact inverses for exactly this class; what the text could not carry is refused.
"""
# ruff: noqa: D102 - what `dump`, `load` and `describe` do is said once, by `Node`

from __future__ import annotations

import base64
import datetime as dt
import decimal
import fractions
import ipaddress
import pathlib  # noqa: TID251 - paths are values here, no file is touched
import re
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

import msgspec

from .naming import name_of
from .node import Definitions, Node
from .refusal import Refusal

__all__ = ["PATHS", "TEXT_NODES", "TextNode"]


class TextNode(Node):
    """One class whose values are written as text. `text_format` is the JSON Schema `format`, if one fits."""

    shapes = frozenset({"string"})
    key = "text"

    def __init__(self, kind: type, write: Callable[[Any], str], read: Callable[[str], Any], text_format: str = "") -> None:
        self.kind = kind
        self.label = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        self.classes = (kind,)
        self._write = write
        self._read = read
        self._format = text_format

    def dump(self, value: Any) -> str:
        if type(value) is not self.kind:
            raise self.refuse_value(value)
        return self._write(value)

    def load(self, plain: Any) -> Any:
        if type(plain) is not str:
            raise self.refuse_plain(plain)
        try:
            return self._read(plain)
        except (ValueError, ArithmeticError, LookupError, TypeError, msgspec.ValidationError) as problem:
            raise Refusal(f"is stored as {plain[:60]!r}, which is no {self.label} ({problem})") from None

    def describe(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "string", "format": self._format} if self._format else {"type": "string"}


# ── dates and times ─────────────────────────────────────────────────────────────────────────────────────────────────
# ISO 8601, and behind it in brackets what ISO cannot say: the zone's name (as RFC 9557 has it) and the second of two
# equal wall times. Without the zone's name, adding a day across a clock change would give another hour than before.

_SUFFIX = re.compile(r"\[([^\]]+)\]$")
_FOLD = "fold=1"


def _zone_name(zone: dt.tzinfo | None) -> str:
    """What to write in brackets for a time zone; `Refusal` for one that cannot be found again by name."""
    if zone is None:
        return ""
    if type(zone) is dt.timezone:
        if zone.tzname(None) != dt.timezone(zone.utcoffset(None)).tzname(None):
            raise Refusal(f"has a time zone named {zone.tzname(None)!r}, which would be lost", "use zoneinfo.ZoneInfo")
        return ""
    if type(zone) is zoneinfo.ZoneInfo and zone.key:
        return zone.key
    raise Refusal(f"has a {name_of(type(zone))} as its time zone", "use zoneinfo.ZoneInfo or datetime.UTC")


def _write_moment(value: Any) -> str:
    name = _zone_name(value.tzinfo)
    text: str = value.isoformat()
    if name:
        text += f"[{name}]"
    return f"{text}[{_FOLD}]" if value.fold else text


def _suffixes(text: str) -> tuple[str, str, int]:
    """The ISO part, the zone's name and the fold."""
    fold, zone = 0, ""
    while match := _SUFFIX.search(text):
        if match[1] == _FOLD:
            fold = 1
        else:
            zone = match[1]
        text = text[: match.start()]
    return text, zone, fold


def _read_datetime(text: str) -> dt.datetime:
    bare, zone, fold = _suffixes(text)
    value = dt.datetime.fromisoformat(bare).replace(fold=fold)
    if not zone:
        return value
    zoned = value.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    if zoned.utcoffset() != value.utcoffset():
        raise ValueError(f"{zone} has another offset by now")
    return zoned


def _read_time(text: str) -> dt.time:
    bare, zone, fold = _suffixes(text)
    value = dt.time.fromisoformat(bare).replace(fold=fold)
    return value.replace(tzinfo=zoneinfo.ZoneInfo(zone)) if zone else value


def _write_duration(value: dt.timedelta) -> str:
    text: str = msgspec.to_builtins(value)
    return text


def _read_duration(text: str) -> dt.timedelta:
    return msgspec.convert(text, dt.timedelta)


# ── numbers and bytes ───────────────────────────────────────────────────────────────────────────────────────────────


def _write_decimal(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise Refusal(f"is {value}, which has no number", "put None or text in its place")
    return str(value)


def _read_decimal(text: str) -> decimal.Decimal:
    value = decimal.Decimal(text)
    if not value.is_finite():
        raise ValueError("not finite")
    return value


def _write_bytes(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _read_bytearray(text: str) -> bytearray:
    return bytearray(_read_bytes(text))


TEXT_NODES: dict[type, TextNode] = {
    node.kind: node
    for node in (
        TextNode(dt.datetime, _write_moment, _read_datetime, "date-time"),
        TextNode(dt.date, dt.date.isoformat, dt.date.fromisoformat, "date"),
        TextNode(dt.time, _write_moment, _read_time, "time"),
        TextNode(dt.timedelta, _write_duration, _read_duration, "duration"),
        TextNode(uuid.UUID, str, uuid.UUID, "uuid"),
        TextNode(decimal.Decimal, _write_decimal, _read_decimal, "decimal"),
        TextNode(fractions.Fraction, str, fractions.Fraction),
        TextNode(bytes, _write_bytes, _read_bytes, "byte"),
        TextNode(bytearray, _write_bytes, _read_bytearray, "byte"),
        TextNode(pathlib.PurePosixPath, str, pathlib.PurePosixPath),
        TextNode(pathlib.PureWindowsPath, str, pathlib.PureWindowsPath),
        TextNode(type(pathlib.Path()), str, pathlib.Path),
        TextNode(ipaddress.IPv4Address, str, ipaddress.IPv4Address, "ipv4"),
        TextNode(ipaddress.IPv6Address, str, ipaddress.IPv6Address, "ipv6"),
        TextNode(zoneinfo.ZoneInfo, _zone_name, zoneinfo.ZoneInfo),
    )
}

# `Path` is annotated, but its values are of the platform's own class.
PATHS: dict[type, TextNode] = {
    pathlib.Path: TEXT_NODES[type(pathlib.Path())],
    pathlib.PurePath: TEXT_NODES[type(pathlib.PurePath())],
}
