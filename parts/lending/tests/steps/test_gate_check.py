"""A release with servers on loan is asked for more by the gate; one without that part is not."""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from parts.lending.load.series import read_inference_series
from parts.lending.steps.release_settings import pinned_loaning
from parts.lending.tests.steps.inference_days import FAST, inference_days
from parts.lending.usage.model import InferenceLoadModel
from pipeline.release.release_settings import pinned_settings
from tests.small_cluster import CLUSTER, World, validate

pytestmark = pytest.mark.slow

ASKED = {
    "inference_servers_short",
    "loan_preemptions",
    "loan_preemption_ratio",
    "loan_worst_group_queuing",
    "loan_mean_jct",
}
LENDS = "challenger, with loans"


def test_loans_are_judged_by_a_second_replay_beside_none(world: World, tmp_path: Path) -> None:
    world = replace(world, lake_uri=str(shutil.copytree(world.lake_uri, tmp_path / "lake")))
    plain = validate(world, tmp_path / "plain")
    assert not any("loan" in one.name or "inference" in one.name for one in plain.constraints)
    loaning = pinned_loaning({"usage": "present", "headroom": 0.1})
    release = replace(world.release, manifest=replace(world.release.manifest, parts={"loaning": loaning}))

    refused = validate(world, tmp_path / "no_load", release)
    assert not refused.approved
    (short,) = [one for one in refused.failed if one.name == "inference_servers_short"]
    assert "inference_load" in short.sentence
    assert "lucid ingest --format inference-load" in short.sentence

    begin = (pd.Timestamp(world.until) - pd.Timedelta(days=4)).floor("5min")
    load = inference_days(15, start=begin).assign(origin="published")
    Lake(world.lake_uri).write_series("inference_load", CLUSTER, load)
    verdict = validate(world, tmp_path / "load", release)
    judged = {one.name: one for one in verdict.constraints}
    assert set(judged) >= ASKED
    assert judged["inference_servers_short"].challenger is not None
    assert "loan_forecast_coverage" not in judged  # it goes by what is finished
    with_loans, without = (
        next(row for row in verdict.policies if row["policy"] == name) for name in (LENDS, "challenger")
    )
    assert judged["loan_mean_jct"].challenger == pytest.approx(with_loans["mean_jct_s"])
    assert judged["loan_mean_jct"].reference == pytest.approx(without["mean_jct_s"])
    # Servers that are added let the congested cluster's jobs end sooner.
    assert float(str(with_loans["mean_jct_s"])) < float(str(without["mean_jct_s"]))
    assert all(row["policy"] != LENDS for row in verdict.comparisons)
    assert LENDS in (tmp_path / "load" / "verdict.md").read_text()

    forecast = InferenceLoadModel(FAST).fit(read_inference_series(load).first(3 * 288)).scorer
    by_forecast = replace(
        release,
        manifest=replace(release.manifest, parts={"loaning": pinned_loaning({"headroom": 0.1})}),
        forecasts={"inference_load": forecast},
    )
    careful = {one.name: one for one in validate(world, tmp_path / "forecast", by_forecast).constraints}
    assert careful["loan_forecast_coverage"].passed is True
    lacked = careful["inference_servers_short"].challenger
    assert lacked is not None
    assert lacked <= (judged["inference_servers_short"].challenger or 0.0)


def test_a_release_that_runs_lyra_is_judged_with_its_loans(world: World, tmp_path: Path) -> None:
    world = replace(world, lake_uri=str(shutil.copytree(world.lake_uri, tmp_path / "lake")))
    begin = (pd.Timestamp(world.until) - pd.Timedelta(days=4)).floor("5min")
    load = inference_days(15, start=begin).assign(origin="published")
    Lake(world.lake_uri).write_series("inference_load", CLUSTER, load)
    runs_lyra = replace(
        world.release.manifest,
        policy="lyra",
        settings=pinned_settings({}, "lyra"),
        parts={"loaning": pinned_loaning({"usage": "present", "headroom": 0.1})},
    )
    verdict = validate(world, tmp_path / "lyra", replace(world.release, manifest=runs_lyra))
    assert {one.name for one in verdict.constraints} >= ASKED
    with_loans, without, fifo = (
        float(str(next(row for row in verdict.policies if row["policy"] == name)["mean_jct_s"]))
        for name in (LENDS, "challenger", "fifo")
    )
    assert with_loans < without < fifo  # the shortest estimates first, and then more servers
    assert verdict.subject["policy"] == "lyra"
