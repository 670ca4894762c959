"""Finding the code of a worker: modules, files, apps, and one clear error for each thing that is not there."""

import sys

import pytest

from perdure import App
from perdure.cli.loading import load
from perdure.core.errors import ConfigurationError, DefinitionError
from perdure.registry import definitions

SOURCE = "from perdure import App, workflow\n\n@workflow\nasync def act() -> None: ...\n"


@pytest.fixture(autouse=True)
def _imports(monkeypatch, tmp_path):
    """Each test has its own folder, module table and search path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(definitions, "_workflows", dict(definitions._workflows))
    monkeypatch.setattr(definitions, "_steps", dict(definitions._steps))


def refusal(target):
    with pytest.raises(ConfigurationError) as caught:
        load(target)
    return str(caught.value)


def test_a_file_is_named_by_its_stem(tmp_path):
    (tmp_path / "cli_agent.py").write_text(SOURCE)
    loaded = load(str(tmp_path / "cli_agent.py"))
    assert "cli_agent.act" in loaded.workflows and loaded.app is None


def test_a_file_imports_what_lies_beside_it(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "cli_beside.py").write_text(SOURCE)
    (folder / "cli_main.py").write_text("from cli_beside import act\n")
    assert "cli_beside.act" in load("deep/cli_main.py").workflows


def test_a_module_in_this_folder(tmp_path):
    (tmp_path / "cli_package").mkdir()
    (tmp_path / "cli_package" / "__init__.py").write_text("")
    (tmp_path / "cli_package" / "agents.py").write_text(SOURCE)
    assert "cli_package.agents.act" in load("cli_package.agents").workflows


def test_the_only_app_is_found(tmp_path):
    (tmp_path / "cli_one.py").write_text(f"{SOURCE}\nmine = App('sqlite:///one.db')\n")
    app = load("cli_one.py").app
    assert isinstance(app, App) and app.url == "sqlite:///one.db"


def test_one_of_several_apps_must_be_named(tmp_path):
    (tmp_path / "cli_two.py").write_text(f"{SOURCE}\na = App('sqlite:///a.db')\nb = App('sqlite:///b.db')\n")
    told = refusal("cli_two.py")
    assert "more than one App" in told and "cli_two.py:a or cli_two.py:b" in told
    assert load("cli_two.py:b").app.url == "sqlite:///b.db"
    assert load("cli_two:a").app.url == "sqlite:///a.db"


@pytest.mark.parametrize(
    "target, told",
    [
        ("missing.py", "there is no file"),
        ("cli_missing", "there is no module 'cli_missing'"),
        ("cli_missing.agents:app", "there is no module"),
        ("not a module", "neither a module nor a .py file"),
        ("./folder.py", "is a folder"),
        ("cli_empty.py", "defines no workflow"),
        ("cli_broken.py", "ZeroDivisionError"),
        ("cli_unparsed.py", "SyntaxError"),
        ("cli_lacking.py", "No module named 'cli_dependency'"),
        ("cli_good.py:app", "has no attribute 'app'"),
        ("cli_good.py:act", "is not an App"),
        ("json.py", "another module has that name"),
    ],
)
def test_each_mistake_has_its_error(tmp_path, target, told):
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "cli_empty.py").write_text("x = 1\n")
    (tmp_path / "cli_broken.py").write_text("x = 1\n\nx / 0\n")
    (tmp_path / "cli_unparsed.py").write_text("def\n")
    (tmp_path / "cli_lacking.py").write_text("import cli_dependency\n")
    (tmp_path / "cli_good.py").write_text(SOURCE)
    (tmp_path / "json.py").write_text(SOURCE)
    message = refusal(target)
    assert told in message and "PRD-703" in message and "→" in message


def test_an_error_of_the_module_names_the_line(tmp_path):
    (tmp_path / "cli_broken.py").write_text("x = 1\n\nx / 0\n")
    assert "cli_broken.py:3" in refusal("cli_broken.py")


def test_a_wrong_definition_keeps_its_own_error(tmp_path):
    (tmp_path / "cli_wrong.py").write_text("from perdure import workflow\n\n@workflow\ndef act() -> None: ...\n")
    with pytest.raises(DefinitionError) as caught:
        load("cli_wrong.py")
    assert "cli_wrong.py:3" in str(caught.value)


def test_a_module_that_failed_can_be_loaded_once_it_is_mended(tmp_path):
    (tmp_path / "cli_mended.py").write_text("x / 0\n")
    refusal("cli_mended.py")
    (tmp_path / "cli_mended.py").write_text(SOURCE)
    assert "cli_mended.act" in load("cli_mended.py").workflows


RUNS_ITSELF = (
    SOURCE
    + """
import asyncio

app = App("sqlite:///own.db")

async def main():
    async with app:
        raise SystemExit("the program ran")

asyncio.run(main())
"""
)


def test_a_program_without_a_guard_is_stopped_where_it_opens_its_app(tmp_path, caplog):
    (tmp_path / "cli_program.py").write_text(RUNS_ITSELF)
    for target in ("cli_program.py", "cli_program"):
        caplog.clear()
        sys.modules.pop("cli_program", None)
        loaded = load(target)
        assert "cli_program.act" in loaded.workflows
        assert loaded.app is sys.modules["cli_program"].app
        assert "put what runs it under if __name__ == '__main__':" in caplog.text
    assert not (tmp_path / "own.db").exists()
