"""What a validation replays: the held-out window with its warm-up, the cluster, and the jobs' profiles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.lake import Lake
from cluster_logs.metrics.job_metrics import PROFILE, RUNNING
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from lucid_models.known_profiles import LOG, profiles_known_at, with_own_metrics
from pipeline.profiling.profile_store import measured_or_simulated
from pipeline.replay.cluster_events import lake_sizes
from pipeline.training.windows import submission_span
from profiler_jobs.profile_table import ProfileSet
from simulator.cluster import ClusterSpec
from simulator.cluster_changes import ClusterChange
from simulator.cluster_sizes import changing_cluster, mean_gpus, with_room_for
from simulator.workload import JobProfile, Workload

JobTypes = Literal["drawn", "log"]
TICK = timedelta(microseconds=1)  # the lake's resolution: the last submission belongs to the window


@dataclass(frozen=True)
class HeldOutWindow:
    """[start, end) is judged; jobs submitted from `warm_up_start` on occupy the cluster before."""

    warm_up_start: datetime
    start: datetime
    end: datetime


@dataclass(frozen=True)
class ReplayInputs:
    """`replayed` holds the GPU jobs of warm-up and window by submission, `earlier` those before them."""

    window: HeldOutWindow
    earlier: pd.DataFrame
    replayed: pd.DataFrame
    judged: NDArray[np.bool_]  # which rows of `replayed` lie in the window
    cluster: ClusterSpec
    profiles: tuple[JobProfile | None, ...]  # one a row of `replayed`; not yet scored
    measured: ProfileSet  # alone, and how measured types slow each other down
    assumptions: tuple[str, ...]
    changes: tuple[ClusterChange, ...] = ()  # to `cluster`, in seconds from the first replayed submission

    @property
    def mean_gpus(self) -> float:
        """The GPUs that there were on average in the window."""
        origin = pd.Timestamp(self.replayed["submit_time"].iloc[0])
        start_s = (pd.Timestamp(self.window.start) - origin).total_seconds()
        end_s = (pd.Timestamp(self.window.end) - origin).total_seconds()
        return mean_gpus(self.cluster, self.changes, start_s, end_s)


def held_out_window(
    *,
    lake_uri: str,
    cluster: str,
    learned_until: datetime,
    hold_out_days: int,
    warm_up_days: float,
    as_of: datetime | None = None,
) -> HeldOutWindow:
    """The last `hold_out_days` before the last submission, or before `as_of` where that is earlier.

    Raises BadInputError when the release has learned from a part of it, or when it is empty.
    """
    first, last = submission_span(lake_uri, cluster, as_of)
    if not hold_out_days >= 1:
        raise BadInputError(f"A hold-out of {hold_out_days!r} days.", remedy="Use 1 day or more.")
    if learned_until >= last:
        raise BadInputError(
            f"There is nothing to judge: the release has learned until {_say(learned_until)}, and the last "
            f"job of {cluster!r} was submitted at {_say(last)}.",
            remedy="Ingest newer logs, or train on fewer days (`lucid train --hold-out-days`).",
        )
    start = last - timedelta(days=hold_out_days)
    if start < learned_until:
        most = int((last - learned_until) / timedelta(days=1))
        remedy = "train a release that stops earlier (`lucid train --hold-out-days`)"
        if most >= 1:
            remedy = f"hold out at most {most} days, or {remedy}"
        raise BadInputError(
            f"The window of {hold_out_days} days begins at {_say(start)}, but the release has learned until "
            f"{_say(learned_until)}: it would be judged on what it has seen.",
            remedy=remedy[0].upper() + remedy[1:] + ".",
        )
    warm_up_start = max(first, start - timedelta(days=warm_up_days))
    return HeldOutWindow(warm_up_start, start, last + TICK)


def read_inputs(
    *, lake_uri: str, cluster: str, window: HeldOutWindow, job_types: JobTypes, seed: int
) -> ReplayInputs:
    """Read jobs, cluster and profiles. Raises NotFoundError when the lake has no nodes of the cluster."""
    if job_types not in get_args(JobTypes):
        raise UnknownNameError("way to find job types", job_types, get_args(JobTypes))
    lake = Lake(lake_uri)
    jobs = lake.read_jobs(cluster, end=window.end)
    submit = pd.to_datetime(jobs["submit_time"], utc=True)
    replayed = jobs[(submit >= window.warm_up_start) & (jobs["gpus"] >= 1)].reset_index(drop=True)
    judged = (pd.to_datetime(replayed["submit_time"], utc=True) >= window.start).to_numpy(dtype=bool)
    said: list[str] = []
    sizes = _sizes(lake, cluster, window.warm_up_start)
    replayed, judged = _that_fit(replayed, judged, sizes, said)
    spec, changes = _changing(replayed, sizes, window.start)
    if changes:
        said.append(
            f"The virtual clusters change their size {len(changes):,} times, at midnight UTC of the days in "
            "the lake. Each keeps room for its largest job: none is left waiting for ever."
        )
    warm_up = int((~judged).sum())
    if warm_up:
        said.append(
            f"{warm_up:,} jobs submitted from {_say(window.warm_up_start)} on fill the cluster before the "
            "window; they are not counted. Jobs submitted before that are taken to have ended."
        )
    else:
        said.append("The log has no job before the window: the cluster starts empty.")
    if not judged.any():
        raise BadInputError(
            f"No job of {cluster!r} that can be replayed was submitted from {_say(window.start)} to "
            f"{_say(window.end)}. {' '.join(said)}",
            remedy="Hold out more days, or give the virtual clusters' nodes (`lucid ingest --nodes`).",
        )
    measured, remarks = measured_or_simulated(lake_uri, cluster)
    said += remarks
    metrics = lake.read_job_metrics(cluster)
    profiles = measured_profiles_of_jobs(replayed, metrics, measured, job_types, seed, said)
    return ReplayInputs(
        window,
        jobs[submit < window.warm_up_start].reset_index(drop=True),
        replayed,
        judged,
        spec,
        profiles,
        measured,
        tuple(said),
        changes,
    )


def _sizes(lake: Lake, cluster: str, at: datetime) -> pd.DataFrame:
    try:
        return lake_sizes(lake.uri, cluster, at, ZoneInfo("UTC"))
    except NotFoundError as error:
        raise NotFoundError(
            f"The size of cluster {cluster!r} is not in the lake {lake.uri}: nothing can be replayed.",
            remedy="Give a CSV of virtual_cluster,nodes: `lucid ingest ... --nodes FILE`.",
        ) from error


def _changing(
    replayed: pd.DataFrame, sizes: pd.DataFrame, otherwise: datetime
) -> tuple[ClusterSpec, tuple[ClusterChange, ...]]:
    """The cluster at the first replayed submission, and what happens to it from then on."""
    workload = Workload.from_jobs(replayed, withdrawn_jobs=False)
    origin = workload.origin if workload.origin is not None else pd.Timestamp(otherwise)
    spec, changes = changing_cluster(sizes, origin)
    return spec, with_room_for(workload.jobs, spec, changes)


def _that_fit(
    replayed: pd.DataFrame, judged: NDArray[np.bool_], sizes: pd.DataFrame, said: list[str]
) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """The rows that can be replayed at all; the others are counted by the simulator's rules."""
    if not len(replayed):
        return replayed, judged
    workload = Workload.from_jobs(replayed, withdrawn_jobs=False)
    if workload.origin is not None:
        workload = workload.that_fit(*changing_cluster(sizes, workload.origin))
    for rule, count in workload.skipped.items():
        if count:
            said.append(f"{count:,} jobs are left out of the replay: {rule.replace('_', ' ')}.")
    rows = np.sort(workload.rows) if workload.rows is not None else np.arange(0)
    return replayed.iloc[rows].reset_index(drop=True), judged[rows]


def profiles_of_jobs(
    jobs: pd.DataFrame, measured: ProfileSet, job_types: JobTypes, seed: int, said: list[str]
) -> tuple[JobProfile | None, ...]:
    """Return each row's profile, not yet scored: the log's own, that of its job type, or a drawn one.

    `job_types` as in `GateSettings`; what the log did not say is added to `said`.
    """
    util, mem_util, mem = (
        jobs[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib")
    )
    known = np.isfinite(util) & np.isfinite(mem_util) & np.isfinite(mem)
    types = [None if pd.isna(value) else str(value) for value in jobs["job_type"]]
    by_type = profiles_by_type(measured.solo)
    unknown = int(sum(not known[i] and types[i] not in by_type for i in range(len(jobs))))
    if unknown and job_types == "drawn":
        said.append(
            f"What {unknown:,} of {len(jobs):,} jobs run is not in the log: their profiles are drawn from "
            f"the {len(by_type)} measured configurations (seed {seed}), as in Lucid's evaluation. Figures "
            "that depend on sharing GPUs are therefore not those of the real workload."
        )
    elif unknown:
        said.append(
            f"What {unknown:,} of {len(jobs):,} jobs run is not in the log: they never share their GPUs."
        )
    drawn = _draw(by_type, len(jobs), seed)
    found: list[JobProfile | None] = []
    for i in range(len(jobs)):
        name = types[i]
        if known[i]:
            amp = name is not None and name.endswith("/1")
            found.append(JobProfile(float(util[i]), float(mem_util[i]), float(mem[i]), amp, name))
        elif name is not None and name in by_type:
            found.append(by_type[name])
        else:
            found.append(drawn[i] if job_types == "drawn" else None)
    return tuple(found)


def measured_profiles_of_jobs(
    jobs: pd.DataFrame,
    metrics: pd.DataFrame,
    measured: ProfileSet,
    job_types: JobTypes,
    seed: int,
    said: list[str],
) -> tuple[JobProfile | None, ...]:
    """As `profiles_of_jobs`, with what the lake's metrics say.

    What a job was measured to need while it ran is the truth of the replay; of a job that nobody measured it
    is what was known at its submission. The latter is what every prediction goes by, where there is any: a
    job of which nothing was known is measured by the profiler first. Without metrics, `profiles_of_jobs`.
    """
    if metrics.empty:
        return profiles_of_jobs(jobs, measured, job_types, seed, said)
    known = profiles_known_at(jobs, metrics)
    truth = with_own_metrics(jobs, metrics)
    truth = truth.assign(**{name: truth[name].fillna(known[name]) for name in PROFILE})
    found = list(profiles_of_jobs(truth, measured, job_types, seed, said))
    values = known[list(PROFILE)].to_numpy(dtype=np.float64)
    predicted = np.isfinite(values).all(axis=1) & (known["origin"] != LOG).to_numpy()
    for row in np.flatnonzero(predicted).tolist():
        profile = found[row]
        if profile is not None:
            util, mem_util, mem = values[row].tolist()
            found[row] = replace(profile, believed=(util, mem_util, mem))
    key = ["job_id", "submit_time"]
    running = pd.MultiIndex.from_frame(
        metrics.loc[metrics["origin"] == RUNNING, key].astype({"job_id": object})
    )
    own = pd.MultiIndex.from_frame(jobs[key].astype({"job_id": object})).isin(running)
    said.append(
        f"{int(own.sum()):,} of {len(jobs):,} jobs were measured while they ran, and share GPUs in the "
        "replay as they were measured. Predictions of how jobs share go by what was known at their "
        f"submission: for {int(predicted.sum()):,} jobs the metrics of earlier jobs of their kind, or a "
        "prediction. Memory limits go by what jobs used."
    )
    return tuple(found)


def profiles_by_type(solo: pd.DataFrame) -> dict[str, JobProfile]:
    """Return the measured profile of each job type, not yet scored, in the order of the types' names."""
    columns = ["job_type", "gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp"]
    rows = solo[columns].sort_values("job_type", kind="stable").itertuples(index=False, name=None)
    return {
        str(name): JobProfile(float(util), float(mem_util), float(mem), bool(amp), str(name))
        for name, util, mem_util, mem, amp in rows
    }


def _draw(by_type: dict[str, JobProfile], jobs: int, seed: int) -> Sequence[JobProfile | None]:
    if not by_type:
        return [None] * jobs
    configurations = list(by_type.values())
    drawn = np.random.default_rng(seed).integers(0, len(configurations), jobs)
    return [configurations[i] for i in drawn]


def _say(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
