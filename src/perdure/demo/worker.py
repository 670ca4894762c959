"""A demo's worker: the process that hosts the agent, and that is going to be killed.

Run as a module, this file is `perdure worker` with one thing added: it ends when its conductor does, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
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
                [sys.executable, "-m", "perdure.demo.worker", "worker", module, "--db", url],
                env=os.environ | {ledger.FOLDER: str(folder)} | dict(environment or {}),
                stdin=subprocess.PIPE,  # says nothing: its end is the conductor's
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
        return self._ended()

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
            self._process.kill()
        self._ended()

    def _ended(self) -> int:
        assert self._process.stdin is not None  # a pipe, as it was started
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        return self._process.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(["Its last words:", *lines[-12:]]) if lines else "It said nothing."


def _end_with_conductor() -> None:
    """Wait for the end of the input, and end at once: a killed worker loses nothing."""
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    from perdure.cli import main

    threading.Thread(target=_end_with_conductor, daemon=True).start()
    main()
