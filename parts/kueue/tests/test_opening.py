"""The adapter as it is found by name, and its own settings."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from checks.tree import part
from experiments.live.settings_table import settings_table
from live_scheduler.adapters import adapter_kind, adapter_names
from live_scheduler.live_settings import LiveSettings
from live_scheduler.settings_file import read_live_settings, settings_from
from parts.kueue.opening import Kueue, KueueSettings


def test_it_is_found_by_its_name() -> None:
    assert "kueue" in adapter_names()
    assert isinstance(adapter_kind("kueue"), Kueue)


def test_a_table_names_the_adapter(tmp_path: Path) -> None:
    path = tmp_path / "live.toml"
    path.write_text('cluster = "lab"\n[kueue]\nuser_labels = ["a/b"]')
    found = read_live_settings(path)
    assert found.adapter == "kueue"
    assert Kueue().own_settings(found) == KueueSettings(user_labels=("a/b",))
    assert settings_from(json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize(
    ("kueue", "adapter"), [(None, "slurm"), ({"context": "lab", "user_labels": ["a"]}, "kueue")]
)
def test_what_an_earlier_daemon_left_for_its_switch_is_read(kueue: object, adapter: str) -> None:
    own = ("adapter", "adapter_settings")
    earlier = {name: value for name, value in asdict(LiveSettings("lab")).items() if name not in own}
    found = settings_from({**earlier, "kueue": kueue})
    assert (found.adapter, found.adapter_settings) == (adapter, kueue or {})


def test_the_readme_has_the_settings_of_the_code() -> None:
    """After a change: `python -m experiments.live.settings_table --write parts/kueue/README.md`."""
    readme = Path(__file__).parents[1] / "README.md"
    assert part(readme.read_text(encoding="utf-8"), "kueue settings") == settings_table(KueueSettings)
