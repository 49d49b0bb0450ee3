"""The rivals' estimates: what they say, and that nothing of the future is in them."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_models.evaluation.rival_estimates import UNKNOWN_S, known_from_s, user_name_s

START = pd.Timestamp("2020-04-01", tz="UTC")


def log(rows: list[tuple[float, str | None, str | None, int, float]]) -> pd.DataFrame:
    """Submission (s), user, name, GPUs, run time (s); none waits."""
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


def test_a_run_time_is_known_at_the_jobs_end_only() -> None:
    jobs = log([(0, "a", "x", 1, 5_000.0), (4_999, "a", "x", 1, 1.0), (5_001, "a", "x", 1, 1.0)])
    found = user_name_s(jobs)
    assert found[1] == UNKNOWN_S
    assert found[2] != UNKNOWN_S
    waited = jobs.assign(queuing_delay_s=[10.0, 0.0, 0.0])
    assert user_name_s(waited)[2] == 1.0  # the second job has ended by then, the first has not
    assert known_from_s(waited)[0] - known_from_s(jobs)[0] == 10.0
    ended = jobs.assign(end_time=START + pd.to_timedelta([7.0, 8.0, 9.0], unit="s"))
    assert known_from_s(ended)[0] == START.timestamp() + 7.0


@given(
    runs=st.lists(st.floats(1, 1e5), min_size=4, max_size=30),
    gaps=st.lists(st.floats(0, 2_000), min_size=30, max_size=30),
    cut=st.integers(1, 3),
)
@settings(max_examples=50, deadline=None)
def test_the_future_changes_no_estimate(runs: list[float], gaps: list[float], cut: int) -> None:
    times = np.cumsum(gaps[: len(runs)])
    jobs = log(
        [
            (t, f"u{i % 2}", f"n{i % 3}", 1 + i % 2, run)
            for i, (t, run) in enumerate(zip(times, runs, strict=True))
        ]
    )
    found = user_name_s(jobs)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    now = jobs["submit_time"].iloc[-cut]
    later = jobs.copy()
    unknown = known_from_s(jobs) > now.timestamp()
    later.loc[unknown, "duration_s"] = later.loc[unknown, "duration_s"] * 7 + 1
    before = (jobs["submit_time"] <= now).to_numpy()
    assert user_name_s(later)[before].tolist() == found[before].tolist()
