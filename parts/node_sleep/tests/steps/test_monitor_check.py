"""What monitoring says of sleeping nodes: the forecast on what happened since, and what boots would cost."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.node_series import NodeSeries
from foundation.site import Site
from lucid_models.boosting import BoostingSettings
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel
from parts.node_sleep.steps.monitor_check import node_health
from parts.node_sleep.steps.release_settings import pinned_node_sleep
from pipeline.monitoring.data import MonitoredWindow
from pipeline.monitoring.part_health import MonitoredRelease
from pipeline.monitoring.rules import MonitorSettings, Urgency

pytestmark = pytest.mark.slow

START = datetime(2020, 4, 6, tzinfo=UTC)
UNTIL, END = (START + pd.Timedelta(days=days) for days in (12, 18))
NEAR_BINS = 18


def wave(days: int) -> np.ndarray:
    time = np.arange(days * 144)
    noise = np.random.default_rng(1).integers(-1, 2, time.size)
    return np.round(20 + 9 * np.sin(2 * np.pi * time / 144)) + noise


@pytest.fixture(scope="module")
def models() -> SimpleNamespace:
    busy = wave(12)
    bins = NodeSeries(
        START.timestamp(), 600.0, busy, np.full(busy.size, 40.0), np.zeros(busy.size, dtype=bool)
    )
    fast = BoostingSettings(bags=2, max_rounds=80, max_bins=32)
    scorer = NodeDemandModel(DemandSettings(near_bins=NEAR_BINS, boosting=fast)).fit(bins).scorer
    sleep = pinned_node_sleep({"control": "forecast", "near_bins": NEAR_BINS, "buffer_nodes": 4})
    return SimpleNamespace(
        manifest=SimpleNamespace(parts={"node_sleep": sleep}), forecasts={"node_demand": scorer}
    )


def looked(models: SimpleNamespace, lake: Path, busy: np.ndarray | None) -> tuple:
    uri = str(lake)
    if busy is not None:
        times = pd.date_range(START, periods=busy.size, freq="10min")
        counts = pd.DataFrame({"time": times, "total": 40, "busy": busy.astype(int), "held": False})
        Lake(uri).write_node_states("small", counts.assign(origin="derived"))
    settings = MonitorSettings()
    window = MonitoredWindow(START, UNTIL, UNTIL, END)
    health = node_health(MonitoredRelease(models, {}, Site(lake=uri, cluster="small"), window, settings))
    return health, [] if health is None else list(health.findings(settings))


def test_a_pattern_that_goes_on_is_forecast_and_asks_for_nothing(
    models: SimpleNamespace, tmp_path: Path
) -> None:
    health, findings = looked(models, tmp_path, wave(18))
    assert health.mae < 0.5 * health.naive_mae
    assert health.coverage[0.9] >= 0.8
    assert health.wake_ups_per_day >= 0
    assert not [one for one in findings if one.level is Urgency.RETRAIN]


def test_a_pattern_that_is_gone_asks_for_a_new_forecast(models: SimpleNamespace, tmp_path: Path) -> None:
    busy = wave(18)
    # What rises now falls within the next three hours.
    busy[12 * 144 :] = np.round(20 + 9 * np.sin(2 * np.pi * np.arange(6 * 144) / 30))
    health, findings = looked(models, tmp_path, busy)
    assert health.mae > health.naive_mae
    assert ("nodes", "worse than naive", Urgency.RETRAIN) in {
        (one.area, one.subject, one.level) for one in findings
    }


def test_without_counts_it_says_so_and_a_release_without_the_part_is_not_asked(
    models: SimpleNamespace, tmp_path: Path
) -> None:
    health, findings = looked(models, tmp_path, None)
    assert health.note.startswith("not measured: ")
    assert findings == []
    plain = SimpleNamespace(manifest=SimpleNamespace(parts={}), forecasts={})
    assert looked(plain, tmp_path, None) == (None, [])
