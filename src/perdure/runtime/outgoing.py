"""What a run's commands become outside of it: the start of a child, the schema kept with a promise, the error of a refusal."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from perdure.core.errors import DuplicateRun, RunEnded, UnknownRun
from perdure.core.payload import pack
from perdure.stores.base import Start

if TYPE_CHECKING:
    from perdure.core.codec import Schema
    from perdure.core.errors import PerdureError
    from perdure.core.operation import ChildRequest
    from perdure.stores.base import Conflict

    from .driver import Driver

__all__ = ["child_start", "refused", "schema_text"]


def child_start(driver: Driver, key: str, request: ChildRequest, now: int) -> Start:
    """The change that starts a child run."""
    packed, blobs = pack(request.input, cap=driver.worker.options.payload_cap, where=f"arguments of {request.workflow}")
    driver.had_children = True
    return Start(
        id=request.id,
        workflow=request.workflow,
        input=packed,
        digest=hashlib.blake2b(request.input, digest_size=16).digest(),
        at=now,
        due_at=now,
        parent=driver.number,
        parent_key=key,
        detached=request.detached,
        deadline_at=now + request.deadline if request.deadline else 0,
        blobs=blobs,
        **request.options,
    )


@lru_cache(maxsize=256)
def schema_text(schema: Schema[object]) -> str:
    """A codec schema as the JSON Schema that is kept with a promise."""
    return msgspec.json.encode(schema.json_schema()).decode()


def refused(driver: Driver, key: str, conflict: Conflict) -> None:
    """A command turned out impossible: its code is told, when it is issued again.

    Not of a child whose id nobody chose: it is given another one, since the children of a run that was replaced keep theirs.
    """
    operation = driver.open_command(key)
    if operation is not None and conflict.kind == "child":
        request: ChildRequest = operation.request
        suffix = f"~{driver.number}"
        if request.derived and not request.id.endswith(suffix):
            request.id += suffix
            return
    driver.failures[key] = _error(conflict, driver.id)


def _error(conflict: Conflict, run: str) -> PerdureError:
    """What workflow code is told when a command of its turned out impossible."""
    if conflict.kind == "child":
        return DuplicateRun(conflict.detail, run=run, hint="give the child an id= of its own")
    kind = RunEnded if conflict.ended else UnknownRun
    return kind(conflict.detail, run=run)
