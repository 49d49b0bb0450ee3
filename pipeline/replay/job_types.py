"""What the jobs of a log are taken to run: their measured types, and where the log does not say them."""

from typing import Literal

import pandas as pd

from simulator.workload.job import JobProfile

JobTypes = Literal["drawn", "log"]


def profiles_by_type(solo: pd.DataFrame) -> dict[str, JobProfile]:
    """Return the measured profile of each job type, not yet scored, in the order of the types' names."""
    columns = ["job_type", "gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp"]
    rows = solo[columns].sort_values("job_type", kind="stable").itertuples(index=False, name=None)
    return {
        str(name): JobProfile(float(util), float(mem_util), float(mem), bool(amp), str(name))
        for name, util, mem_util, mem, amp in rows
    }
