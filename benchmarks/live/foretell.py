"""The same stream in our simulator: what it would have foretold for each mode.

Slurm's backfill with limits far beyond run times is EASY with such estimates; the daemon is the policy
`lucid` without profiling and sharing. The simulator knows neither passes nor seconds of launching.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.live.measures import Floats, Times
from benchmarks.live.publication import SETTINGS
from benchmarks.live.site import LONGEST_RUN_MIN
from benchmarks.live.stream import GPUS_PER_NODE, StreamJob, VirtualCluster
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

_ORIGIN = pd.Timestamp("2026-01-01", tz="UTC")
AGEING_S = float(SETTINGS["ageing_s"])


def foretell(
    jobs: Sequence[StreamJob],
    virtual_clusters: Sequence[VirtualCluster],
    estimates_s: Floats | None,
    ageing_s: float = AGEING_S,
) -> Times:
    """Return when each job would start and end: by Slurm's own order, or ordered by estimates (s)."""
    limits_s = np.array([60.0 * (job.time_limit_min or LONGEST_RUN_MIN) for job in jobs])
    frame = pd.DataFrame(
        {
            "job_id": [str(index) for index in range(len(jobs))],
            "virtual_cluster": [job.virtual_cluster for job in jobs],
            "user": [job.user for job in jobs],
            "gpus": [job.gpus for job in jobs],
            "submit_time": [_ORIGIN + pd.Timedelta(seconds=job.offset_s) for job in jobs],
            "duration_s": [job.duration_s for job in jobs],
        }
    )
    workload = Workload.from_jobs(
        frame, estimated_duration_s=limits_s if estimates_s is None else estimates_s
    )
    spec = ClusterSpec({one.name: one.nodes for one in virtual_clusters}, GPUS_PER_NODE)
    ordered = {"profiling_nodes": 0, "sharing": "none", "ageing_s": ageing_s}
    policy, settings = ("easy", {}) if estimates_s is None else ("lucid", ordered)
    table = simulate(Scenario(workload, spec), policy, settings=settings).jobs.set_index("job_id")
    rows = table.loc[frame["job_id"]]
    return Times(
        *(rows[name].to_numpy(float) for name in ("submit_time_s", "first_start_time_s", "end_time_s"))
    )
