"""What a validation replays: the held-out window with its warm-up, the cluster, and the jobs' profiles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.metrics.job_metrics import PROFILE, RUNNING
from foundation.errors import BadInputError, check_names
from lucid_models.known_profiles import LOG, profiles_known_at, with_own_metrics
from pipeline.replay.job_types import JobTypes, profiles_by_type
from pipeline.replay.warm_up import time_text, warm_jobs
from pipeline.validation.held_out_data import HeldOutData, HeldOutWindow
from profiler_jobs.profile_table import ProfileSet
from simulator.scenario.scenario import Scenario
from simulator.site_order import SiteOrder, site_order
from simulator.workload.cluster_sizes import changing_cluster, mean_gpus, with_room_for
from simulator.workload.colocation import MeasuredPairs
from simulator.workload.columns import objects_or_none
from simulator.workload.job import JobProfile
from simulator.workload.time_limits import with_limits_for_all
from simulator.workload.workload import Workload


@dataclass(frozen=True)
class ReplayInputs:
    """`replayed` holds the GPU jobs of warm-up and window, `earlier` those before them.

    `scenario` has the replayed jobs as the log and the measurements say they are: nothing is predicted yet.
    `order` is what the site follows today.
    """

    window: HeldOutWindow
    earlier: pd.DataFrame
    replayed: pd.DataFrame
    in_window: NDArray[np.bool_]  # which rows of `replayed` lie in the window; the others are warm-up
    withdrawn: NDArray[np.bool_]  # which of them left the log's queue without a run
    profiles: tuple[JobProfile | None, ...]  # one a row of `replayed`; not yet scored
    measured: ProfileSet  # alone, and how measured types slow each other down
    scenario: Scenario
    order: SiteOrder
    assumptions: tuple[str, ...]

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Which rows of `replayed` count: of the window, and with a run of their own to judge by."""
        return self.in_window & ~self.withdrawn

    @property
    def origin(self) -> pd.Timestamp:
        """Second 0 of the replay's clock: the first replayed job comes."""
        origin = self.scenario.workload.origin
        assert origin is not None  # noqa: S101 - some job is replayed
        return origin

    @property
    def start_s(self) -> float:
        """When the window begins on the replay's clock; what comes before is warm-up."""
        return float((pd.Timestamp(self.window.start) - self.origin).total_seconds())

    @property
    def end_s(self) -> float:
        """When the window ends on the replay's clock."""
        return float((pd.Timestamp(self.window.end) - self.origin).total_seconds())

    @property
    def mean_gpus(self) -> float:
        """The GPUs that there were on average in the window."""
        return mean_gpus(self.scenario.cluster, self.scenario.changes, self.start_s, self.end_s)


def replay_inputs(data: HeldOutData, *, job_types: JobTypes, seed: int) -> ReplayInputs:
    """Make what is replayed of what the lake holds. Raises BadInputError when nothing is left to judge."""
    check_names("way to find job types", [job_types], get_args(JobTypes))
    window, jobs = data.window, data.jobs
    warm = warm_jobs(jobs[jobs["gpus"] >= 1], window.start, window.end, warm_up_from=window.warm_up_start)
    replayed, in_window = warm.jobs, warm.counted
    remarks = [] if warm.remark is None else [warm.remark]
    replayed, in_window = _that_fit(replayed, in_window, data.sizes, remarks)
    workload, of_limits = with_limits_for_all(Workload.from_jobs(replayed))
    remarks += of_limits
    withdrawn = np.zeros(len(replayed), dtype=bool)
    withdrawn[_rows(workload)] = workload.columns.withdrawn
    if withdrawn.any():
        remarks.append(
            f"{int(withdrawn.sum()):,} jobs left the log's queue without a run: they hold their place "
            "until they left, and never a GPU; they are not counted."
        )
    origin = workload.origin if workload.origin is not None else pd.Timestamp(window.start)
    cluster, resized = changing_cluster(data.sizes, origin)
    changes = with_room_for(workload.jobs, cluster, resized)
    if changes:
        remarks.append(
            f"The virtual clusters change their size {len(changes):,} times, at midnight UTC of the days in "
            "the lake. Each keeps room for its largest job: none is left waiting for ever."
        )
    if not (in_window & ~withdrawn).any():
        raise BadInputError(
            f"No job of {data.cluster!r} that can be replayed was submitted from {time_text(window.start)} "
            f"to {time_text(window.end)}. {' '.join(remarks)}",
            remedy="Hold out more days, or give the virtual clusters' nodes (`lucid ingest --nodes`).",
        )
    remarks += data.remarks
    profiles = measured_profiles_of_jobs(replayed, data.job_metrics, data.measured, job_types, seed, remarks)
    scenario = Scenario(
        with_profiles(workload, profiles),
        cluster,
        colocation=MeasuredPairs(data.measured.pairs),
        changes=changes,
        counted_from_s=None if in_window.all() else (pd.Timestamp(window.start) - origin).total_seconds(),
    )
    order = site_order(workload, data.site)
    return ReplayInputs(
        window,
        warm.earlier,
        replayed,
        in_window,
        withdrawn,
        profiles,
        data.measured,
        scenario,
        order,
        tuple(remarks),
    )


def with_profiles(workload: Workload, profiles: Sequence[JobProfile | None]) -> Workload:
    """Return the same jobs with other profiles, one a row of the frame that the workload was made of."""
    return workload.with_columns(profile=objects_or_none([profiles[row] for row in _rows(workload).tolist()]))


def _rows(workload: Workload) -> NDArray[np.intp]:
    return np.arange(len(workload)) if workload.rows is None else workload.rows


def _that_fit(
    replayed: pd.DataFrame, in_window: NDArray[np.bool_], sizes: pd.DataFrame, remarks: list[str]
) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """The rows that can be replayed at all; the others are counted by the simulator's rules."""
    if not len(replayed):
        return replayed, in_window
    workload = Workload.from_jobs(replayed)
    if workload.origin is not None:
        workload = workload.that_fit(*changing_cluster(sizes, workload.origin))
    for rule, count in workload.skipped.items():
        if count:
            remarks.append(f"{count:,} jobs are left out of the replay: {rule.replace('_', ' ')}.")
    rows = np.sort(_rows(workload))
    return replayed.iloc[rows].reset_index(drop=True), in_window[rows]


def profiles_of_jobs(
    jobs: pd.DataFrame, measured: ProfileSet, job_types: JobTypes, seed: int, remarks: list[str]
) -> tuple[JobProfile | None, ...]:
    """Return each row's profile, not yet scored: the log's own, that of its job type, or a drawn one.

    `job_types` as in `GateSettings`; what the log did not say is added to `remarks`.
    """
    util, mem_util, mem = (
        jobs[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib")
    )
    is_measured = np.isfinite(util) & np.isfinite(mem_util) & np.isfinite(mem)
    types = [None if pd.isna(value) else str(value) for value in jobs["job_type"]]
    by_type = profiles_by_type(measured.solo)
    unknown = int(sum(not is_measured[i] and types[i] not in by_type for i in range(len(jobs))))
    if unknown and job_types == "drawn":
        remarks.append(
            f"What {unknown:,} of {len(jobs):,} jobs run is not in the log: their profiles are drawn from "
            f"the {len(by_type)} measured configurations (seed {seed}), as in Lucid's evaluation. Figures "
            "that depend on sharing GPUs are therefore not those of the real workload."
        )
    elif unknown:
        remarks.append(
            f"What {unknown:,} of {len(jobs):,} jobs run is not in the log: they never share their GPUs."
        )
    drawn = _draw(by_type, len(jobs), seed)
    profiles: list[JobProfile | None] = []
    for i in range(len(jobs)):
        name = types[i]
        if is_measured[i]:
            amp = name is not None and name.endswith("/1")
            profiles.append(JobProfile(float(util[i]), float(mem_util[i]), float(mem[i]), amp, name))
        elif name is not None and name in by_type:
            profiles.append(by_type[name])
        else:
            profiles.append(drawn[i] if job_types == "drawn" else None)
    return tuple(profiles)


def measured_profiles_of_jobs(
    jobs: pd.DataFrame,
    metrics: pd.DataFrame,
    measured: ProfileSet,
    job_types: JobTypes,
    seed: int,
    remarks: list[str],
) -> tuple[JobProfile | None, ...]:
    """As `profiles_of_jobs`, with what the lake's metrics say.

    What a job was measured to need while it ran is the truth of the replay; of a job never measured it
    is what was known at its submission. The latter is what every prediction goes by, where there is any: a
    job of which nothing was known is measured by the profiler first. Without metrics, `profiles_of_jobs`.
    """
    if metrics.empty:
        return profiles_of_jobs(jobs, measured, job_types, seed, remarks)
    known_profiles = profiles_known_at(jobs, metrics)
    truth = with_own_metrics(jobs, metrics)
    truth = truth.assign(**{name: truth[name].fillna(known_profiles[name]) for name in PROFILE})
    profiles = list(profiles_of_jobs(truth, measured, job_types, seed, remarks))
    values = known_profiles[list(PROFILE)].to_numpy(dtype=np.float64)
    predicted = np.isfinite(values).all(axis=1) & (known_profiles["origin"] != LOG).to_numpy()
    for row in np.flatnonzero(predicted).tolist():
        profile = profiles[row]
        if profile is not None:
            util, mem_util, mem = values[row].tolist()
            profiles[row] = replace(profile, believed=(util, mem_util, mem))
    key = ["job_id", "submit_time"]
    running = pd.MultiIndex.from_frame(
        metrics.loc[metrics["origin"] == RUNNING, key].astype({"job_id": object})
    )
    own = pd.MultiIndex.from_frame(jobs[key].astype({"job_id": object})).isin(running)
    remarks.append(
        f"{int(own.sum()):,} of {len(jobs):,} jobs were measured while they ran, and share GPUs in the "
        "replay as they were measured. Predictions of how jobs share go by what was known at their "
        f"submission: for {int(predicted.sum()):,} jobs the metrics of earlier jobs of their kind, or a "
        "prediction. Memory limits go by what jobs used."
    )
    return tuple(profiles)


def _draw(by_type: dict[str, JobProfile], jobs: int, seed: int) -> Sequence[JobProfile | None]:
    if not by_type:
        return [None] * jobs
    configurations = list(by_type.values())
    drawn = np.random.default_rng(seed).integers(0, len(configurations), jobs)
    return [configurations[i] for i in drawn]
