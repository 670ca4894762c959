"""What an execution leaves behind besides its journal: how the function ended, and where its steps drifted. Data only."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from .payload import references, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Drift", "Ended"]

SHOWN = 200
"""Characters of a value that people are shown."""


class Drift:
    """A step whose arguments differ from the recorded ones; its recorded result stands. Shown only on demand."""

    __slots__ = ("asked", "fn", "key", "recorded")

    def __init__(self, key: str, recorded: bytes, asked: bytes, fn: Callable[..., Any]) -> None:
        self.key, self.recorded, self.asked, self.fn = key, recorded, asked, fn

    def __str__(self) -> str:
        return f"{self.key} is asked for with other arguments than recorded: {'; '.join(self.differences())}"

    def differences(self) -> list[str]:
        """Each argument that differs, by its name, with both values."""
        if not self.recorded or not self.asked:
            return ["they were not recorded, only their digest was"]
        if references(self.recorded):
            return [f"recorded (large), now {_short(self.asked)}"]
        recorded, asked = unpack(self.recorded), self.asked
        names = _parameters(self.fn)
        before, after = dict(_named(recorded, names)), dict(_named(asked, names))
        told = [
            f"{name} was {before.get(name, 'not given')}, now {after.get(name, 'not given')}"
            for name in {**before, **after}
            if before.get(name) != after.get(name)
        ]
        return told or [f"recorded {_short(recorded)}, now {_short(asked)}"]


def _parameters(fn: Callable[..., Any]) -> list[str]:
    """The names of a step's parameters. The object of a method is no argument of its step."""
    try:
        names = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return []
    return names[1:] if names[:1] == ["self"] else names


def _named(arguments: bytes, names: list[str]) -> Iterator[tuple[str, str]]:
    """The arguments of a call by name: those given by position, then an object of those given by name, if there were any."""
    values = msgspec.json.decode(arguments, type=list[msgspec.Raw])
    for index, value in enumerate(values):
        if index == len(values) - 1 and bytes(value).startswith(b"{"):
            given = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
            if given and given.keys() <= set(names[index:]):
                for name, each in given.items():
                    yield name, _short(bytes(each))
                return
        yield names[index] if index < len(names) else f"argument {index + 1}", _short(bytes(value))


def _short(json: bytes) -> str:
    text = json.decode(errors="replace")
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


class Ended:
    """How the function ended: `status` is succeeded, failed or cancelled; `data` is the JSON of its result or error."""

    __slots__ = ("data", "status")

    def __init__(self, status: str, data: bytes) -> None:
        self.status, self.data = status, data
