"""When a failed attempt is tried again, and after how long. Pure arithmetic: the caller brings the time and the randomness."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from .duration import SECOND, Duration, microseconds
from .errors import ConfigurationError, InDoubt, NotRestorable, NotStorable, WrongContext

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NEVER", "Retry", "retry_after"]

DETERMINISTIC = (NotStorable, NotRestorable, InDoubt, WrongContext)
"""Errors that the same call meets again for certain: never retried, whatever `on=` lists."""

PROGRAMMING = (TypeError, AttributeError, NameError)
"""Errors that the same call most likely meets again: retried only if `on=` lists them."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently a step is tried again.

    `attempts` counts all attempts, the first included. The wait before attempt n+1 is `initial * factor ** (n - 1)`, at most
    `max_delay`, of which a random share of up to `jitter` (0 to 1) is taken off. `on` lists the exception classes that are
    retried (default: every `Exception` that is not a programming error), `unless` those that are not. A value that cannot be
    stored is never retried.
    A `Retry-After` that the error carries wins over the computed wait.

    >>> Retry(attempts=5, initial="1s", factor=2).delay(3)
    4000000
    """

    attempts: int = 3
    initial: Duration = "1s"
    factor: float = 2.0
    max_delay: Duration = "5m"
    jitter: float = 0.1
    on: tuple[type[BaseException], ...] | type[BaseException] = ()
    unless: tuple[type[BaseException], ...] | type[BaseException] = ()

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise ConfigurationError(f"retry attempts must be a whole number from 1, not {self.attempts!r}")
        if not self.factor >= 1:
            raise ConfigurationError(f"retry factor must be at least 1, not {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise ConfigurationError(f"retry jitter must be between 0 and 1, not {self.jitter!r}")
        microseconds(self.initial, "retry initial delay")
        microseconds(self.max_delay, "retry max_delay")

    @classmethod
    def of(cls, value: int | Retry | None) -> Retry:
        """The policy for what `@step(retry=...)` was given: a number means that many attempts."""
        if value is None:
            return NEVER
        if isinstance(value, Retry):
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"retry must be a number of attempts or a Retry, not {value!r}")
        return cls(attempts=value)

    def wants(self, error: BaseException, *, listed_only: bool = False) -> bool:
        """Whether this error is worth another attempt; with `listed_only`, only if `on` names it."""
        if isinstance(error, DETERMINISTIC) or (self.unless and isinstance(error, self.unless)):
            return False
        if self.on:
            return isinstance(error, self.on)
        return not listed_only and isinstance(error, Exception) and not isinstance(error, PROGRAMMING)

    def delay(self, attempt: int, chance: float = 0.0) -> int:
        """µs to wait after failed attempt number `attempt`; `chance` in [0, 1) picks the jitter."""
        initial = microseconds(self.initial)
        longest = max(microseconds(self.max_delay), initial)  # a first wait that was asked for is never cut short
        try:
            wait = min(float(longest), initial * self.factor ** (attempt - 1))
        except OverflowError:
            wait = float(longest)
        return round(wait * (1 - self.jitter * chance))


NEVER = Retry(attempts=1)


def retry_after(error: BaseException, now: int) -> int | None:
    """µs that the error asks to wait: its `retry_after` (seconds), or a `Retry-After` header of its `response` (RFC 9110, 10.2.3)."""
    value: Any = getattr(error, "retry_after", None)
    if value is None:
        headers: Mapping[str, str] | None = getattr(getattr(error, "response", None), "headers", None)
        value = headers.get("retry-after") if headers is not None and hasattr(headers, "get") else None
    if value is None:
        return None
    try:
        return max(0, round(float(value) * SECOND))
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        moment = parsedate_to_datetime(str(value))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, (moment - datetime.fromtimestamp(now / SECOND, UTC)) // (datetime.resolution))
