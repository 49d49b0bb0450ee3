"""A part is a folder that stands by itself: the core names none; what it brings is known where it lacks."""

import ast
import re

import pytest

from checks.tree import ROOT, nodes, tracked
from foundation.parts import KNOWN, Part, installed_parts

FOLDERS = sorted(path.parent.name for path in ROOT.glob("parts/*/pyproject.toml"))
CORE = (
    *("foundation/", "cluster_logs/", "lucid_models/", "simulator/", "live_scheduler/", "pipeline/"),
    *("plugins/", "dags/", "lucid_cli/", "local_stack/", "mlflow_access/"),
)
# Lists what the parts of a checkout bring, so that one that is not installed can be named.
KNOWN_PARTS = "foundation/parts.py"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_part_has_its_page_its_tests_and_its_entry_point(folder: str) -> None:
    files = {name for name in tracked() if name.startswith(f"parts/{folder}/")}
    assert {f"parts/{folder}/{name}" for name in ("README.md", "part.py", "py.typed")} <= files
    assert any(re.match(rf"parts/{folder}/tests/(\w+/)*test_\w+\.py", name) for name in files)
    assert folder in {part.name for part in installed_parts()}


def test_no_file_of_the_core_names_a_part() -> None:
    named = re.compile(rf"\bparts[./]({'|'.join(FOLDERS)})\b")
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in tracked() if name.startswith(CORE)}
    assert {name for name in text if named.search(text[name])} == {KNOWN_PARTS}


def brought(part: Part) -> set[str]:
    return {
        *(f"policy {name}" for name in part.policies),
        *(f"adapter {name}" for name in part.adapters),
        *(f"model {name}" for name in part.models),
        *(f"table {name}" for name in part.tables),
        *(f"format {name}" for name in part.readers),
        *(f"lucid {command.name}" for command in part.commands),
    }


@pytest.mark.parametrize("part", installed_parts(), ids=lambda part: part.name)
def test_what_a_part_brings_is_known_where_it_is_not_installed(part: Part) -> None:
    assert brought(part) <= set(KNOWN[part.name].brings)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_part_adds_is_read_without_its_imports(folder: str) -> None:
    """MLflow's server, the dead man's switch and the list of commands read it, and have little installed."""
    imported = {node.module for node in nodes(f"parts/{folder}/part.py") if isinstance(node, ast.ImportFrom)}
    assert imported == {"foundation.parts"}
