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
# The files outside its folder that may name a part: these two of each, for their reason, and the pages that
# lead a reader there. At most five in all.
OF_EACH = {KNOWN_PARTS: "what it brings, where it is not installed", "pyproject.toml": "contracts of imports"}
MOST_FILES = 5
PAGES = {
    "characterisation": ("docs/start.md",),
    "elastic": ("docs/policies.md", "docs/start.md"),
    "horus": ("docs/model_quality.md", "docs/policies.md", "docs/profiling.md"),
    "kueue": ("CONTRIBUTING.md", "README.md", "docs/start.md"),
    "lending": ("docs/policies.md", "docs/services.md", "docs/start.md"),
    "node_sleep": ("docs/live_slurm.md", "docs/services.md", "docs/start.md"),
    "waits": ("docs/gate.md", "docs/live_answers.md", "docs/services.md"),
}
# What has parts as its subject, what is generated from all of them, and what tells of the past.
ASIDE = re.compile(
    r"(parts|experiments|benchmarks|tests|checks|findings|docs/decisions)/|CHANGELOG\.md|.*\.lock$|"
    r"docs/(test_tiers|policy_settings|faults)\.md"
)
# A setting of the live scheduler that all adapters heed: nodes for profiling are left out of its pools.
SETTINGS_OF_THE_CORE = {"profiling_partition"}


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


@pytest.mark.parametrize("folder", FOLDERS)
def test_few_files_outside_its_folder_name_a_part(folder: str) -> None:
    named = re.compile(rf"\bparts[./]{folder}\b")
    beside = [name for name in tracked() if not ASIDE.match(name)]
    naming = {name for name in beside if named.search((ROOT / name).read_bytes().decode(errors="ignore"))}
    assert naming == {*OF_EACH, *PAGES.get(folder, ())}
    assert len(naming) <= MOST_FILES


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_file_of_the_core_has_a_name_that_only_a_part_brings(folder: str) -> None:
    """Of its models, settings, tables and options those of several words: one word may mean other things."""
    words = {what.split()[-1].lstrip("-").replace("-", "_") for what in KNOWN[folder].brings}
    own = {word for word in words if "_" in word} - SETTINGS_OF_THE_CORE
    for name in (name for name in tracked() if name.startswith(CORE) and name != KNOWN_PARTS):
        found = own & set(re.findall(r"\w+", (ROOT / name).read_text(encoding="utf-8")))
        assert not found, f"{name} has {found} of parts/{folder}"


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
