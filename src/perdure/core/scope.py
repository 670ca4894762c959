"""Where in a run's tree of tasks an operation was asked for, and the key that follows from it.

A key is `path/name#n`: the path numbers child tasks by their creation inside their parent, `n` counts this name inside this
task. So keys do not depend on which branch was faster. An explicit key (a tool call's id, an invoice number) replaces `#n`.
"""

from __future__ import annotations

__all__ = ["Scope"]


class Scope:
    """One task's counters."""

    __slots__ = ("children", "counts", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.children = 0
        self.counts: dict[str, int] = {}

    def child(self) -> Scope:
        """The scope of the next task that this one creates."""
        self.children += 1
        return Scope(f"{self.path}.{self.children}" if self.path else str(self.children))

    def key(self, name: str, explicit: str | None = None) -> str:
        """The key of the next operation of this name.

        >>> scope = Scope("").child()
        >>> scope.key("search"), scope.key("search"), scope.key("pay", "invoice-7"), scope.key("pay", "invoice-7")
        ('1/search#0', '1/search#1', '1/pay[invoice-7]', '1/pay[invoice-7]#1')
        """
        if explicit is not None:
            name = f"{name}[{explicit}]"
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        if explicit is not None and number == 0:
            return f"{self.path}/{name}"
        return f"{self.path}/{name}#{number}"
