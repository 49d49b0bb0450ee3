"""The page of a monitoring pass says what shorter time limits would have saved, where a log has limits."""

import numpy as np
import pandas as pd

from pipeline.monitoring.data import MonitoredTables, MonitoredWindow
from pipeline.monitoring.report import limit_savings

BEGIN = pd.Timestamp("2021-01-04", tz="UTC")
JOBS = 400


def tables(**columns: object) -> MonitoredTables:
    """Jobs of half an hour, one after the other, half of which are judged."""
    submit = BEGIN + pd.to_timedelta(np.arange(JOBS) * 2_000, unit="s")
    jobs = pd.DataFrame(
        {
            "job_id": [f"{number}" for number in range(JOBS)],
            "user": "ada",
            "virtual_cluster": "vc",
            "gpus": 1,
            "submit_time": submit,
            "start_time": submit,
            "end_time": submit + pd.Timedelta(seconds=1_800),
            "duration_s": 1_800.0,
            **columns,
        }
    )
    middle, end = submit[JOBS // 2].to_pydatetime(), submit[-1].to_pydatetime()
    window = MonitoredWindow(BEGIN.to_pydatetime(), middle, middle, end)
    return MonitoredTables(window, jobs, jobs, jobs, None, 0, JOBS, end)


def test_savings_are_of_the_judged_jobs() -> None:
    savings = limit_savings(tables(time_limit_s=43_200.0, gpus=np.arange(JOBS) % 2))
    assert [one.group for one in savings] == ["all", "GPU jobs"]
    assert [one.jobs for one in savings] == [JOBS // 2, JOBS // 4]
    savings = limit_savings(tables(time_limit_s=43_200.0))
    assert [one.group for one in savings] == ["all"]
    assert savings[0].jobs == JOBS // 2
    assert (savings[0].ratio_before, savings[0].ratio_after, savings[0].killed_pct) == (24.0, 1.5, 0.0)


def test_a_log_without_limits_says_nothing() -> None:
    assert limit_savings(tables()) == ()
    assert limit_savings(tables(time_limit_s=np.nan)) == ()
