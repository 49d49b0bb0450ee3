"""Adapters by name: Slurm's, those of parts, the settings that name one, and what is refused."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from foundation import parts
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.parts import Part
from live_scheduler import adapters
from live_scheduler.adapters import AdapterKind, OpenedCluster
from live_scheduler.capability import LiveCapability
from live_scheduler.live_settings import LiveSettings, Mode
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


@dataclass(frozen=True)
class Choir:
    mode: Mode = Mode.OBSERVE
    voices: int = 4


class Singing(LiveCapability):
    """A part that needs an adapter under which nodes sing."""

    name, title, Settings, needs = "singing", "singing nodes", Choir, "make nodes sing"


class Musical(Plain):
    """A cluster of that kind."""

    offers: ClassVar = {"singing": f"{__name__}:voices_of"}


def voices_of(settings: LiveSettings, folder: Path) -> int:
    return settings.tables["singing"].voices


SINGING = Singing()


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts: one with adapters, one whose adapter is none, and one that needs an adapter."""
    places = {"plain": f"{__name__}:Plain", "musical": f"{__name__}:Musical", "slurm": "json:dumps"}
    plain = Part("plain", "", adapters=places)
    singing = Part("singing", "", live=f"{__name__}:SINGING")
    broken = Part("broken", "", adapters={"broken": "json:dumps"})
    monkeypatch.setattr(parts, "installed_parts", lambda: (broken, plain, singing))


def settings_file(folder: Path, text: str) -> Path:
    path = folder / "live.toml"
    path.write_text(f'cluster = "lab"\n{text}')
    return path


def test_slurm_is_ours_and_parts_offer_others() -> None:
    assert adapters.adapter_names() == ["broken", "musical", "plain", "slurm"]
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


def test_a_table_of_a_part_needs_an_adapter_that_can_do_it(tmp_path: Path) -> None:
    found = read_live_settings(settings_file(tmp_path, 'adapter = "musical"\n[singing]\nmode = "control"'))
    assert (found.tables, found.in_control) == ({"singing": Choir(Mode.CONTROL)}, ("singing",))
    assert Musical().open_for(SINGING, found, tmp_path) == 4
    assert settings_from(json.loads(json.dumps(asdict(found)))) == found
    with pytest.raises(BadInputError, match="'plain' cannot make nodes sing"):
        read_live_settings(settings_file(tmp_path, 'adapter = "plain"\n[singing]'))
    with pytest.raises(UnknownNameError, match="voces"):
        read_live_settings(settings_file(tmp_path, "[singing]\nvoces = 1"))


def test_a_table_of_a_part_that_is_not_installed_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"pip install \./parts/node_sleep"):
        read_live_settings(settings_file(tmp_path, "[node_sleep]"))
    assert settings_from({"cluster": "lab", "node_sleep": None}).tables == {}  # of an earlier version
    with pytest.raises(NotFoundError, match=r"pip install \./parts/live_profiling"):
        read_live_settings(settings_file(tmp_path, 'profiling_partition = "prof"'))


def test_what_is_no_adapter_is_refused() -> None:
    with pytest.raises(BadInputError, match="broken"):
        adapters.adapter_kind("broken")


def test_an_adapter_of_a_part_that_is_not_installed_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"pip install \./parts/kueue"):
        read_live_settings(settings_file(tmp_path, 'adapter = "kueue"'))
