"""The grade of a replay of the site's order: its waits beside those of the log that it was made of."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from simulator.results.result import SimulationResult
from simulator.scenario.scenario import Scenario
from simulator.site_order import SiteOrder
from simulator.wait_fidelity.explain import ReplayedSite
from simulator.wait_fidelity.grade import WaitGrade, grade_waits
from simulator.wait_fidelity.logged_jobs import logged_jobs, other_jobs


def grade_of_replay(
    frame: pd.DataFrame,
    scenario: Scenario,
    order: SiteOrder,
    result: SimulationResult,
    *,
    earlier: pd.DataFrame | None = None,
    counted: NDArray[np.bool_] | None = None,
) -> WaitGrade:
    """Return the grade of a result of the site's order.

    `frame` is the job table that the scenario's workload was made of, `earlier` the log's jobs before it,
    which the replay leaves out; `counted` says which of the workload's jobs count.
    """
    workload = scenario.workload
    replayed = np.zeros(len(frame), dtype=bool)
    replayed[np.arange(len(workload)) if workload.rows is None else workload.rows] = True
    left_out = frame[~replayed] if earlier is None else pd.concat([frame[~replayed], earlier])
    names = set(scenario.cluster.virtual_clusters)
    everyone = next(iter(names)) if len(names) == 1 else None
    withdrawn = workload.columns.withdrawn
    chosen = ~withdrawn if counted is None else counted & ~withdrawn
    site = ReplayedSite(
        order.words,
        scenario.cluster,
        scenario.changes,
        others=other_jobs(left_out[left_out["gpus"] > 0], workload.origin, everyone),
        withdrawn=withdrawn,
        believes_limits=order.believes_limits,
    )
    starts_s = np.full(len(workload), np.nan)  # those of the warm-up are not told, and do not count
    starts_s[result.warm_up_jobs :] = result.jobs["first_start_time_s"]
    return grade_waits(
        logged_jobs(frame, workload), starts_s, site, counted=chosen, not_modelled=order.not_modelled
    )
