"""Counts of busy nodes and a model of them, made once per session."""

import numpy as np
import pytest

from cluster_logs.node_series import NodeSeries
from lucid_models.boosting import BoostingSettings
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel
from tests.dags.conftest import dag_bag as dag_bag
from tests.dags.conftest import defaults as defaults
from tests.dags.conftest import metadata_database as metadata_database
from tests.dags.conftest import parsed_dags as parsed_dags
from tests.live_scheduler.conftest import client as client
from tests.live_scheduler.conftest import live as live
from tests.live_scheduler.conftest import standing as standing

FAST = BoostingSettings(bags=2, max_rounds=60, max_bins=32)


def make_node_bins(days: int = 16, seed: int = 0) -> NodeSeries:
    """Busy nodes of 40 with a daily wave, slow noise, and an hour that telemetry did not count."""
    rng = np.random.default_rng(seed)
    time = np.arange(days * 144)
    slow = np.convolve(rng.normal(0, 4, time.size + 35), np.ones(36) / 6, mode="valid")
    busy = np.clip(np.round(24 + 8 * np.sin(2 * np.pi * time / 144) + slow), 0, 40)
    held = np.zeros(time.size, dtype=bool)
    held[700:706] = True
    busy[700:706] = busy[699]
    return NodeSeries(1_586_131_200.0, 600.0, busy, np.full(time.size, 40.0), held)


@pytest.fixture(scope="session")
def node_bins() -> NodeSeries:
    return make_node_bins()


@pytest.fixture(scope="session")
def node_demand_model(node_bins: NodeSeries) -> NodeDemandModel:
    return NodeDemandModel(DemandSettings(near_bins=18, boosting=FAST)).fit(node_bins)
