"""What is known of a job at its submission: which sources are believed, and that nothing of the future is."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_logs.job_table import to_frame
from cluster_logs.lake import Lake
from cluster_logs.metrics.job_metrics import JOB_METRICS_SCHEMA
from lucid_models.known_profiles import (
    LatestProfiles,
    profiles_known_at,
    queue_with_known_profiles,
    with_known_profiles,
    with_own_metrics,
)

T0 = pd.Timestamp("2024-01-01", tz="UTC")
COLUMNS = ["gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib"]


def at(hours: float) -> pd.Timestamp:
    return T0 + pd.Timedelta(hours=hours)


def job(job_id: str, submitted: float, **facts: object) -> dict[str, object]:
    return {"job_id": job_id, "submit_time": at(submitted), "user": "u", "name": "train_1", **facts}


def measured(job_id: str, submitted: float, known: float, util: float, **facts: object) -> dict[str, object]:
    return {
        "job_id": job_id, "submit_time": at(submitted), "user": "u", "name": "train_1", "job_type": None,
        "gpu_util_pct": util, "gpu_mem_util_pct": util / 2, "gpu_mem_mib": 100 * util, "power_w": None,
        "gpus_seen": 1, "samples": 10, "observed_gpu_s": 600.0, "coverage": 0.9, "origin": "running",
        "known_time": at(known), "source": "test", **facts,
    }  # fmt: skip


def jobs_of(*rows: dict[str, object]) -> pd.DataFrame:
    columns = ["job_id", "submit_time", "user", "name", "job_type", *COLUMNS]
    frame = pd.DataFrame(rows).reindex(columns=columns)
    return frame.astype(dict.fromkeys(COLUMNS, "float64")).astype({"submit_time": "datetime64[us, UTC]"})


def metrics_of(*rows: dict[str, object]) -> pd.DataFrame:
    """As the lake gives them."""
    if not rows:
        return to_frame(JOB_METRICS_SCHEMA.empty_table())
    lake = Lake("memory://known-profiles")
    table = lake._files.own(pd.DataFrame(rows), "c", "metrics")
    return to_frame(table)


def test_the_order_of_belief() -> None:
    jobs = jobs_of(
        job("stated", 10, gpu_util_pct=5.0, gpu_mem_util_pct=6.0, gpu_mem_mib=7.0),
        job("same-name", 10),
        job("same-type", 10, job_type="ResNet50/ImageNet/64/1"),
        job("same-family", 10, name="train_2"),
        job("predicted", 10, name="new"),
        job("unknown", 10, name="newer"),
        job("nameless", 10, name=None, user=None),
    )
    predicted = {"name": None, "user": None, "origin": "predicted", "observed_gpu_s": None}
    metrics = metrics_of(
        measured("a", 0, 1, 30.0),
        measured("b", 0, 2, 40.0),
        measured("late", 0, 10.5, 99.0),
        measured("typed", 0, 3, 50.0, job_type="ResNet50/ImageNet/64/1"),
        measured("predicted", 10, 10, 20.0, **predicted),
        measured("same-name", 10, 10, 21.0, **predicted),
        measured("another's", 10, 10, 22.0, **predicted | {"name": "newer", "user": "u"}),
    )
    known = profiles_known_at(jobs, metrics)
    assert known["origin"].tolist() == ["log", "running", "running", "running", "predicted", None, None]
    util = known["gpu_util_pct"].tolist()
    # The job of a type has the newest of its type; it is of the user's name too, and newer than b.
    assert util[:5] == [5.0, 50.0, 50.0, 50.0, 20.0]
    assert np.isnan(util[5:]).all()


def test_the_same_name_goes_before_the_family_and_a_type_before_both() -> None:
    metrics = metrics_of(
        measured("exact", 0, 1, 30.0, name="train_7"),
        measured("newer", 0, 5, 60.0, name="train_8"),
        measured("typed", 0, 2, 80.0, name="other", job_type="m/d/1/0"),
    )
    jobs = jobs_of(
        job("x", 9, name="train_7"),
        job("y", 9, name="train_9"),
        job("z", 9, name="train_7", job_type="m/d/1/0"),
    )
    assert profiles_known_at(jobs, metrics)["gpu_util_pct"].tolist() == [30.0, 60.0, 80.0]


def test_a_job_that_still_runs_tells_what_was_seen_of_it() -> None:
    metrics = metrics_of(
        measured("long", 0, 24, 20.0, observed_gpu_s=86_000.0),
        measured("long", 0, 48, 80.0, observed_gpu_s=43_000.0),
    )
    jobs = jobs_of(job("early", 12), job("second-day", 30), job("third-day", 50))
    util = profiles_known_at(jobs, metrics)["gpu_util_pct"].tolist()
    assert np.isnan(util[0])
    assert util[1:] == [20.0, pytest.approx(40.0)]


def test_a_glimpse_tells_nothing() -> None:
    metrics = metrics_of(measured("a", 0, 1, 30.0, observed_gpu_s=20.0))
    assert profiles_known_at(jobs_of(job("x", 2)), metrics)["origin"].tolist() == [None]


def test_clocks_that_disagree_let_no_job_know_itself() -> None:
    metrics = metrics_of(measured("x", 2, 1.5, 30.0))
    assert profiles_known_at(jobs_of(job("x", 2)), metrics)["origin"].tolist() == [None]
    assert profiles_known_at(jobs_of(job("y", 3)), metrics)["origin"].tolist() == ["running"]


def test_without_metrics_nothing_is_touched() -> None:
    jobs = jobs_of(job("x", 1), job("y", 2, gpu_util_pct=3.0))
    assert with_known_profiles(jobs, metrics_of()) is jobs
    assert with_own_metrics(jobs, metrics_of()) is jobs


def test_the_truth_of_a_job_is_its_own() -> None:
    jobs = jobs_of(
        job("x", 1),
        job("y", 2),
        job("stated", 2, gpu_util_pct=5.0, gpu_mem_util_pct=6.0, gpu_mem_mib=7.0),
        job("predicted", 2),
    )
    metrics = metrics_of(
        measured("x", 1, 3, 30.0),
        measured("stated", 2, 3, 60.0),
        measured("predicted", 2, 2, 60.0, origin="predicted"),
    )
    util = with_own_metrics(jobs, metrics)["gpu_util_pct"].tolist()
    assert util[0] == 30.0
    assert util[2] == 5.0
    assert np.isnan([util[1], util[3]]).all()


def log(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Twelve jobs of few programs, and what was said of them and of five others, on several days each."""
    names, types = ["train_1", "train_2", "eval", None], ["m/d/1/0", None, None]
    jobs, said = [], []
    for i in range(17):
        submitted = float(rng.integers(0, 40))
        facts = {"name": names[rng.integers(4)], "job_type": types[rng.integers(3)]}
        if i < 12:
            jobs.append(
                job(f"j{i}", submitted, **facts, **({"gpu_util_pct": 1.0} if rng.random() < 0.2 else {}))
            )
        for _ in range(rng.integers(0, 4)):
            origin = str(rng.choice(["running", "running", "profiled", "predicted"]))
            seen = {"origin": origin, "observed_gpu_s": float(rng.uniform(0, 1_000))}
            known = submitted + float(rng.integers(-2, 20))
            said.append(measured(f"j{i}", submitted, known, float(rng.uniform(0, 100)), **facts, **seen))
    return jobs_of(*jobs), metrics_of(*said)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(5, 40))
def test_the_future_has_no_part_in_it(seed: int, now: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, metrics = log(rng)
    before = profiles_known_at(jobs, metrics)
    late = (metrics["known_time"] > at(now)).to_numpy()
    corrupt = metrics.copy()
    for column in COLUMNS:
        corrupt.loc[late, column] = rng.uniform(0, 100, int(late.sum()))
    corrupt.loc[late, "observed_gpu_s"] = rng.uniform(0, 1e6, int(late.sum()))
    corrupt = corrupt[~late | (rng.random(len(corrupt)) < 0.7)].sample(frac=1.0, random_state=seed)
    after = profiles_known_at(jobs, corrupt)
    known = (jobs["submit_time"] <= at(now)).to_numpy()
    pd.testing.assert_frame_equal(before[known], after[known])
    stated = jobs[COLUMNS].notna()
    pd.testing.assert_frame_equal(before[COLUMNS][stated], jobs[COLUMNS][stated])


def test_a_queue_is_told_what_was_known() -> None:
    metrics = metrics_of(measured("a", 0, 1, 30.0), measured("late", 0, 9, 99.0))
    silent = {"job_id": "x", "submit_time_s": at(2).timestamp(), "user": "u", "name": "train_5", "gpus": 1}
    stated = silent | {"job_id": "y", "gpu_util_pct": 7.0, "gpu_mem_util_pct": None, "gpu_mem_mib": None}
    stranger = silent | {"job_id": "z", "user": "v"}
    filled = queue_with_known_profiles([silent, stated, stranger], metrics)
    assert filled[0] == silent | {"gpu_util_pct": 30.0, "gpu_mem_util_pct": 15.0, "gpu_mem_mib": 3_000.0}
    assert filled[1] == stated | {"gpu_mem_util_pct": 15.0, "gpu_mem_mib": 3_000.0}
    assert filled[2] == stranger
    assert queue_with_known_profiles([silent], metrics_of()) == [silent]


SOMEBODY = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["u", "v", None]),
        "name": st.sampled_from(["train_1", "train_2", "eval", None]),
        "job_type": st.sampled_from(["m/d/1/0", "m/d/2/1", None]),
    }
)
SEEN = st.tuples(
    SOMEBODY,
    st.integers(0, 9),  # when it was known (h)
    st.floats(1, 90),
    st.sampled_from([20.0, 600.0]),  # seconds observed
    st.sampled_from(["running", "profiled", "predicted"]),
    st.booleans(),  # whether its memory is known
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(SEEN, max_size=8), SOMEBODY)
def test_looked_up_job_by_job_it_is_what_is_known_at_a_submission(
    seen: list[tuple[dict[str, object], int, float, float, str, bool]], asked: dict[str, object]
) -> None:
    metrics = metrics_of(
        *(
            measured(f"m{number}", 0, hours, util, **who, observed_gpu_s=observed_s, origin=origin)
            | ({} if whole else {"gpu_mem_mib": None})
            for number, (who, hours, util, observed_s, origin, whole) in enumerate(seen)
        )
    )
    known = profiles_known_at(jobs_of(job("asked", 10, **asked)), metrics).iloc[0]
    found = LatestProfiles(metrics).of(asked["job_type"], asked["user"], asked["name"])  # type: ignore[arg-type]
    assert found == {name: known[name] for name in COLUMNS if np.isfinite(known[name])}
