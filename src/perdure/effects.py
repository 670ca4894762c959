"""What a `probe=` answers when it is asked whether a step's effect happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["NOT_HAPPENED", "UNKNOWN", "ProbeAnswer", "happened"]


@dataclass(frozen=True)
class ProbeAnswer:
    """The answer of a probe: `outcome` is happened, not_happened or unknown."""

    outcome: str
    value: Any = None


def happened(value: Any = None) -> ProbeAnswer:
    """The effect happened; `value` is what the step would have returned.

    >>> happened("receipt-7").outcome
    'happened'
    """
    return ProbeAnswer("happened", value)


NOT_HAPPENED = ProbeAnswer("not_happened")
"""The effect did not happen. It counts only once the old attempt has provably ended."""

UNKNOWN = ProbeAnswer("unknown")
"""The outside world cannot tell: the step stays in doubt."""
