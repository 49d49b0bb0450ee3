"""What was learned of missing values from few rows is shrunk by their number, whatever is boosted."""

import numpy as np
import pytest

from lucid_models.boosting import OBJECTIVES, BoostingSettings, boost
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from tests.lucid_models.conftest import make_jobs

ROWS = 800
LEAF = 8
DAYS_20_S = 20 * 86_400.0


def quick(objective: str, **changes: object) -> BoostingSettings:
    full = objective if objective != "tweedie_deviance" else "tweedie_deviance:variance_power=1.5"
    chosen = {"bags": 2, "max_rounds": 150, "max_bins": 8, "min_samples_leaf": LEAF, **changes}
    return BoostingSettings(objective=full, **chosen)


def learned(
    few: int, objective: str, *, known: bool = False, weights: np.ndarray | None = None, **changes: object
) -> tuple[float, float]:
    """Predictions without and with a value of feature 0, where `few` rows lack it (`known`: only they have
    it) and their target is 100 times that of all others.
    """
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, 2))
    odd = np.zeros(ROWS, dtype=bool)
    odd[:: ROWS // few][:few] = True
    features[~odd if known else odd, 0] = np.nan
    target = np.where(odd, 100.0, 1.0) * rng.lognormal(0.0, 0.2, ROWS)
    identity = objective.partition(":")[0] in ("rmse", "pseudo_huber")
    scorer = boost(
        features,
        np.log(target) if identity else target,
        ["a", "b"],
        np.arange(ROWS) // 50,
        quick(objective, **changes),
        weights,
    ).scorer
    said = scorer.predict(np.array([[np.nan, 0.0], [0.0, 0.0]]))
    said = np.exp(said) if identity else said
    return float(said[0]), float(said[1])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_one_row_without_a_value_teaches_nothing_about_later_ones(objective: str) -> None:
    missing, known = learned(1, objective)
    assert missing == pytest.approx(known, rel=0.01)
    # The mean of all rows is 1.2: nor do the others lose what the odd row took.
    assert 0.8 < known < 1.3


@pytest.mark.parametrize("objective", ["rmse", "pseudo_huber:delta=0.25", "poisson_deviance"])
def test_one_row_with_a_value_teaches_nothing_about_later_ones(objective: str) -> None:
    missing, known = learned(1, objective, known=True)
    assert known == pytest.approx(missing, rel=0.01)
    assert 0.8 < missing < 1.3


def test_the_more_rows_without_a_value_the_more_they_teach() -> None:
    # Their logarithm is ln(100) = 4.6 above the others'.
    told = [np.log(np.divide(*learned(few, "rmse"))) / np.log(100.0) for few in (LEAF, 2 * LEAF, 200)]
    assert told[0] == pytest.approx(0.0, abs=0.01)
    assert 0.2 < told[1] < 0.55
    assert 0.75 < told[2] < 1.0


def test_a_crowd_that_weighs_little_counts_as_it_weighs() -> None:
    weights = np.ones(ROWS)
    weights[:: ROWS // 20][:20] = 0.1
    missing, known = learned(20, "rmse", weights=weights)
    assert missing == pytest.approx(known, rel=0.03)
    heavy, _ = learned(20, "rmse")
    assert heavy > 5 * missing


def test_a_pair_of_features_learns_nothing_from_one_row_either() -> None:
    missing, known = learned(1, "rmse", pairs=((0, 1),))
    assert missing == pytest.approx(known, rel=0.01)


def test_one_long_job_without_a_limit_changes_no_estimate_of_later_jobs_without_one() -> None:
    jobs = make_jobs(1_200)
    rng = np.random.default_rng(0)
    jobs["duration_s"] = np.round(1_121 * rng.lognormal(0.0, 0.3, len(jobs)))
    jobs["time_limit_s"] = rng.choice([1_800.0, 3_600.0, 7_200.0], len(jobs))
    jobs.loc[150, ["duration_s", "time_limit_s"]] = DAYS_20_S, np.nan
    jobs["end_time"] = jobs["start_time"] + np.array(jobs["duration_s"], dtype="timedelta64[s]")
    fast = DurationSettings(
        log_boosting=quick("pseudo_huber:delta=0.25"), mean_boosting=quick("poisson_deviance")
    )
    ended = jobs["end_time"].max().to_pydatetime()
    model = WorkloadEstimateModel(fast).fit(jobs, known_until=ended)
    new = jobs.iloc[[-1, -1]].assign(time_limit_s=[np.nan, 3_600.0])
    without, beside = (model.estimate(new.iloc[[row]]).iloc[0] for row in (0, 1))
    for column in ("p50_s", "p90_s"):
        assert without[column] == pytest.approx(beside[column], rel=0.15)
        assert 700 < without[column] < 2_500
    assert without["mean_s"] == pytest.approx(beside["mean_s"], rel=0.15)
    assert "no time limit" not in without["reason"]
    head = model.scorer.log_head
    shape = head.terms[head.term_names.index("log_time_limit")]
    assert (shape.weights[0] > 0, shape.scores[0]) == (True, 0.0)
