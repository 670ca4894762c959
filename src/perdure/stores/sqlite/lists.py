"""Lists for people: runs and promises by filters, in pages. This module may not be used on a hot path."""

from __future__ import annotations

import msgspec

from perdure.stores.base import Filter
from perdure.stores.rows import PromiseRow, RunRow

from .connection import Connection
from .reading import promise_of, run_of

__all__ = ["list_promises", "list_runs"]

_LAST = "\U0010ffff"  # sorts after every other character


def list_runs(connection: Connection, filter: Filter) -> list[RunRow]:
    """A page of runs, newest first."""
    tags = list(dict.fromkeys(filter.tags))
    wanted = {
        "list_before": filter.before,
        "list_statuses": filter.statuses,
        "list_workflow": filter.workflow,
        "list_tags": tags,
        "list_prefix": filter.id_prefix,
        "list_created_from": filter.created_from,
        "list_created_until": filter.created_until,
    }
    rows = connection.rows_where(
        "list_runs",
        [condition for condition, value in wanted.items() if value],
        {
            "before": filter.before,
            "statuses": msgspec.json.encode(filter.statuses).decode(),
            "workflow": filter.workflow,
            "tags": msgspec.json.encode(tags).decode(),
            "tag_count": len(tags),
            "prefix": filter.id_prefix,
            "prefix_end": filter.id_prefix + _LAST,
            "created_from": filter.created_from,
            "created_until": filter.created_until,
            "limit": filter.limit,
        },
    )
    return [run_of(row) for row in rows]


def list_promises(
    connection: Connection, *, open_only: bool, run: int, kind: str, to: str, after: str, limit: int
) -> list[PromiseRow]:
    """A page of promises and asks, oldest first."""
    wanted = {
        "promises_open": open_only,
        "promises_run": run,
        "promises_kind": kind,
        "promises_to": to,
        "promises_after": after,
    }
    rows = connection.rows_where(
        "list_promises",
        [condition for condition, value in wanted.items() if value],
        {"run": run, "kind": kind, "to": to, "after": after, "limit": limit},
    )
    return [promise_of(row) for row in rows]
