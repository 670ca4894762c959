"""Stubs: what a step does in a test instead of its body."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["Stub"]

MISSING: Any = object()


class Stub:
    """Stands in for a step's body; `calls` lists the arguments of each attempt.

    `returns` is the result, `raises` the error, `side_effect` a function called with the step's arguments (async or not) or a
    list of results and errors, one per attempt.
    """

    def __init__(
        self, returns: Any = MISSING, raises: BaseException | type[BaseException] | None = None, side_effect: Any = None
    ) -> None:
        given = [returns is not MISSING, raises is not None, side_effect is not None]
        if sum(given) != 1:
            raise TypeError("a stub needs exactly one of returns=, raises= and side_effect=")
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._returns = returns
        self._raises = raises
        self._effects = iter(side_effect) if side_effect is not None and not callable(side_effect) else None
        self._function = side_effect if callable(side_effect) else None

    @property
    def called(self) -> int:
        """How many attempts there were."""
        return len(self.calls)

    async def body(self, *args: Any, **kwargs: Any) -> Any:
        """What runs instead of the step's function."""
        self.calls.append((args, kwargs))
        if self._raises is not None:
            raise self._raises
        if self._function is not None:
            result = self._function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        if self._effects is not None:
            effect = next(self._effects, MISSING)
            if effect is MISSING:
                raise AssertionError(f"the stub was called {self.called} times and has no more effects")
            if isinstance(effect, BaseException) or (inspect.isclass(effect) and issubclass(effect, BaseException)):
                raise effect
            return effect
        return self._returns
