"""The authors' recipes as rivals: what they read, and that they give the authors' results again."""

import numpy as np
import pandas as pd
import pytest

from cluster_logs.ingest import read_throughput_file
from experiments.model_quality import authors_recipes
from experiments.model_quality.throughput_comparison import compare_throughput
from experiments.model_quality.throughput_rivals import read_published, throughput_rivals
from tests.reference import ROOT

pytestmark = pytest.mark.thorough("the experiments")


def test_their_newest_input_is_five_bins_of_ten_minutes_back(throughput: pd.DataFrame) -> None:
    assert authors_recipes.newest_input_bins(600) == 5
    assert authors_recipes.newest_input_bins(3_600) is None
    before = authors_recipes.throughput_features(throughput)
    assert before.shape == (len(throughput), 25)
    changed = throughput.copy()
    changed.loc[2_000:, ["submitted_gpu_jobs", "submitted_gpus"]] = 999
    after = authors_recipes.throughput_features(changed)
    np.testing.assert_array_equal(before[:2_005], after[:2_005])
    assert (before[2_005] != after[2_005]).any()


def test_an_hour_ago_is_softened_over_three_bins(throughput: pd.DataFrame) -> None:
    features = authors_recipes.throughput_features(throughput)[1_000]
    counts = throughput["submitted_gpu_jobs"].to_numpy(dtype=float)
    assert features[7] == counts[994]
    assert features[10] == 0.5 * counts[994] + 0.25 * (counts[993] + counts[995])
    assert features[13] == pytest.approx(counts[989:995].mean())


def test_raw_columns_number_ids_as_they_appear(jobs: pd.DataFrame) -> None:
    train, test = jobs.iloc[:500], jobs.iloc[500:].assign(user="nobody before")
    columns = authors_recipes.raw_columns(train, test)
    assert columns.kinds[:3] == ("nominal", "nominal", "nominal")
    assert columns.train[0, 0] == 0.0
    assert (columns.test[:, 0] == -1.0).all()
    assert columns.train.shape[1] == columns.test.shape[1] == len(columns.kinds)
    blind = authors_recipes.raw_columns(train.assign(duration_s=1.0), test.assign(duration_s=1.0))
    np.testing.assert_array_equal(columns.train, blind.train)
    np.testing.assert_array_equal(columns.test, blind.test)


@pytest.mark.reference
def test_on_venus_their_black_box_gives_its_known_error(throughput_settings, monkeypatch) -> None:
    # Only the black box is looked at; the additive models beside it take most of the time and shall not.
    monkeypatch.setattr(authors_recipes, "THROUGHPUT_INTERACTIONS", 0)
    monkeypatch.setattr(authors_recipes, "THROUGHPUT_BAGS", 2)
    monkeypatch.setattr("experiments.model_quality.black_boxes.available", lambda: ("lightgbm",))
    folder = ROOT / "data" / "venus"
    rows = compare_throughput(
        read_throughput_file(str(folder / "cluster_throughput.csv.gz"), time_zone="UTC"),
        rivals=throughput_rivals(published=read_published(folder / "lucid_september_predictions.csv")),
        leads=("g5",),
        series=("gpus",),
        settings=throughput_settings,
    ).rows
    mae = {row["model"]: row["mae"] for row in rows}
    assert mae["lightgbm_authors_recipe"] == pytest.approx(53.3, abs=0.3)
    assert mae["lucid_published"] == pytest.approx(52.93, abs=0.01)
    assert {row["bins"] for row in rows} == {4_032}
