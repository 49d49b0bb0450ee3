"""QSSF's estimate: the paper's rules and the artifact's, difference by difference; nothing of the future."""

from dataclasses import replace
from difflib import get_close_matches

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from lucid_models.evaluation.rival_estimates import UNKNOWN_S, known_from_s
from lucid_models.qssf.estimates import mixed_s, qssf_estimates_s
from lucid_models.qssf.rolling import RollingEstimator, rolling_estimates_s
from lucid_models.qssf.rules import AS_SHIPPED, PUBLISHED, QssfRules, differences, load_qssf_rules
from lucid_models.qssf.similar_names import BestOfAllNames
from lucid_models.qssf.trees import DAY_S, LEAST_JOBS, TreeUpdates, tree_estimates_s

START = pd.Timestamp("2020-04-01", tz="UTC")
Past = list[tuple[str, str | None, int, float]]


def log(rows: list[tuple[float, str | None, str | None, int, float]]) -> pd.DataFrame:
    """Submission (s), user, name, GPUs, run time (s); no job waits."""
    submit, user, name, gpus, duration = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "job_id": [str(i) for i in range(len(rows))],
            "virtual_cluster": "v",
            "user": list(user),
            "name": list(name),
            "gpus": list(gpus),
            "submit_time": START + pd.to_timedelta(list(submit), unit="s"),
            "end_time": pd.NaT,
            "queuing_delay_s": np.nan,
            "duration_s": list(duration),
        }
    )


def said(past: Past, user: str, name: str | None, gpus: int, rules: QssfRules) -> float:
    """What the rules say of a new job after these (user, name, GPUs, run time) have ended."""
    estimator = RollingEstimator(rules)
    for job in past:
        estimator.ended(*job)
    return estimator.estimate_s(user, name, gpus)


BY_ANN: Past = [("ann", "bert", 1, 100.0), ("ann", "bert", 8, 300.0), ("bob", "gnn", 1, 9_000.0)]
CASES = {
    # difference: (jobs that have ended, the new job, the paper's estimate, the artifact's)
    "similar_names: of the user, or of all": (
        [("ann", "vit", 1, 60.0), ("bob", "resnet_base", 1, 500.0)],
        ("ann", "resnet_bias", 1),
        60.0,  # no name of ann's is like it: ann's mean
        500.0,  # bob's is, and ann has no job of that name: anybody's
    ),
    "similar_names: one group, or the two best": (
        [("ann", "bert_large_v1", 1, 10.0), ("ann", "bert_large_cased", 1, 70.0)],
        ("ann", "bert_large_v2", 1),
        10.0,  # digits apart the same name; the other one is too different for its group
        40.0,
    ),
    "new_user": (BY_ANN, ("eve", "vit", 8), 300.0, 9_400 / 3),
    "new_name": (BY_ANN, ("ann", "wave2vec", 8), 300.0, 200.0),
    "matched: decayed at any demand, or the mean at the demand": (
        [*BY_ANN, ("ann", "bert", 8, 500.0)],
        ("ann", "bert", 8),
        0.7 * (0.7 * 100 + 0.3 * 300) + 0.3 * 500,
        400.0,
    ),
    "matched: no job with the demand": (BY_ANN, ("ann", "bert", 4), 0.7 * 100 + 0.3 * 300, 200.0),
    "nothing has ended": ([], ("ann", "bert", 4), UNKNOWN_S, UNKNOWN_S),
}


@pytest.mark.parametrize("case", CASES)
def test_the_paper_and_the_artifact_differ(case: str) -> None:
    past, new, published, shipped = CASES[case]
    assert said(past, *new, PUBLISHED) == pytest.approx(published)
    assert said(past, *new, AS_SHIPPED) == pytest.approx(shipped)


def test_the_trees_are_mixed_in_and_the_artifact_leaves_out_what_they_say_below_0() -> None:
    rolling, trees = np.array([100.0, 100.0, 100.0, 100.0]), np.array([200.0, -50.0, np.nan, -1_000.0])
    assert mixed_s(rolling, trees, PUBLISHED).tolist() == [190.0, 1.0, 100.0, 1.0]
    assert mixed_s(rolling, trees, AS_SHIPPED).tolist() == [190.0, 100.0, 100.0, 100.0]
    half = replace(PUBLISHED, rolling_weight=0.5)
    assert mixed_s(rolling, trees, half).tolist() == [150.0, 25.0, 100.0, 1.0]


def test_all_differences_are_settings_and_wrong_ones_are_named() -> None:
    assert differences() == (
        "similar_names",
        "least_similarity",
        "matched",
        "new_user",
        "new_name",
        "trees_may_be_negative",
    )
    assert load_qssf_rules("qssf-artifact") is AS_SHIPPED
    with pytest.raises(UnknownNameError, match="qssf-artifact"):
        load_qssf_rules("helios")
    with pytest.raises(BadInputError, match=r"rolling_weight is 1\.5"):
        QssfRules(rolling_weight=1.5)
    with pytest.raises(BadInputError, match="same_gpus, all_jobs"):
        QssfRules(new_user="everybody")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="refit_days is 0"):
        TreeUpdates(refit_days=0)


def test_from_named_jobs_to_the_users_mean_to_the_size() -> None:
    jobs = log(
        [
            (0, "ann", "bert_lr1", 1, 100.0),
            (10, "bob", "gan", 1, 900.0),
            (2_000, "ann", "bert_lr2", 1, 200.0),  # same name but for digits: 100
            (4_000, "ann", "bert_lr3", 1, 1.0),  # decayed: 0.7 x 100 + 0.3 x 200
            (6_000, "ann", "vit", 1, 1.0),  # ann at 1 GPU: (100 + 200 + 1) / 3
            (6_500, "eve", "vit", 1, 1.0),  # everybody at 1 GPU: five have ended
            (6_600, "eve", "gnn", 8, 1.0),  # none at 8: all
        ]
    )
    found = rolling_estimates_s(jobs)
    assert found.tolist()[:2] == [UNKNOWN_S, UNKNOWN_S]
    assert found[2] == 100.0
    assert found[3] == pytest.approx(130.0)
    assert found[4] == pytest.approx(301 / 3)
    assert found[5] == pytest.approx((100 + 900 + 200 + 1 + 1) / 5)
    assert found[6] == pytest.approx((100 + 900 + 200 + 1 + 1 + 1) / 6)


def test_users_and_names_may_be_missing() -> None:
    jobs = log([(0, None, None, 4, 50.0), (10, None, None, 1, 10.0), (100, None, None, 4, 1.0)])
    assert rolling_estimates_s(jobs)[2] == 50.0  # the virtual cluster stands for the user
    numbered = log([(0, "a", "12", 1, 10.0), (1, "a", "97", 1, 900.0), (2_000, "a", "12", 1, 1.0)])
    assert rolling_estimates_s(numbered)[2] == 10.0  # a number is a name of its own
    assert rolling_estimates_s(numbered, AS_SHIPPED)[2] == 10.0


@given(
    past=st.lists(st.text("ab_c", min_size=1, max_size=6), min_size=1, max_size=25, unique=True),
    name=st.text("ab_c", min_size=1, max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_the_best_names_are_those_of_difflib(past: list[str], name: str) -> None:
    """Compared at once or as they end, the same two names are most alike."""
    names = BestOfAllNames(0.6)
    for one in past:
        names.counted_under("u", one)
        names.matching("u", name)
    expected = get_close_matches(name, past, n=2, cutoff=0.6)
    assert [key[1] for key in names.matching("u", name)[1]] == expected


@pytest.fixture(scope="module")
def fortnight() -> pd.DataFrame:
    """A fortnight of three users, whose run times follow their names, in seeded disorder."""
    rng = np.random.default_rng(7)
    names = ["bert_base", "bert_tune", "gnn", "resnet"]
    rows = []
    for submit in np.sort(rng.uniform(0, 14 * DAY_S, 900)):
        name = int(rng.integers(4))
        run_s = float(np.exp(5.0 + name + rng.normal(0, 0.5)))
        rows.append((float(submit), f"u{rng.integers(3)}", f"{names[name]}{rng.integers(9)}", 1, run_s))
    return log(rows)


UPDATES = TreeUpdates(first_fit_days=3, refit_days=4)


@pytest.fixture(scope="module", params=[PUBLISHED, AS_SHIPPED])
def estimated(
    request: pytest.FixtureRequest, fortnight: pd.DataFrame
) -> tuple[QssfRules, NDArray[np.float64]]:
    """The estimates of the fortnight by the published rules and by the artifact's."""
    return request.param, qssf_estimates_s(fortnight, request.param, UPDATES)


@given(cut=st.integers(400, 899), times=st.floats(0.1, 9.0))
@settings(max_examples=3, deadline=None)
def test_what_comes_later_changes_no_estimate(
    fortnight: pd.DataFrame, estimated: tuple[QssfRules, NDArray[np.float64]], cut: int, times: float
) -> None:
    """The run time of a job is unknown until its end, and no fit of the trees reads what comes after it."""
    rules, estimates = estimated
    now = fortnight["submit_time"].iloc[cut]
    later = fortnight.copy()
    unknown = known_from_s(fortnight) > now.timestamp()
    later.loc[unknown, "duration_s"] = later.loc[unknown, "duration_s"] * (1 + times)
    later.loc[fortnight["submit_time"] > now, ["user", "name", "gpus"]] = ["eve", "other", 8]
    before = (fortnight["submit_time"] <= now).to_numpy()
    assert np.isfinite(estimates).all()
    assert (estimates >= 1.0).all()
    np.testing.assert_array_equal(qssf_estimates_s(later, rules, UPDATES)[before], estimates[before])


def test_windows_count_from_the_first_submission(fortnight: pd.DataFrame) -> None:
    trees = tree_estimates_s(fortnight, TreeUpdates(first_fit_days=3, refit_days=None))
    since = (fortnight["submit_time"] - fortnight["submit_time"].min()).dt.total_seconds().to_numpy()
    assert np.isnan(trees).tolist() == (since < 3 * DAY_S).tolist()
    moved = fortnight.assign(submit_time=fortnight["submit_time"] + pd.Timedelta(weeks=52))
    again = tree_estimates_s(moved, TreeUpdates(first_fit_days=3, refit_days=None))
    assert np.isnan(again).tolist() == np.isnan(trees).tolist()
    few = fortnight.iloc[: LEAST_JOBS - 1]
    assert np.isnan(tree_estimates_s(few, TreeUpdates(first_fit_days=0.1))).all()
    assert len(tree_estimates_s(fortnight.iloc[:0])) == 0


def test_estimates_of_a_seeded_log_stay_as_they_are(fortnight: pd.DataFrame) -> None:
    """Golden rows: the last jobs of the fortnight by both rules, rolling alone and mixed."""
    updates = TreeUpdates(first_fit_days=7, refit_days=None)
    for name, (rolling, mixed) in {
        "qssf": ([374.451, 1067.254, 368.857], [327.624, 1877.201, 374.354]),
        "qssf-artifact": ([321.58, 1117.019, 321.847], [322.337, 1882.178, 369.653]),
    }.items():
        rules = load_qssf_rules(name)
        assert rolling_estimates_s(fortnight, rules)[-3:] == pytest.approx(rolling, rel=1e-5)
        assert qssf_estimates_s(fortnight, rules, updates)[-3:] == pytest.approx(mixed, rel=1e-5)
