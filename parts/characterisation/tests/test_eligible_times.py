"""Waits behind others and idle GPUs beside the times from which on jobs might have started."""

import pandas as pd
import pytest

from cluster_logs.log_statistics.statistics import waiting_statistics
from parts.characterisation import waiting, waste
from parts.characterisation.tests.small_log import DAY_0, job, observed

HOUR_S = 3_600.0


def at(second: float) -> pd.Timestamp:
    return pd.Timestamp(DAY_0) + pd.Timedelta(seconds=second)


def test_a_wait_that_the_cluster_did_not_make_is_charged_to_none() -> None:
    jobs = [
        job(0, 0, 2 * HOUR_S, gpus=3, user="ada"),
        job(0, HOUR_S, HOUR_S, user="cy", eligible_time=at(HOUR_S)),
        job(0, HOUR_S, HOUR_S, user="dee", eligible_time=at(0.5 * HOUR_S)),
    ]
    log = observed(jobs, {"vc1": 4})
    pairs = waiting.waits_behind_users(log).reset_index()
    assert set(pairs["waiting_user"]) == {"dee"}
    assert pairs["waited_h"].sum() == pytest.approx(0.5)
    assert waste.idle_while_waiting(log).loc["vc1", "minutes_with_waiting"] == 30
    numbers = waiting_statistics(log)
    assert numbers["mean_s"] == pytest.approx(2 * HOUR_S / 3)
    assert numbers["barred_pct"] == pytest.approx(75)


def test_a_log_that_does_not_tell_it_has_jobs_wait_from_their_submission() -> None:
    log = observed([job(0, 0, 2 * HOUR_S), job(0, HOUR_S, HOUR_S, user="cy")])
    assert waiting.waits_behind_users(log)["waited_h"].sum() == pytest.approx(1.0)
    assert "barred_pct" not in waiting_statistics(log)
