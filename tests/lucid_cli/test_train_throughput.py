"""`lucid train throughput`: the lead and the clock reach the model."""

from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from lucid_models import training
from lucid_models.throughput.model import DEFAULT_LEAD_BINS, ThroughputSettings
from lucid_models.training import TrainReport


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ThroughputSettings]:
    """The settings that trainings are asked for; nothing is trained."""
    found: list[ThroughputSettings] = []

    def train(*, settings: ThroughputSettings, **_: Any) -> TrainReport:
        found.append(settings)
        return TrainReport("throughput", "lucid-throughput", 1, "run", "0" * 64, {"jobs_mae": 1.0}, {}, False)

    monkeypatch.setattr(training, "train_throughput", train)
    return found


@pytest.mark.slow
def test_lead_and_local_time_are_options(lucid, small_tables: Any, tmp_path: Path, asked) -> None:
    lake = Lake(str(tmp_path / "lake"))
    lake.write_throughput("small", small_tables.throughput)
    shared = ("train", "throughput", "--lake", lake.uri, "--cluster", "small", "--hold-out-days", "2")
    assert lucid(*shared, "--json").code == 0
    said = lucid(*shared, "--lead", "1", "--utc-offset-hours", "5.5", "--json")
    assert said.code == 0, said.err
    assert said.json["version"] == 1
    assert [(one.lead_bins, one.utc_offset_s) for one in asked] == [(DEFAULT_LEAD_BINS, 0), (1, 19_800)]
    assert lucid(*shared, "--lead", "0").code != 0
