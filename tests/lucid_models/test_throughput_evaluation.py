"""The throughput model beside its rivals: which take part, what they may read, what is refused."""

import numpy as np
import pandas as pd
import pytest

from experiments.model_quality import authors_recipes
from experiments.model_quality.throughput_comparison import ThroughputComparison, compare_throughput
from experiments.model_quality.throughput_rivals import read_published, throughput_rivals
from foundation.errors import BadInputError
from lucid_models.boosting import BoostingSettings
from lucid_models.evaluation.throughput import (
    evaluate_throughput,
)
from lucid_models.throughput.model import ThroughputSettings

of_experiments = pytest.mark.thorough("the experiments")

TEST_DAYS = 8
FAST = ThroughputSettings(
    boosting=BoostingSettings(objective="pseudo_huber:delta=1.0", bags=2, max_rounds=60, max_bins=32)
)


@pytest.fixture(scope="module")
def table(throughput: pd.DataFrame) -> pd.DataFrame:
    return throughput.iloc[: 144 * 14]


def published_of(table: pd.DataFrame) -> pd.DataFrame:
    """Predictions that are two jobs and three GPUs too many."""
    return pd.DataFrame(
        {
            "time": table["bin_start"],
            "pred_gpu_job": table["submitted_gpu_jobs"] + 2.0,
            "pred_gpu_num": table["submitted_gpus"] + 3.0,
        }
    )


def measured(table: pd.DataFrame) -> ThroughputComparison:
    with pytest.MonkeyPatch.context() as patch:
        # Ten pairs and many bags take most of the time; how well it forecasts is not asked here.
        patch.setattr(authors_recipes, "THROUGHPUT_INTERACTIONS", 0)
        patch.setattr(authors_recipes, "THROUGHPUT_BAGS", 2)
        published = read_published(published_of(table).sample(frac=1.0, random_state=0))
        return compare_throughput(
            table,
            test_days=TEST_DAYS,
            leads=("g5",),
            series=("jobs",),
            rivals=throughput_rivals(published=published),
            settings=FAST,
        )


@pytest.fixture(scope="module")
def comparison(table: pd.DataFrame) -> ThroughputComparison:
    return measured(table)


@of_experiments
def test_everybody_takes_part_on_the_same_bins(comparison: ThroughputComparison) -> None:
    rows = {row["model"]: row for row in comparison.rows}
    assert {
        "ebm",
        "ebm_weekly",
        "rf",
        "neural",
        "ebm_authors_recipe",
        "rf_authors_recipe",
        "lucid_published",
        "last_value",
        "rolling_median_12",
        "rolling_median_18",
        "rolling_mean_6",
        "same_time_yesterday",
        "same_time_last_week",
        "zero",
    } <= set(rows)
    assert {row["bins"] for row in rows.values()} <= {TEST_DAYS * 144, TEST_DAYS * 144 - 144}
    assert all(np.isfinite(row["mae"]) and row["mae"] > 0 for row in rows.values())
    assert rows["ebm"]["fit_s"] > 0
    assert rows["zero"]["worse_by_low"] > 0


@of_experiments
def test_published_predictions_are_aligned_by_time(comparison: ThroughputComparison) -> None:
    """They came shuffled; two too many is an error of two."""
    row = next(row for row in comparison.rows if row["model"] == "lucid_published")
    assert (row["mae"], row["fit_s"], row["predict_ms"]) == (pytest.approx(2.0), None, None)


@of_experiments
def test_the_future_moves_no_forecast(table: pd.DataFrame, comparison: ThroughputComparison) -> None:
    """Bins from one in the second test week on are ruined; what was forecast before they were known stays."""
    bins = len(table)
    ruined = table.copy()
    ruined["submitted_gpu_jobs"] = np.where(np.arange(bins) >= bins - 100, 9_999, table["submitted_gpu_jobs"])
    again = measured(ruined).forecasts["jobs", "g5"].drop(columns=["truth", "lucid_published"])
    before = comparison.forecasts["jobs", "g5"].drop(columns=["truth", "lucid_published"])
    untouched = len(before) - 100 + 5
    pd.testing.assert_frame_equal(before.iloc[:untouched], again.iloc[:untouched])
    assert not before.iloc[untouched:].equals(again.iloc[untouched:])


@of_experiments
def test_leads_are_named_and_never_mixed(table: pd.DataFrame) -> None:
    published = read_published(published_of(table))
    rivals = throughput_rivals(trained=False, published=published)
    rows = compare_throughput(table, test_days=2, leads=("g1",), rivals=rivals, settings=FAST).rows
    assert {row["lead"] for row in rows} == {"g1"}
    assert "lucid_published" not in {row["model"] for row in rows}  # they are of lead g5


@of_experiments
def test_what_does_not_fit_is_refused(table: pd.DataFrame) -> None:
    whole = published_of(table)
    assert read_published(whole).cover(table, 3)
    assert not read_published(whole.iloc[:-1]).cover(table, 3)
    short = read_published(whole.iloc[:-1])
    with pytest.raises(BadInputError, match="lack 1 of the 288 test bins"):
        compare_throughput(
            table,
            test_days=2,
            leads=("g5",),
            rivals=throughput_rivals(trained=False, published=short),
            settings=FAST,
        )
    with pytest.raises(BadInputError, match="lack the columns pred_gpu_num"):
        read_published(whole.drop(columns="pred_gpu_num"))
    with pytest.raises(BadInputError, match=r"have 2020.* twice"):
        read_published(pd.concat([whole, whole.iloc[:1]]))


def test_an_unknown_lead_and_a_table_without_days_to_learn_from_are_refused(table: pd.DataFrame) -> None:
    with pytest.raises(BadInputError, match="lead 'h1'"):
        evaluate_throughput(table, leads=("h1",), settings=FAST)
    with pytest.raises(BadInputError, match="nothing is left to learn from"):
        evaluate_throughput(table, test_days=14, settings=FAST)
