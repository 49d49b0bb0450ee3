"""What the pages on the live scheduler name is there."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command

from lucid_cli.main import app

PAGES = [Path(f"docs/live_{name}.md") for name in ("slurm", "kubernetes", "answers")]
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in Path("tests").rglob("test_*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_files_and_links_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in TESTS, name
    for name in re.findall(r"`((?:live_scheduler|tests|docs)/[\w./]+\.\w+)`", text):
        assert Path(name).is_file(), name
    for target, anchor in re.findall(r"\]\(([\w./]*)(#[\w-]+)?\)", text):
        linked = page if not target else page.parent / target
        assert linked.exists(), target
        if anchor and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor[1:] in [_anchor(heading) for heading in headings], f"{target}{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_options_exist(page: Path) -> None:
    shown = re.findall(r"^(?: {4}|\$ |)lucid ([^#\n]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown
    for line in shown:
        command: Any = get_command(app)
        words = shlex.split(line.replace("&", ""))
        while words and isinstance(command, Group):
            command = command.commands[words.pop(0)]
        known = {
            name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
        }
        for word in words:
            assert not word.startswith("--") or word.partition("=")[0] in known, line


def _anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
