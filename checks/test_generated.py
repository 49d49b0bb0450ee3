"""What a command generates and is committed is what the command would write now."""

from dataclasses import fields

import pytest

from checks.tree import ROOT, page, part, tracked
from experiments import docs_index
from experiments.live.settings_table import settings_table, tables, tables_of
from experiments.policies.fidelity import faults_described
from live_scheduler.capability import capabilities
from live_scheduler.live_settings import LiveSettings
from profiler_jobs.zoo.catalogue import zoo_table


def test_the_lists_of_docs_are_those_of_the_tree() -> None:
    stale = [path.name for path, text in docs_index.pages().items() if path.read_text("utf-8") != text]
    assert not stale, "write them anew: python -m experiments.docs_index"


OF_PARTS = {name: each.Settings for name, each in capabilities().items() if each.Settings is not None}


@pytest.mark.parametrize(
    ("name", "table"),
    [("live_slurm", "settings"), *(("live_slurm", f"{name} settings") for name in OF_PARTS)],
)
def test_the_pages_have_the_settings_of_the_code(name: str, table: str) -> None:
    """After a change: `python -m experiments.live.settings_table --write docs/PAGE.md`."""
    assert part(page(name), table) == tables()[table]


@pytest.mark.parametrize("name", [name for name in tracked() if name.endswith(".md")])
def test_the_pages_have_the_settings_of_the_classes_that_they_name(name: str) -> None:
    """After a change: `python -m experiments.live.settings_table --write PAGE`."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert {table: part(text, table) for table in tables_of(text)} == tables_of(text)


@pytest.mark.parametrize("kind", [LiveSettings, *OF_PARTS.values()])
def test_every_setting_has_a_meaning(kind: type) -> None:
    lines = settings_table(kind).splitlines()
    assert len(lines) == 2 + len(fields(kind))
    assert all(len(line.split(" | ")[2]) > 10 for line in lines[2:])


def test_the_page_on_profiling_shows_the_zoo_as_it_is() -> None:
    assert part(page("profiling"), "zoo") == zoo_table()


def test_the_page_on_fidelity_describes_the_faults_as_they_are() -> None:
    assert part(page("simulator_fidelity"), "described") == faults_described()
