"""`perdure demo`: the agent that is killed and goes on."""

from __future__ import annotations

from pathlib import Path

import click

from perdure.demo import run_demo

from .screen import Screen

__all__ = ["demo"]


@click.command()
@click.option("--keep", metavar="DIR", type=click.Path(path_type=Path), help="Keep the database and files there, to look into.")
def demo(keep: Path | None) -> None:
    """Watch an agent get killed in the middle of a model call, and go on.

    It takes about half a minute and needs neither a key nor a network: the model is scripted, the rest is real.
    """
    click.get_current_context().exit(run_demo(Screen().out, keep=keep))
