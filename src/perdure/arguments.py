"""What the app's verbs are given, checked: ids, tags, priorities, filters. Each raises `ConfigurationError` saying what it takes."""

from __future__ import annotations

import base64
import reprlib
import secrets
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.core.errors import ConfigurationError
from perdure.core.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["page_start", "positive", "priority", "run_id", "stamp", "statuses", "tags"]

PRIORITIES = 1 << 31
LONGEST_ID = 500


def positive(value: int, what: str) -> int:
    """A number of which there must be at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{what} must be a positive number, not {value!r}")
    return value


def run_id(id: str | None) -> str:
    """A run's id as given, or a random one."""
    if id is None:
        return base64.b32encode(secrets.token_bytes(10)).decode().lower()
    if not isinstance(id, str) or not id or len(id) > LONGEST_ID or not id.isprintable():
        raise ConfigurationError(f"a run's id must be printable text of 1 to {LONGEST_ID} characters, not {reprlib.repr(id)}")
    return id


def tags(tags: Iterable[str]) -> list[str]:
    """Tags, each once, in order."""
    given = [tags] if isinstance(tags, str) else list(tags)
    for tag in given:
        if not isinstance(tag, str) or not tag:
            raise ConfigurationError(f"a tag must be text, not {tag!r}")
    return sorted(set(given))


def priority(priority: int) -> int:
    """A priority, as far as every store can keep it."""
    if isinstance(priority, bool) or not isinstance(priority, int) or not -PRIORITIES <= priority < PRIORITIES:
        raise ConfigurationError(f"priority must be a whole number of at most 32 bits, not {priority!r}")
    return priority


def statuses(status: Any) -> list[str]:
    """Statuses to list, as stored."""
    given = [] if status is None else [status] if isinstance(status, str) else list(status)
    try:
        return [Status(each).value for each in given]
    except ValueError as error:
        raise ConfigurationError(f"{error}", hint=f"one of {', '.join(Status)}") from None


def stamp(moment: datetime | None) -> int:
    """A moment in µs since the epoch; 0 for none."""
    if moment is None:
        return 0
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigurationError(
            f"since and until must be aware datetimes, not {moment!r}", hint="datetime.now(UTC) - timedelta(days=1)"
        )
    return round(moment.timestamp() * 1_000_000)


def page_start(after: str | None) -> int:
    """The run number that a page's `next` stands for; 0 for the first page."""
    if after is None:
        return 0
    if not after.isdigit():
        raise ConfigurationError(f"{after!r} is not the `next` of a page of runs")
    return int(after)
