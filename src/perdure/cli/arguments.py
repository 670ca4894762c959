"""What people type, as values: moments, lengths of time, JSON."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from perdure.core.duration import microseconds
from perdure.core.errors import ConfigurationError

__all__ = ["JSON", "Length", "Moment", "parse_json"]


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A moment: an ISO 8601 date or time (local unless it says otherwise), or how long ago, as `2h`."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The aware datetime."""
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except ValueError:
            pass
        try:
            return datetime.now(UTC) - timedelta(microseconds=microseconds(value, "moment"))
        except (ConfigurationError, OverflowError):
            self.fail(
                f"{value!r} is no moment: write 2026-05-01, '2026-05-01 14:30', or how long ago as 90s, 2h, 7d", param, ctx
            )


class Length(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A length of time, checked here so that a wrong one is told at once."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself."""
        try:
            microseconds(value, "it")
        except ConfigurationError as error:
            self.fail(f"{error.message}: {error.hint}" if error.hint else error.message, param, ctx)
        return str(value)


class JSON(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A JSON value. Text needs its quotes: the error shows how to write them for a shell."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The decoded value."""
        if not isinstance(value, str):
            return value
        try:
            return parse_json(value)
        except ValueError as error:
            quoted = shlex.quote(msgspec.json.encode(value).decode())
            self.fail(f"{value!r} is not JSON ({error}). Is it text? Then write {quoted}", param, ctx)


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError` with the reason."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error).removeprefix("JSON is malformed: ")) from None
    except (RecursionError, UnicodeError) as error:
        raise ValueError(str(error)) from None
