"""Training the inference load model from a lake: registered, measured beside its rivals, the same twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from lucid_models.boosting import BoostingSettings
from lucid_models.registry import Registry
from parts.lending.load.series import InferenceSeries
from parts.lending.usage.fitting import LoadSettings
from parts.lending.usage.training import train_inference_load

FAST = LoadSettings(boosting=BoostingSettings(bags=2, max_rounds=60, max_bins=32))


@pytest.fixture(scope="module")
def lake(load_series: InferenceSeries, tmp_path_factory: pytest.TempPathFactory) -> str:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    table = pd.DataFrame(
        {
            "time": pd.to_datetime(load_series.times_s, unit="s", utc=True),
            "usage": load_series.usage,
            "servers": 94,
            "gap": load_series.gap,
            "origin": "published",
        }
    )
    lake.write_series("inference_load", "small", table)
    return lake.uri


@pytest.mark.slow
def test_a_version_is_registered_with_its_rivals_and_is_the_same_twice(lake: str, own_registry: str) -> None:
    until = datetime(2020, 4, 11, 0, 5, tzinfo=UTC)
    common: Any = {"lake_uri": lake, "cluster": "small", "tracking_uri": own_registry, "settings": FAST}
    report = train_inference_load(**common, train_until=until)
    assert (report.name, report.version, report.reused) == ("lucid-inference-load-small", 1, False)
    assert report.metrics["mse"] < report.baselines["last_value"]["mse"]
    assert 0.8 < report.metrics["coverage_p90"] < 1
    assert set(report.baselines) == {"last_value", "ewma_0.5", "same_time_yesterday", "ar_10"}
    version = Registry(own_registry).version("lucid-inference-load-small", 1)
    assert (version.tags["cluster"], version.tags["training_until"]) == ("small", until.isoformat())
    # What comes after the window changes no byte, and the same data are registered once.
    later = {"time": [until + timedelta(days=9)], "usage": [0.5], "gap": [False], "origin": ["published"]}
    Lake(lake).write_series("inference_load", "small", pd.DataFrame(later))
    again = train_inference_load(**common, train_until=until)
    assert (again.version, again.reused, again.digest) == (1, True, report.digest)


@pytest.mark.slow
def test_a_young_cluster_gets_the_weighted_mean(lake: str, own_registry: str) -> None:
    until = datetime(2020, 4, 7, tzinfo=UTC)
    report = train_inference_load(
        lake_uri=lake, cluster="small", tracking_uri=own_registry, train_until=until
    )
    version = Registry(own_registry).version("lucid-inference-load-small", report.version)
    assert version.tags["member"] == "ewma"


def test_a_cluster_without_load_or_with_too_little_is_told(lake: str) -> None:
    with pytest.raises(NotFoundError, match="inference_load of cluster 'other'"):
        train_inference_load(lake_uri=lake, cluster="other", tracking_uri="http://127.0.0.1:1")
    with pytest.raises(BadInputError, match="24 bins of inference load had ended"):
        train_inference_load(
            lake_uri=lake,
            cluster="small",
            tracking_uri="http://127.0.0.1:1",
            train_until=datetime(2020, 4, 6, 2, tzinfo=UTC),
        )
