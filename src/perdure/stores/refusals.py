"""What every store says when it turns a change down: about runs and promises that are unknown or closed, and what to do."""

from __future__ import annotations

from perdure.core.errors import AlreadyResolved, RunEnded, UnknownRun, UnknownWait

__all__ = ["already_resolved", "run_ended", "unknown_run", "unknown_wait"]

_BECAME = {
    "answered": "was answered",
    "rejected": "was rejected",
    "expired": "has passed its deadline",
    "cancelled": "was cancelled, since its run does not wait for it any more",
}


def unknown_run(run_id: str) -> UnknownRun:
    """No run has this id."""
    return UnknownRun(f"no run has the id {run_id!r}", run=run_id, hint="perdure runs list shows the runs there are")


def run_ended(run_id: str, status: str, consequence: str) -> RunEnded:
    """The run has ended, and `consequence`."""
    return RunEnded(
        f"run {run_id} has ended ({status}) and {consequence}",
        run=run_id,
        hint=f"perdure runs show {run_id} shows its outcome; to go on, start another run",
    )


def unknown_wait(promise_id: str) -> UnknownWait:
    """No promise has this id."""
    return UnknownWait(f"no ask or promise has the id {promise_id!r}", hint="perdure inbox shows the open ones")


def already_resolved(promise_id: str, state: str, by: str, run_id: str) -> AlreadyResolved:
    """The promise has its outcome; what came now changed nothing."""
    who = f" by {by}" if by and state in ("answered", "rejected") else ""
    return AlreadyResolved(
        f"{promise_id} {_BECAME.get(state, f'is {state}')}{who}; nothing was changed",
        run=run_id,
        hint=f"perdure runs show {run_id} shows what came of it",
    )
