"""What every command has in common: help, colours, pipes, narrow terminals."""

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from perdure.cli import command_line
from perdure.cli.screen import Screen


def commands(group=command_line, path=()):
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


@pytest.mark.parametrize(
    "path, command", list(commands()), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_has_help_within_80_columns(path, command):
    result = CliRunner().invoke(command_line, [*path, "--help"], prog_name="perdure", terminal_width=80)
    assert result.exit_code == 0
    assert command.help and all(len(line) <= 80 for line in result.output.splitlines())
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help, f"{path} {option.name} has no help"


def test_help_documents_the_exit_codes():
    output = CliRunner().invoke(command_line, ["--help"]).output
    assert all(f"  {code} " in output for code in (0, 1, 2, 3, 130))


LISTINGS = [
    ["runs", "list"],
    ["runs", "show", "research-1"],
    ["runs", "why", "asking-bool"],
    ["inbox"],
    ["db", "info"],
    ["db", "check"],
]


@pytest.mark.parametrize("command", LISTINGS, ids=" ".join)
def test_every_listing_prints_one_json_document(perdure, command):
    result = perdure(*command, "--json")
    assert isinstance(result.json, dict) and result.err == ""


@pytest.mark.parametrize("command", LISTINGS, ids=" ".join)
def test_nothing_piped_has_colours_or_trailing_blanks(perdure, command):
    result = perdure(*command)
    assert "\x1b" not in result.out + result.err
    assert all(line == line.rstrip() for line in result.out.splitlines())


def terminal(width, **options):
    screen = Screen()
    screen.out = Console(force_terminal=True, width=width, markup=False, highlight=False, record=True, **options)
    return screen


def test_a_table_fits_a_terminal_and_keeps_what_must_be_kept(capsys):
    terminal(40, no_color=True).table(
        ("id", "empty", "value"), [("run-1234567890", "", "v" * 80), ("r", "", "short")], keep=(0,)
    )
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 50 and "run-1234567890" in lines[1] and lines[1].rstrip("\x1b[0m").endswith("…")
    assert "EMPTY" not in lines[0]


def test_a_full_table_goes_on_below(capsys):
    terminal(40, no_color=True).table(("id", "value"), [("run-1", "word " * 30)], full=True)
    assert capsys.readouterr().out.count("word") == 30


def test_a_table_with_an_id_wider_than_the_terminal_loses_nothing(capsys):
    terminal(30, no_color=True).table(("id", "value"), [("i" * 60, "value")], keep=(0,))
    assert "i" * 60 in capsys.readouterr().out


def test_text_of_users_is_never_taken_for_markup(perdure):
    assert "[/nothing]" in perdure("runs", "show", "[/nothing]", code=3).err
