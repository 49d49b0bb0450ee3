"""The program lists its commands without importing them, in the words that they say themselves."""

import inspect
import os
import subprocess
import sys

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from foundation import parts
from foundation.errors import NotFoundError
from lucid_cli import command_loading
from lucid_cli.command_list import LISTED
from lucid_cli.command_loading import ProgramGroup, listed_commands
from lucid_cli.main import app

COMMANDS = get_command(app).commands
HELP = "import sys; sys.argv = ['lucid', '--help']; from lucid_cli.main import main; "


def _run(code: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "100", **environment},
    ).stdout


@pytest.mark.parametrize("listed", listed_commands(), ids=lambda listed: listed.name)
def test_a_command_says_of_itself_what_the_list_says(listed) -> None:
    group, _, word = listed.name.partition(" ")
    command = COMMANDS[group].commands[word] if word else COMMANDS[group]
    assert command.name == (word or group)
    assert inspect.cleandoc(command.help).split("\n\n")[0].strip() == listed.help


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = HELP + "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "ingest" in done.stdout
    assert not {each.module for each in LISTED} & loaded
    assert not {"numpy", "pydantic", "markdown_it", "pygments"} & loaded


def test_the_help_is_what_typer_shows_by_itself() -> None:
    plainly = "import typer.rich_utils; "
    assert _run(HELP + "main()") == _run(plainly + HELP + "main()")


def test_what_the_renderer_leaves_out_is_there_when_it_is_used() -> None:
    code = (
        "from lucid_cli.help_pages import import_renderer; renderer = import_renderer(); import sys; "
        "assert 'rich.markdown' not in sys.modules; text = renderer.Markdown('# a'); "
        "from rich.markdown import Markdown; print(type(text) is Markdown, "
        "renderer.Traceback.extract.__name__)"
    )
    assert _run(code).split() == ["True", "extract"]


def test_a_shell_completes_commands_of_the_program_and_of_its_groups() -> None:
    code = "from lucid_cli.main import main; import sys; sys.argv = ['lucid']; main()"
    for words, found in (("lucid si", {"simulate", "site"}), ("lucid release li", {"list"})):
        last = str(len(words.split()) - 1)
        asked = {"_LUCID_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": last}
        assert set(_run(code, **asked).split()) == found


def test_a_command_that_is_mistyped_is_found_in_the_list() -> None:
    said = CliRunner().invoke(app, ["simulat"])
    assert said.exit_code == 2
    assert "Did you mean 'simulate'" in " ".join(said.stderr.replace("│", " ").split())


def test_commands_of_parts_that_are_not_installed_are_listed_and_say_so(monkeypatch) -> None:
    monkeypatch.setattr(parts, "installed_parts", tuple)
    monkeypatch.setattr(command_loading, "installed_parts", tuple)
    listed_commands.cache_clear()
    program = typer.Typer(cls=ProgramGroup)
    program.callback()(lambda: None)
    listed = CliRunner().invoke(program, ["--help"])
    said = " ".join(listed.stdout.replace("│", " ").split())
    assert "belongs to the part 'experiments', which is not installed." in said
    for words in (["reproduce", "helios", "--write", "x"], ["live", "kueue", "--help"]):
        called = CliRunner().invoke(program, words)
        assert isinstance(called.exception, NotFoundError), words
    listed_commands.cache_clear()
