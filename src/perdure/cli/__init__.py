"""The command line: `perdure worker`, `runs`, `inbox`, `answer`, `db`, `demo`.

Each module has the commands of one noun. They use the public API of `App` and `Handle`, and the store's reads where a
person wants to see more than programs do. Errors are printed here, in one place: code, what happened, where, what to do.
"""

from __future__ import annotations

import contextlib
import io
import sys
from difflib import get_close_matches
from typing import Any

import click

from perdure.core.errors import PerdureError, UnknownRun, UnknownWait

from .database import database
from .demo import demo
from .inbox import answer, inbox
from .loading import MissingCode
from .runs import runs
from .screen import Screen
from .session import MissingDatabase
from .worker import worker

__all__ = ["main", "perdure"]

ENDS = """\b
Exit codes:
  0    done
  1    perdure refused or failed; the error has a code such as PRD-203
  2    the command was not understood
  3    what was named is not there: a run, an ask, a database, a module
  130  interrupted

Errors and hints go to standard error, results to standard output. --json
prints one JSON document. NO_COLOR turns colours off."""


class Commands(click.Group):
    """A group that prints perdure's errors, and names the nearest command for one that it does not know."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PerdureError as error:
            Screen().error(error)
            missing = isinstance(error, UnknownRun | UnknownWait | MissingDatabase | MissingCode)
            ctx.exit(3 if missing else 1)
        except KeyboardInterrupt:
            Screen().note("interrupted", "yellow")
            ctx.exit(130)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = get_close_matches(args[0], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(known)}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, epilog=ENDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="perdure", message="perdure %(version)s")
def perdure() -> None:
    """Python agents that survive crashes, deploys and week-long waits."""


for each in (worker, runs, inbox, answer, database, demo):
    perdure.add_command(each)


def main() -> None:
    """The entry point of the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # a terminal that lacks a character gets a question mark, not a traceback
                stream.reconfigure(errors="replace")
    perdure(prog_name="perdure")
