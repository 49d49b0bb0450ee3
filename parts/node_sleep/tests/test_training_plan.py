"""When a retraining trains the forecast of nodes."""

import pandas as pd

from cluster_logs.lake import Lake
from tests.fixtures import ReleaseShop
from tests.pipeline.training.test_training_plan import lake as lake
from tests.pipeline.training.test_training_plan import plan


def test_a_forecast_of_nodes_is_trained_where_the_lake_has_counts_of_a_week(
    lake: str, local_shop: ReleaseShop
) -> None:
    without = plan(local_shop, lake, hold_out_days=1)
    assert "counts of nodes of 0 days" in without.reasons["node_demand"]
    times = pd.date_range("2020-03-20", "2020-04-12", freq="10min", tz="UTC")
    counts = pd.DataFrame({"time": times, "total": 9, "busy": 5, "held": False, "origin": "derived"})
    Lake(lake).write_node_states("small", counts)
    found = plan(local_shop, lake, hold_out_days=1)
    assert found.train[:4] == ("packing", "throughput", "duration", "node_demand")
    assert "node_demand" not in found.reasons
    other = plan(local_shop, lake, models=["packing"])
    assert other.train == ("packing",)
    assert "node_demand" not in other.kept
    assert "none to keep" in other.reasons["node_demand"]
