"""Adapters by name: Slurm's, those of parts, the settings that name one, and what is refused."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from foundation import parts
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.parts import Part
from live_scheduler import adapters
from live_scheduler.adapters import AdapterKind, OpenedCluster
from live_scheduler.live_settings import LiveSettings
from live_scheduler.loans.settings import NodeLoanSettings
from live_scheduler.node_sleep.settings import NodeSleepSettings
from live_scheduler.settings_file import read_live_settings, settings_from
from live_scheduler.slurm.opening import Slurm


@dataclass(frozen=True)
class PlainSettings:
    context: str = ""
    user_labels: tuple[str, ...] = ()


class Plain(AdapterKind):
    """A cluster that orders jobs and does nothing else."""

    Settings = PlainSettings

    def open(self, settings: LiveSettings, folder: Path) -> OpenedCluster:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parts: one with an adapter, one whose adapter is none."""
    plain = Part("plain", "", adapters={"plain": f"{__name__}:Plain", "slurm": "json:dumps"})
    broken = Part("broken", "", adapters={"broken": "json:dumps"})
    monkeypatch.setattr(parts, "installed_parts", lambda: (broken, plain))


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "live.toml"
    path.write_text(f'cluster = "lab"\n{text}')
    return path


def test_slurm_is_ours_and_parts_offer_others() -> None:
    assert adapters.adapter_names() == ["broken", "plain", "slurm"]
    assert isinstance(adapters.adapter_kind("slurm"), Slurm)  # ours keeps its name
    assert adapters.adapter_kind("plain").Settings is not None


def test_a_table_names_the_adapter(tmp_path: Path) -> None:
    found = read_live_settings(settings_file(tmp_path, '[plain]\nuser_labels = ["a/b"]'))
    assert found.adapter == "plain"
    assert found.adapter_settings == {"user_labels": ["a/b"]}
    assert settings_from(json.loads(json.dumps(asdict(found)))) == found


def test_without_a_word_it_is_slurm(tmp_path: Path) -> None:
    assert read_live_settings(settings_file(tmp_path, "")).adapter == "slurm"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('adapter = "slurm"\n[plain]', "settings for 'plain'"),
        ("[plain]\n[slurm]", "settings for 'plain', 'slurm'"),
        ("plain = 3", "plain is 3"),
        ("[plain]\ncontext = 3", "context is 3"),
        ('profiling_partition = "prof"\n[plain]', "neither moves jobs"),
        ('shared_partitions = ["s"]\n[plain]', "neither moves jobs"),
        ("[slurm]\nx = 3", "no settings of its own"),
    ],
)
def test_settings_that_no_adapter_follows_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        read_live_settings(settings_file(tmp_path, text))


@pytest.mark.parametrize("text", ["[plian]", 'adapter = "plian"', "[plain]\ncontxt = 'x'", "paritions = 1"])
def test_names_that_do_not_exist_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnknownNameError):
        read_live_settings(settings_file(tmp_path, text))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"node_sleep": NodeSleepSettings()}, "cannot put nodes to sleep"),
        ({"loans": NodeLoanSettings()}, "cannot lend nodes"),
    ],
)
def test_what_an_adapter_cannot_do_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Plain().check(LiveSettings("c", adapter="plain", **settings))  # type: ignore[arg-type]


def test_what_is_no_adapter_is_refused() -> None:
    with pytest.raises(BadInputError, match="broken"):
        adapters.adapter_kind("broken")


def test_an_adapter_of_a_part_that_is_not_installed_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"pip install \./parts/kueue"):
        read_live_settings(settings_file(tmp_path, 'adapter = "kueue"'))
