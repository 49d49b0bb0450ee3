"""Which models a retraining trains and which versions its release keeps."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import UnknownNameError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.optional_parts import optional_kinds
from lucid_models.training_data import profile_dataset
from pipeline.profiling.profile_store import read_profile_set, write_profile_set
from pipeline.training.training_plan import TrainingPlan, plan_training
from profiler_jobs.profile_table import ProfileSet
from tests.fixtures import ReleaseShop, small_jobs, small_profiles

LEARNED_UNTIL = datetime(2020, 4, 10, tzinfo=UTC)  # the shop's models


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Ten days of jobs, and one on each day until two and a half after the models stopped learning."""
    uri = str(tmp_path / "lake")
    jobs = small_jobs(200)
    for row, days in zip(jobs.index[-3:], (0.5, 1.5, 2.5), strict=True):
        late = LEARNED_UNTIL + timedelta(days=days) - jobs.loc[row, "submit_time"]
        for column in ("submit_time", "start_time", "end_time"):
            jobs.loc[row, column] += pd.Timedelta(late)
    Lake(uri).write_jobs("small", jobs)
    return uri


def plan(local_shop: ReleaseShop, lake: str, **asked: object) -> TrainingPlan:
    return plan_training(Site(lake, local_shop.uri, "small"), **asked)  # type: ignore[arg-type]


def test_by_default_everything_is_trained(lake: str, local_shop: ReleaseShop) -> None:
    found = plan(local_shop, lake, hold_out_days=1)
    assert found.train[:3] == ("packing", "throughput", "duration")
    assert set(found.train[3:]) == set(optional_kinds()) - set(found.reasons)
    assert found.kept == {}


def test_the_newest_others_are_kept_and_the_window_is_what_they_have_not_seen(
    lake: str, local_shop: ReleaseShop
) -> None:
    found = plan(local_shop, lake, models=["packing"])
    assert found.train == ("packing",)
    assert found.kept == {"throughput": 2, "duration": 2}  # the shop has two versions of each
    assert found.hold_out_days == 2
    assert LEARNED_UNTIL <= found.training_until < LEARNED_UNTIL + timedelta(days=1)


def test_what_has_seen_the_window_is_trained_again_and_the_plan_says_so(
    lake: str, local_shop: ReleaseShop
) -> None:
    found = plan(local_shop, lake, models=["packing"], hold_out_days=3)
    assert found.train == ("packing", "throughput", "duration")
    assert sum("it is trained again" in remark for remark in found.remarks) == 2


def test_a_cluster_without_models_gets_all_three(lake: str, local_shop: ReleaseShop) -> None:
    Lake(lake).write_jobs("other", small_jobs(200))
    found = plan_training(Site(lake, local_shop.uri, "other"), models=["packing"], hold_out_days=1)
    assert found.train == ("packing", "throughput", "duration")
    assert any("no duration model for cluster 'other'" in remark for remark in found.remarks)


def test_a_kept_packing_model_is_one_of_the_clusters_own_profiles(lake: str, local_shop: ReleaseShop) -> None:
    """Packing models name no cluster; another cluster's newest must not come in."""
    solo, pairs = small_profiles()
    write_profile_set(Site(lake=lake, cluster="small"), ProfileSet(solo, pairs.iloc[:-1]))
    assert plan(local_shop, lake, models=["duration"]).train == ("packing", "duration")
    stored = read_profile_set(Site(lake=lake, cluster="small"))
    registry = Registry(local_shop.uri)
    own = profile_dataset(stored.solo, stored.pairs).digest
    before = registry.version("lucid-packing", 1).tags["dataset_digest"]
    registry.set_version_tag("lucid-packing", 1, "dataset_digest", own)
    try:
        found = plan(local_shop, lake, models=["duration"])
    finally:
        registry.set_version_tag("lucid-packing", 1, "dataset_digest", before)
    assert found.train == ("duration",)
    assert found.kept == {"packing": 1, "throughput": 2}


def test_an_unknown_model_is_named(lake: str, local_shop: ReleaseShop) -> None:
    with pytest.raises(UnknownNameError, match="'weather'"):
        plan(local_shop, lake, models=["packing", "weather"])
