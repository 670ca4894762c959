"""The command line: `perdure worker`, `runs`, `inbox`, `answer`, `db`, `demo`.

Each module has the commands of one noun. They use the public API of `App` and `Handle`, and the store's reads where a
person wants to see more than programs do. `commands` prints the errors, `screen` everything else.
"""

from __future__ import annotations

import contextlib
import io
import sys

import click

from perdure import __version__

from .commands import Commands
from .database import database
from .demo import demo
from .inbox import answer, inbox
from .runs import runs
from .worker import worker

__all__ = ["command_line", "main"]

ENDS = """\b
Exit codes:
  0    done
  1    perdure refused or failed; the error has a code such as PRD-203
  2    the command was not understood
  3    what was named is not there: a run, an ask, a database, a module
  130  interrupted

\b
Results go to standard output; errors, hints and progress to standard
error. --json prints one JSON document. NO_COLOR turns colours off."""


@click.group(cls=Commands, epilog=ENDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="perdure %(version)s")
def command_line() -> None:
    """Python agents that survive crashes, deploys and week-long waits."""


for each in (worker, runs, inbox, answer, database, demo):
    command_line.add_command(each)


def main() -> None:
    """The entry point of the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # a terminal that lacks a character shows another one, not a traceback
                stream.reconfigure(errors="replace")
    command_line(prog_name="perdure")
