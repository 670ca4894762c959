"""Groups of commands: they print perdure's errors in one way, and name the nearest command for an unknown one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import click

from perdure.core.errors import PerdureError, UnknownRun, UnknownWait

from .loading import MissingCode
from .screen import Screen
from .session import MissingDatabase

__all__ = ["FAILED", "INTERRUPTED", "MISSING", "Commands"]

FAILED, MISSING, INTERRUPTED = 1, 3, 130


class Commands(click.Group):
    """A group whose commands may raise `PerdureError`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes a few lines and an exit code."""
        try:
            return super().invoke(ctx)
        except PerdureError as error:
            Screen().error(error)
            missing = isinstance(error, UnknownRun | UnknownWait | MissingDatabase | MissingCode)
            ctx.exit(MISSING if missing else FAILED)
        except KeyboardInterrupt:
            Screen().note("interrupted")
            ctx.exit(INTERRUPTED)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = get_close_matches(args[0], known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)
