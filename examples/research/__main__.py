"""`python -m examples.research`: a research agent with a real language model, killed twice, finishes its report once.

It uses the model that `OPENAI_BASE_URL` and `OPENAI_API_KEY` name, else a small one served on this machine.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import Console

from perdure import PerdureError
from perdure.demo.screen import Screen
from perdure.demo.stage import Stage, WorkerDied, perform, place

from . import closing
from .conductor import MODULE, play
from .local_model import TINY, ModelMissing, serve
from .model import environment_has_model

CLONE = Path(__file__).parents[2]
QUESTION = "How does perdure survive a crash?"


@click.command()
@click.option("--question", default=QUESTION, show_default=True, help="What the report is to answer.")
@click.option(
    "--library",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=CLONE,
    help="A folder of .md and .txt documents. Default: the project's own.",
)
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), help="A folder to keep the journal and the report in."
)
def main(question: str, library: Path, keep: Path | None) -> None:
    """Research a question in a folder of documents, by an agent that is killed twice."""
    console = Console()
    screen = Screen(console)
    screen.say("A research agent is killed twice, by SIGKILL, and finishes its report once", "bold")
    try:
        with place(keep) as folder, _model(console, screen, folder) as environment:
            stage = Stage(screen, folder, MODULE, environment)
            report = folder / "report.md"
            tally = perform(play(stage, question, library.resolve(), report))
            closing.show(screen, stage, tally, report, keep)
    except (FileExistsError, ModelMissing, PerdureError, WorkerDied) as problem:
        screen.say(f"The demo stopped: {problem}", "red")
        sys.exit(1)


@contextlib.contextmanager
def _model(console: Console, screen: Screen, folder: Path) -> Iterator[Mapping[str, str]]:
    """What the worker's environment needs beside ours to find its model."""
    if environment_has_model():
        screen.say(f"The model is the one at {os.environ.get('OPENAI_BASE_URL', 'the default address of the client')}.\n")
        yield {}
        return
    screen.say(f"The model is {TINY}, on this machine. It is tiny, and its prose is poor: look at the kills.\n")
    with contextlib.ExitStack() as stack:
        with console.status("loading the model (a few seconds, more on the first run)"):
            model = stack.enter_context(serve(folder))
        screen.line("model", f"process {model.process} serves it on loopback, loaded in {model.seconds:.1f} s")
        yield model.environment()


main()
