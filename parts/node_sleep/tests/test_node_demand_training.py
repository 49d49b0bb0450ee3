"""Counts of nodes in the lake become a registered version with its scores beside naive rivals."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.node_series import NodeSeries
from foundation.errors import BadInputError, NotFoundError
from lucid_models.boosting import BoostingSettings
from lucid_models.registry import Registry
from lucid_models.training_log import TrainReport
from parts.node_sleep.demand.evaluation import evaluate_node_demand
from parts.node_sleep.demand.model import DemandSettings
from parts.node_sleep.demand.training import train_node_demand

FAST = DemandSettings(near_bins=18, boosting=BoostingSettings(bags=2, max_rounds=60, max_bins=32))


def counts_of(bins: NodeSeries) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "time": pd.to_datetime(bins.times_s, unit="s", utc=True),
            "total": bins.total.astype(int),
            "busy": bins.running.astype(int),
            "held": bins.held,
            "origin": "slurm",
        }
    )


@pytest.fixture
def lake(tmp_path: Path, node_bins: NodeSeries) -> str:
    uri = str(tmp_path / "lake")
    Lake(uri).write_node_states("small", counts_of(node_bins))
    return uri


def test_a_test_window_is_forecast_from_what_came_before_it(node_bins: NodeSeries) -> None:
    start_s = node_bins.times_s[12 * 144]
    rows = {row["model"]: row for row in evaluate_node_demand(node_bins, start_s, FAST)}
    assert set(rows) == {"ebm", "last_value", "ewma", "same_time_yesterday", "same_time_last_week"}
    assert rows["ebm"]["bins"] == 4 * 144 - 36
    assert rows["ebm"]["near_mean_mae"] < min(
        row["near_mean_mae"] for name, row in rows.items() if name != "ebm"
    )
    assert 0.8 <= rows["ebm"]["coverage_p90"] <= 1.0
    after = np.arange(node_bins.running.size) >= 12 * 144
    changed = NodeSeries(
        node_bins.start_s,
        node_bins.step_s,
        np.where(after, 40.0, node_bins.running),
        node_bins.total,
        node_bins.held,
    )
    assert evaluate_node_demand(changed, start_s, FAST)[0]["near_mean_mae"] != rows["ebm"]["near_mean_mae"]


@pytest.mark.slow
def test_a_version_is_registered_with_its_rivals_and_pictures(lake: str, own_registry: str) -> None:
    until = datetime(2020, 4, 20, 0, 5, tzinfo=UTC)
    common = {"lake_uri": lake, "cluster": "small", "tracking_uri": own_registry, "settings": FAST}
    report: TrainReport = train_node_demand(**common, train_until=until)  # type: ignore[arg-type]
    assert (report.name, report.version, report.reused) == ("lucid-node-demand-small", 1, False)
    assert report.metrics["near_mean_mae"] < report.baselines["last_value"]["near_mean_mae"]
    assert set(report.metrics) == {"near_mean_mae", "far_mean_mae"} | {
        f"coverage_p{quantile}" for quantile in (50, 80, 90, 95)
    }
    version = Registry(own_registry).version("lucid-node-demand-small", 1)
    assert version.tags["cluster"] == "small"
    assert version.tags["training_until"] == until.isoformat()
    # What comes after the window changes no byte, and the same data are registered once.
    Lake(lake).write_node_states(
        "small",
        pd.DataFrame(
            {
                "time": [until + timedelta(days=9)],
                "total": [40],
                "busy": [1],
                "held": [False],
                "origin": "slurm",
            }
        ),
    )
    again = train_node_demand(**common, train_until=until)  # type: ignore[arg-type]
    assert (again.version, again.reused, again.digest) == (1, True, report.digest)


def test_a_cluster_without_counts_or_with_too_few_is_told(lake: str) -> None:
    with pytest.raises(NotFoundError, match="node_states of cluster 'other'"):
        train_node_demand(lake_uri=lake, cluster="other", tracking_uri="http://127.0.0.1:1")
    with pytest.raises(BadInputError, match="days of busy nodes are too short"):
        train_node_demand(
            lake_uri=lake,
            cluster="small",
            tracking_uri="http://127.0.0.1:1",
            train_until=datetime(2020, 4, 8, tzinfo=UTC),
        )
