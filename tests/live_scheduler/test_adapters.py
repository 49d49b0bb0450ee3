"""Adapters by name: those that are installed, the settings that name one, and what is refused."""

import json
from dataclasses import asdict
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from foundation.errors import BadInputError, UnknownNameError
from live_scheduler import adapters
from live_scheduler.kubernetes.opening import Kueue, KueueSettings
from live_scheduler.live_settings import LiveSettings
from live_scheduler.settings_file import read_live_settings, settings_from
from live_scheduler.slurm.opening import Slurm


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "live.toml"
    path.write_text(f'cluster = "lab"\n{text}')
    return path


def test_ours_are_entry_points() -> None:
    assert adapters.adapter_names() == ["kueue", "slurm"]
    assert isinstance(adapters.adapter_kind("slurm"), Slurm)
    assert isinstance(adapters.adapter_kind("kueue"), Kueue)


def test_a_table_names_the_adapter(tmp_path: Path) -> None:
    found = read_live_settings(settings_file(tmp_path, '[kueue]\nuser_labels = ["a/b"]'))
    assert found.adapter == "kueue"
    assert Kueue().own_settings(found) == KueueSettings(user_labels=("a/b",))
    assert settings_from(json.loads(json.dumps(asdict(found)))) == found


def test_without_a_word_it_is_slurm(tmp_path: Path) -> None:
    assert read_live_settings(settings_file(tmp_path, "")).adapter == "slurm"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('adapter = "slurm"\n[kueue]', "settings for 'kueue'"),
        ("[kueue]\n[slurm]", "settings for 'kueue', 'slurm'"),
        ("kueue = 3", "kueue is 3"),
        ("[kueue]\ncontext = 3", "context is 3"),
        ('profiling_partition = "prof"\n[kueue]', "neither moves jobs"),
        ('shared_partitions = ["s"]\n[kueue]', "neither moves jobs"),
        ("[slurm]\nx = 3", "no settings of its own"),
    ],
)
def test_settings_that_no_adapter_follows_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        read_live_settings(settings_file(tmp_path, text))


@pytest.mark.parametrize("text", ["[kuue]", 'adapter = "kuue"', "[kueue]\nkubconfig = 'x'", "paritions = 1"])
def test_names_that_do_not_exist_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnknownNameError):
        read_live_settings(settings_file(tmp_path, text))


@pytest.mark.parametrize(
    ("kueue", "adapter"), [(None, "slurm"), ({"context": "lab", "user_labels": ["a"]}, "kueue")]
)
def test_what_an_earlier_daemon_left_for_its_switch_is_read(kueue: object, adapter: str) -> None:
    own = ("adapter", "adapter_settings")
    earlier = {name: value for name, value in asdict(LiveSettings("lab")).items() if name not in own}
    found = settings_from({**earlier, "kueue": kueue})
    assert (found.adapter, found.adapter_settings) == (adapter, kueue or {})


def test_what_is_no_adapter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("broken", "json:dumps", adapters.ENTRY_POINT_GROUP)
    monkeypatch.setattr(adapters, "_installed", lambda: {"broken": entry})
    with pytest.raises(BadInputError, match="broken"):
        adapters.adapter_kind("broken")
