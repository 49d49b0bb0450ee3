"""What monitoring says of servers on loan: the forecast on what happened since, drift, and shortages."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from parts.lending.load.series import read_inference_series
from parts.lending.steps.monitor_check import LoadHealth, load_health
from parts.lending.steps.release_settings import pinned_loaning
from parts.lending.tests.steps.inference_days import FAST, START, inference_days
from parts.lending.usage.model import InferenceLoadModel
from pipeline.monitoring.data import MonitoredWindow
from pipeline.monitoring.part_health import MonitoredRelease
from pipeline.monitoring.rules import Finding, MonitorSettings, Urgency

pytestmark = pytest.mark.slow

FIRST = START.to_pydatetime()
UNTIL, END = FIRST + timedelta(days=6), FIRST + timedelta(days=11)
SETTINGS = MonitorSettings()


@pytest.fixture(scope="module")
def models() -> SimpleNamespace:
    scorer = InferenceLoadModel(FAST).fit(read_inference_series(inference_days(6))).scorer
    loaning = pinned_loaning({"headroom": 0.05, "quantile": 0.99})
    return SimpleNamespace(
        manifest=SimpleNamespace(parts={"loaning": loaning}), forecasts={"inference_load": scorer}
    )


def looked(
    models: SimpleNamespace, lake: Path, load: pd.DataFrame | None
) -> tuple[LoadHealth | None, list[Finding]]:
    if load is not None:
        Lake(str(lake)).write_series("inference_load", "small", load)
    window = MonitoredWindow(FIRST, UNTIL, UNTIL, END)
    validation = {"inference_load": {"mae": 0.01}}
    health = load_health(
        MonitoredRelease(models, validation, Site(lake=str(lake), cluster="small"), window, SETTINGS)
    )
    return health, [] if health is None else list(health.findings(SETTINGS))


def test_a_load_that_goes_on_is_forecast_and_asks_for_nothing(
    models: SimpleNamespace, tmp_path: Path
) -> None:
    health, findings = looked(models, tmp_path, inference_days(11))
    assert health is not None
    assert health.mae is not None
    assert health.naive_mae is not None
    assert health.mae < health.naive_mae
    assert health.validation_mae == 0.01
    assert (health.coverage or {})[0.9] == pytest.approx(0.9, abs=0.05)
    assert health.short_pct is not None
    assert health.short_pct < 1
    assert health.drift is not None
    assert findings == []


def test_a_load_that_changed_is_said_to_have_drifted(models: SimpleNamespace, tmp_path: Path) -> None:
    load = inference_days(11)
    rows = np.arange(len(load)) >= 6 * 288
    # Every quarter of an hour, most servers are needed at once.
    load.loc[rows, "usage"] = np.where(np.arange(rows.sum()) % 3 == 0, 0.95, 0.1)
    health, findings = looked(models, tmp_path, load)
    assert health is not None
    assert health.drift is not None
    assert (health.drift.psi or 0.0) > SETTINGS.psi_major
    assert all(one.area == "inference" for one in findings)


def test_shortages_beyond_the_gates_limit_are_for_a_person_to_see() -> None:
    (finding,) = LoadHealth(short_pct=3.5).findings(SETTINGS)
    assert (finding.level, finding.subject) == (Urgency.WATCH, "shortages")
    assert "up to 3.5 % of five-minute steps; the gate allows 2 %" in finding.sentence
    assert list(LoadHealth(short_pct=1.9).findings(SETTINGS)) == []


def test_without_load_it_says_so_and_a_release_without_the_part_is_not_asked(
    models: SimpleNamespace, tmp_path: Path
) -> None:
    health, findings = looked(models, tmp_path, None)
    assert health is not None
    assert health.note.startswith("not measured: ")
    assert findings == []
    plain = SimpleNamespace(manifest=SimpleNamespace(parts={}), forecasts={})
    assert looked(plain, tmp_path, None) == (None, [])


def test_worse_than_the_last_value_asks_for_a_new_forecast() -> None:
    from pipeline.monitoring.forecast_errors import Change

    health = LoadHealth(
        bins=999, mae=0.03, naive_mae=0.02, against_naive=Change(0.01, 0.005, 0.02, 5), coverage={0.9: 0.91}
    )
    (finding,) = health.findings(SETTINGS)
    assert (finding.level, finding.subject) == (Urgency.RETRAIN, "worse than naive")
    assert "off by 2.00 against 3.00 % of the servers" in finding.sentence
