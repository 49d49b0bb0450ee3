"""The load of inference servers and a model of it, made once per session."""

import numpy as np
import pytest

from lucid_models.boosting import BoostingSettings
from parts.lending.load.series import InferenceSeries
from parts.lending.usage.fitting import LoadSettings
from parts.lending.usage.model import InferenceLoadModel
from tests.dags.conftest import dag_bag as dag_bag
from tests.dags.conftest import defaults as defaults
from tests.dags.conftest import metadata_database as metadata_database
from tests.dags.conftest import parsed_dags as parsed_dags
from tests.dags.conftest import small_lake as small_lake
from tests.live_scheduler.conftest import client as client
from tests.live_scheduler.conftest import live as live
from tests.live_scheduler.conftest import standing as standing

FAST = BoostingSettings(bags=2, max_rounds=60, max_bins=32)


def make_load_series(days: int = 6, seed: int = 0) -> InferenceSeries:
    """Usage of inference servers: a daily wave, swings that fade, and an hour that was not measured."""
    rng = np.random.default_rng(seed)
    time = np.arange(days * 288)
    swing = np.zeros(time.size)
    for at in range(1, time.size):
        swing[at] = 0.9 * swing[at - 1] + rng.normal(0, 0.02)
    usage = np.clip(0.6 + 0.2 * np.sin(2 * np.pi * time / 288) + swing + rng.normal(0, 0.01, time.size), 0, 1)
    gap = np.zeros(time.size, dtype=bool)
    gap[700:712] = True
    usage[700:712] = usage[699]
    return InferenceSeries(1_586_131_200.0, usage, gap, 94)


@pytest.fixture(scope="session")
def load_series() -> InferenceSeries:
    return make_load_series()


@pytest.fixture(scope="session")
def inference_load_model(load_series: InferenceSeries) -> InferenceLoadModel:
    return InferenceLoadModel(LoadSettings(member="ebm_ewma", boosting=FAST)).fit(load_series)
