"""perdure: durable execution for long-running AI agents.

Ordinary async Python whose runs survive crashes, deploys and long waits: every step is journaled and never computed twice.
"""

from perdure.app import App
from perdure.call import Call
from perdure.child import ChildHandle, start
from perdure.context import current_run, current_step, now, patched, publish, rng, sleep_until, uuid4
from perdure.core.errors import (
    AlreadyResolved,
    ConfigurationError,
    DefinitionError,
    Diverged,
    Drifted,
    DuplicateRun,
    InDoubt,
    InvalidAnswer,
    NotRestorable,
    NotStorable,
    PayloadTooLarge,
    PerdureError,
    Poisoned,
    Refused,
    RunBlocked,
    RunCancelled,
    RunEnded,
    RunFailed,
    Spinning,
    StepError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreNewer,
    StoreUnavailable,
    Stuck,
    UnknownRun,
    UnknownWait,
    UnknownWorkflow,
    WrongContext,
)
from perdure.core.retry import Retry
from perdure.core.status import Status
from perdure.effects import NOT_HAPPENED, UNKNOWN, happened
from perdure.handle import Handle
from perdure.listing import HistoryEntry, OpenPromise, Page, RunInfo, WorkerInfo
from perdure.promise import Promise, ask, promise
from perdure.signal import Message, receive, send
from perdure.step import Step, step
from perdure.workflow import Workflow, workflow

__version__ = "0.1.0"

__all__ = [
    "NOT_HAPPENED",
    "UNKNOWN",
    "AlreadyResolved",
    "App",
    "Call",
    "ChildHandle",
    "ConfigurationError",
    "DefinitionError",
    "Diverged",
    "Drifted",
    "DuplicateRun",
    "Handle",
    "HistoryEntry",
    "InDoubt",
    "InvalidAnswer",
    "Message",
    "NotRestorable",
    "NotStorable",
    "OpenPromise",
    "Page",
    "PayloadTooLarge",
    "PerdureError",
    "Poisoned",
    "Promise",
    "Refused",
    "Retry",
    "RunBlocked",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "RunInfo",
    "Spinning",
    "Status",
    "Step",
    "StepError",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreNewer",
    "StoreUnavailable",
    "Stuck",
    "UnknownRun",
    "UnknownWait",
    "UnknownWorkflow",
    "WorkerInfo",
    "Workflow",
    "WrongContext",
    "ask",
    "current_run",
    "current_step",
    "happened",
    "now",
    "patched",
    "promise",
    "publish",
    "receive",
    "rng",
    "send",
    "sleep_until",
    "start",
    "step",
    "uuid4",
    "workflow",
]
