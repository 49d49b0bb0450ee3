"""How far a replay of a site's order is like its log: of a cluster in the lake, or of a log file."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.site.rules import SiteRules
from cluster_logs.site.stored_site import stored_site
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from foundation.site import Site
from pipeline.replay.cluster_events import EVERYONE, ClusterSize, lake_sizes
from pipeline.replay.log_file import LogFile, read_lake_jobs
from pipeline.replay.wait_grade import grade_of_replay
from pipeline.replay.warm_up import WARM_UP_DAYS
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.site_order import site_order
from simulator.wait_fidelity.grade import WaitGrade, not_graded
from simulator.workload.cluster_sizes import changing_cluster, with_room_for
from simulator.workload.workload import Workload


def grade_cluster(
    site: Site,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    declared: SiteRules | None = None,
) -> WaitGrade:
    """Grade the days of a cluster in the lake: its jobs submitted in [start, end).

    The jobs before them fill the cluster (`pipeline.replay.warm_up`). `declared`: what its site says, by
    default what the lake keeps. Raises NotFoundError where the lake has no nodes of the cluster,
    BadInputError where it has no such jobs.
    """
    warm = read_lake_jobs(site, start, end, warm_up_days=WARM_UP_DAYS)
    sizes = lake_sizes(site, warm.since, ZoneInfo("UTC"))
    rules = stored_site(site.lake, site.cluster) if declared is None else declared
    return grade_jobs(
        warm.jobs, sizes, rules, counted=warm.counted, earlier=warm.earlier, progress=site.progress
    )


def grade_log(
    log: LogFile, size: ClusterSize, declared: SiteRules | None = None, progress: Progress = silent
) -> WaitGrade:
    """Grade a log file. Raises BadInputError for an input that cannot be used."""
    frame, _ = log.read(progress)
    warm, sizes = log.part(frame), size.read(log.zone)
    return grade_jobs(
        warm.jobs, sizes, declared, counted=warm.counted, earlier=warm.earlier, progress=progress
    )


def grade_jobs(
    jobs: pd.DataFrame,
    sizes: pd.DataFrame,
    declared: SiteRules | None = None,
    *,
    counted: NDArray[np.bool_] | None = None,
    earlier: pd.DataFrame | None = None,
    progress: Progress = silent,
) -> WaitGrade:
    """Replay a job table under its site's order and grade the waits of its `counted` rows (default: all).

    `sizes` as `changing_cluster` reads them; `earlier` are jobs before these, which are not replayed. Where
    the table has no starts, nothing is replayed.
    """
    with_gpus = (jobs["gpus"] > 0).to_numpy(dtype=bool)
    jobs = jobs[with_gpus].reset_index(drop=True)
    counts = np.ones(len(jobs), dtype=bool) if counted is None else counted[with_gpus]
    if not jobs["start_time"].notna().any():
        return not_graded("the log does not say when jobs started.")
    workload = Workload.from_jobs(jobs)
    if set(sizes["virtual_cluster"]) == {EVERYONE}:
        workload = workload.in_one_virtual_cluster(EVERYONE)
    if workload.origin is None:
        raise BadInputError("The log has no GPU job that can be replayed.", remedy="Choose other days.")
    cluster, resized = changing_cluster(sizes, workload.origin)
    order = site_order(workload, declared)
    workload = order.knowing(workload.that_fit(cluster, resized))
    scenario = Scenario(workload, cluster, changes=with_room_for(workload.jobs, cluster, resized))
    result = simulate(scenario, order.policy, settings=order.settings, progress=progress)
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    return grade_of_replay(jobs, scenario, order, result, earlier=earlier, counted=counts[rows])
