"""The duration model beside its rivals: which take part, what they may know, groups of jobs."""

import numpy as np
import pandas as pd
import pytest

from experiments.model_quality.duration_comparison import DurationComparison, compare_durations
from experiments.model_quality.duration_rivals import add_duration_rivals
from experiments.model_quality.plots import coverage_by_estimate, draw_durations
from foundation.errors import BadInputError
from lucid_models.duration.model import DurationSettings
from lucid_models.evaluation.duration import evaluate_duration

of_experiments = pytest.mark.thorough("the experiments")


@pytest.fixture(scope="module")
def comparison(jobs: pd.DataFrame, duration_settings: DurationSettings) -> DurationComparison:
    return compare_durations(jobs, 9, rivals=add_duration_rivals, settings=duration_settings)


@of_experiments
def test_everybody_takes_part_on_the_same_jobs(comparison: DurationComparison) -> None:
    rows = {row["model"]: row for row in comparison.rows}
    assert {
        "ebm",
        "ewma",
        "size_alone",
        "tsafrir",
        "helios_rolling",
        "helios_mix",
        "helios_mix_shipped",
        "helios_mix_causal",
        "rf",
        "neural",
        "lucid_recipe",
        "rf_raw_ids",
    } <= set(rows)
    assert {row["jobs"] for row in rows.values()} == {len(comparison.estimates)}
    ours = rows["ebm"]
    assert ours["negative_share"] == 0.0
    assert 0.4 <= ours["coverage_p50"] <= 0.6
    assert 0.8 <= ours["coverage_p90"] <= 0.98
    assert ours["fit_s"] > 0
    assert ours["predict_ms"] > 0


@of_experiments
def test_causal_statistics_beat_raw_ids_and_squared_seconds_go_below_zero(
    comparison: DurationComparison,
) -> None:
    rows = {row["model"]: row for row in comparison.rows}
    assert rows["ebm"]["kendall_tau"] > rows["lucid_recipe"]["kendall_tau"] + 0.1
    assert rows["lucid_recipe"]["worse_by_low"] > 0
    assert rows["lucid_recipe"]["negative_share"] > 0
    assert (comparison.estimates["lucid_recipe"] < 0).any()


@of_experiments
def test_helios_mixes_its_rolling_estimate_with_trees(comparison: DurationComparison) -> None:
    said = comparison.estimates
    expected = 0.1 * said["helios_rolling"] + 0.9 * said["lightgbm"]
    np.testing.assert_allclose(said["helios_mix_causal"], np.maximum(expected, 1.0))
    assert (said["helios_mix"] != said["helios_mix_shipped"]).any()
    assert (said[["helios_mix", "helios_mix_shipped"]] >= 1.0).all(axis=None)


@of_experiments
def test_groups_add_up_to_the_whole(comparison: DurationComparison) -> None:
    groups = pd.DataFrame(comparison.by_group)
    assert set(groups["split"]) == {"user", "name", "virtual_cluster"}
    whole = {row["model"]: row["mae_log10"] for row in comparison.rows}
    for (model, _), part in groups.groupby(["model", "split"]):
        assert part["jobs"].sum() == len(comparison.estimates)
        weighted = (part["jobs"] * part["mae_log10"]).sum() / part["jobs"].sum()
        assert weighted == pytest.approx(whole[str(model)])


@of_experiments
def test_new_users_and_names_are_told_apart(jobs: pd.DataFrame, duration_settings: DurationSettings) -> None:
    late = jobs["submit_time"] >= jobs["submit_time"].min() + pd.Timedelta(days=9)
    renamed = jobs.copy()
    chosen = renamed.index[late][::4]
    renamed.loc[chosen, "user"] = "newcomer"
    groups = pd.DataFrame(compare_durations(renamed, 9, settings=duration_settings).by_group)
    new = groups[(groups["model"] == "ebm") & (groups["split"] == "user") & (groups["group"] == "new")]
    assert new["jobs"].tolist() == [len(chosen)]


@pytest.mark.slow
def test_jobs_that_never_ran_are_left_out_and_columns_may_be_missing(
    jobs: pd.DataFrame, duration_settings: DurationSettings
) -> None:
    bare = jobs.drop(columns=["user", "name", "virtual_cluster"]).copy()
    bare.loc[bare.index[-20:], "duration_s"] = [0.0] * 10 + [np.nan] * 10
    rows = {row["model"]: row for row in evaluate_duration(bare, 9, settings=duration_settings)}
    assert "tsafrir" not in rows
    late = jobs["submit_time"] >= jobs["submit_time"].min() + pd.Timedelta(days=9)
    assert {row["jobs"] for row in rows.values()} == {late.sum() - 20}
    with pytest.raises(BadInputError, match="split elsewhere"):
        evaluate_duration(jobs, 400)


@of_experiments
def test_pictures_show_what_was_measured(comparison: DurationComparison, tmp_path) -> None:
    _, covered = coverage_by_estimate(comparison.estimates, "p90_s")
    row = next(row for row in comparison.rows if row["model"] == "ebm")
    assert covered.mean() == pytest.approx(row["coverage_p90"], abs=0.03)
    drawn = draw_durations(comparison, tmp_path / "pictures")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
