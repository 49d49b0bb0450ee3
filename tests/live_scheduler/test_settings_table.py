"""The pages show the settings that there are."""

from dataclasses import fields
from pathlib import Path

import pytest

from experiments.live.settings_table import settings_table, tables
from live_scheduler.kubernetes.opening import KueueSettings
from live_scheduler.live_settings import LiveSettings
from live_scheduler.loans.settings import NodeLoanSettings
from live_scheduler.node_sleep.settings import NodeSleepSettings


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("live_slurm", "settings"),
        ("live_slurm", "node sleep settings"),
        ("live_slurm", "loan settings"),
        ("live_kubernetes", "kueue settings"),
    ],
)
def test_the_pages_have_the_tables_of_the_code(page: str, table: str) -> None:
    """After a change: `python -m experiments.live.settings_table --write docs/PAGE.md`."""
    text = Path(f"docs/{page}.md").read_text(encoding="utf-8")
    assert f"<!-- {table}: begin -->\n{tables()[table]}\n<!-- {table}: end -->" in text


@pytest.mark.parametrize("kind", [LiveSettings, NodeSleepSettings, NodeLoanSettings, KueueSettings])
def test_every_setting_has_a_meaning(kind: type) -> None:
    lines = settings_table(kind).splitlines()
    assert len(lines) == 2 + len(fields(kind))
    assert all(len(line.split(" | ")[2]) > 10 for line in lines[2:])
