"""What pages link to, name and have their readers type is there."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup as Group
from typer.main import get_command

from checks.tree import ROOT, tracked
from lucid_cli.main import app

# History keeps the names of its day.
PAGES = [name for name in tracked() if name.endswith(".md") and name != "CHANGELOG.md"]
FOLDERS = sorted({name.partition("/")[0] for name in tracked() if "/" in name})
# What CONTRIBUTING.md has its reader write.
WRITTEN_THERE = {
    "cluster_logs/readers/ledger.py",
    "tests/cluster_logs/data/ledger.csv",
    "simulator/policies/response_ratio.py",
    "simulator/policies/widest_first.py",
}
COMMANDS = get_command(app)
_LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")
_NAMED = re.compile(rf"`((?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]+)`")
_TYPED = re.compile(r"^(?: {4}|\$ |)(?:\.venv/bin/)?lucid ([a-z][^#\n]*)", re.MULTILINE)


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


TYPED = [(name, line) for name in PAGES for line in _TYPED.findall(_text(name).replace("\\\n", " "))]


def test_links_lead_somewhere() -> None:
    wrong = [
        f"{name}: {target}{anchor}"
        for name in PAGES
        for target, anchor in _LINK.findall(_text(name))
        if not _leads_somewhere(ROOT / name, target, anchor.removeprefix("#"))
    ]
    assert wrong == []


def test_files_that_are_named_exist() -> None:
    wrong = [
        f"{name}: {named}"
        for name in PAGES
        for named in _NAMED.findall(_text(name))
        if not any((place / named).exists() for place in (ROOT, (ROOT / name).parent))
    ]
    assert [line for line in wrong if line.partition(": ")[2] not in WRITTEN_THERE] == []


@pytest.mark.parametrize(("name", "line"), TYPED)
def test_a_command_line_is_of_a_command_and_of_options_that_there_are(name: str, line: str) -> None:
    command: Any = COMMANDS
    words = shlex.split(line.replace("&", ""))
    while words and isinstance(command, Group):
        command = command.commands[words.pop(0)]
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert [w for w in words if w.startswith("--") and w.partition("=")[0] not in known] == []


def _leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    linked = page.parent / target if target else page
    if not linked.exists() or linked.suffix != ".md" or not anchor:
        return linked.exists()
    headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in map(_anchor, headings)


def _anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
