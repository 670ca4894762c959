"""A demo's worker: the process that hosts the agent, as `perdure worker` starts it, and that is going to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from . import ledger

__all__ = ["Worker", "WorkerDied"]


class WorkerDied(Exception):
    """The worker ended by itself, or fell silent: neither is in the script."""


class Worker:
    """A running worker of the agents in `module`. What it prints goes to `worker.log` in the demo's folder."""

    def __init__(self, module: str, url: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = folder / "worker.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "perdure", "worker", module, "--db", url],
                env=os.environ | {ledger.FOLDER: str(folder)} | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the terminal's Ctrl-C is for the conductor, which then stops the worker
            )

    @property
    def process(self) -> int:
        """The number of the process."""
        return self._process.pid

    def kill(self) -> int:
        """Kill it with no chance to say goodbye (SIGKILL; TerminateProcess on Windows) and return how it ended."""
        self._process.kill()
        return self._process.wait()

    def check(self) -> None:
        """Raise if it has ended by itself."""
        if self._process.poll() is not None:
            raise WorkerDied(f"process {self.process} ended with {self._process.returncode}. {self._last_words()}")

    def stop(self) -> None:
        """Let it go: ask first, insist after a moment. On an ended one it does nothing."""
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(["Its last words:", *lines[-12:]]) if lines else "It said nothing."
