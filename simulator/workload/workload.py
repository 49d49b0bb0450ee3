"""The jobs that a simulation replays.

A workload is made from a job table (`cluster_logs.job_table.JOB_SCHEMA`) or from a `reference-csv`. Rows that
cannot be replayed are left out by a rule that has a name, and counted in `Workload.skipped`: the jobs and the
skipped rows together are the rows that came in. Times are seconds from the first job that is replayed, or
from an origin that is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from foundation.errors import BadInputError
from simulator.cluster.changes import ClusterChange
from simulator.cluster.spec import ClusterSpec
from simulator.workload.checks import check_jobs
from simulator.workload.columns import JobSequence, Texts, WorkloadColumns, objects_in, objects_or_none
from simulator.workload.job import Job, JobProfile
from simulator.workload.job_columns import (
    ARRIVAL,
    aware,
    estimates_of,
    flags,
    floats,
    instants_of,
    require,
    texts_of,
    timed_out,
    waited_until_cancelled_s,
)
from simulator.workload.job_family import template_texts
from simulator.workload.skip_rules import (
    CPU_JOB,
    NEGATIVE_DURATION,
    SKIP_RULES,
    UNKNOWN_DURATION,
    LargestSizes,
    rules_against,
)
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.speed_up_table import elasticities, run_times_s

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Workload:
    """Jobs in the order of (submit_time_s, order); `columns` are the same, column by column.

    Made of jobs, or of a `JobSequence` of columns, which makes a job when one is asked for.
    """

    jobs: Sequence[Job]
    skipped: Mapping[str, int]
    origin: "pd.Timestamp | None" = None  # the instant of second 0 (UTC)
    rows: np.ndarray | None = None  # for each job, its row in the frame that the workload was made of

    def __post_init__(self) -> None:
        if not isinstance(self.jobs, JobSequence):
            object.__setattr__(self, "jobs", JobSequence(self.jobs))
        check_jobs(self.columns)

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def columns(self) -> WorkloadColumns:
        """The jobs as columns."""
        return cast("JobSequence", self.jobs).columns

    def with_columns(self, **columns: Any) -> "Workload":
        """Return the same jobs with other columns, by the names of the fields of `Job`."""
        return replace(self, jobs=JobSequence(columns=replace(self.columns, **columns)))

    def taken(self, rows: np.ndarray) -> "Workload":
        """Return a workload of the jobs at these positions, or of those that a mask says."""
        at = np.flatnonzero(rows) if rows.dtype == bool else rows
        jobs = cast("JobSequence", self.jobs).taken(at)
        return replace(self, jobs=jobs, rows=None if self.rows is None else self.rows[at])

    @classmethod
    def from_jobs(
        cls,
        frame: "pd.DataFrame",
        *,
        window: tuple[datetime | None, datetime | None] = (None, None),
        estimated_duration_s: np.ndarray | None = None,
        profiles: Mapping[str, JobProfile] | Sequence[JobProfile | None] | None = None,
        cpu_jobs: bool = False,
        withdrawn_jobs: bool = True,
        speed_ups: Mapping[str, SpeedUp] | None = None,
        origin: datetime | None = None,
    ) -> "Workload":
        """Make a workload from a job table.

        `window` keeps the jobs submitted in [start, end). `estimated_duration_s` (seconds; default: the
        table's own column, where it has one) holds one value a row of `frame`; a NaN means none. `profiles`
        gives measured figures by job type, or one a row; without it the table's own `gpu_util_pct`,
        `gpu_mem_util_pct` and `gpu_mem_mib` columns are used where they are set. Jobs without a usable
        duration are left out and counted, and so are

        - CPU jobs, unless `cpu_jobs` (for a cluster with `cpu_cores_per_node`) and the table says how many
          cores they need;
        - jobs that ended while they waited (cancelled, past their deadline, refused), unless
          `withdrawn_jobs`: these wait until then (until they would start, where the log does not say when
          they left), and leave (`Job.withdrawn`). How long they would have run is unknown: `duration_s` is
          their time limit, else how long they waited, else nothing.

        A row with a `single_gpu_s` is an elastic job; `speed_ups` has the curve of its `name` (default:
        those of `speed_up_table`). `origin` is second 0; default: the first submission. A row with an
        `arrival_time` is submitted then.
        """
        import pandas as pd

        require(frame, ("job_id", "virtual_cluster", "gpus", "submit_time", "duration_s"))
        if estimated_duration_s is None and "estimated_duration_s" in frame.columns:
            estimated_duration_s = floats(frame, "estimated_duration_s")
        if estimated_duration_s is not None and len(estimated_duration_s) != len(frame):
            raise BadInputError(f"{len(estimated_duration_s)} estimates for {len(frame)} rows.")
        start, end = window
        submit = instants_of(frame["submit_time"])
        if ARRIVAL in frame.columns:
            submit = instants_of(frame[ARRIVAL]).fillna(submit)
        inside = np.ones(len(frame), dtype=bool)
        if start is not None:
            inside &= (submit >= pd.Timestamp(aware(start))).to_numpy()
        if end is not None:
            inside &= (submit < pd.Timestamp(aware(end))).to_numpy()
        if submit[inside].isna().any():
            raise BadInputError("A job has no submit_time.", remedy="Ingest the log again.")

        gpus = pd.to_numeric(frame["gpus"]).fillna(0).to_numpy(dtype=np.int64)
        duration = pd.to_numeric(frame["duration_s"], errors="coerce").to_numpy(dtype=np.float64)
        instants = submit.to_numpy(dtype="datetime64[us]").astype(np.int64)
        waited_s = waited_until_cancelled_s(frame, instants)
        withdrawn = ~np.isnan(waited_s)
        limit = floats(frame, "time_limit_s")
        limit = np.where(np.isfinite(limit) & (limit > 0), limit, np.nan)  # a limit of 0 is none
        guess = np.where(np.isnan(limit), np.where(np.isfinite(waited_s), waited_s, 0.0), limit)
        duration = np.where(withdrawn, guess if withdrawn_jobs else np.nan, duration)
        names = texts_of(frame, "name")
        elastic = elasticities(floats(frame, "single_gpu_s"), names, gpus, speed_ups)
        duration = run_times_s(elastic, gpus, duration)
        cpus = floats(frame, "cpus")
        needs_cpus = (gpus < 1) & (cpus >= 1) & cpu_jobs
        skipped = dict.fromkeys(SKIP_RULES, 0)
        keep = inside.copy()
        for rule, broken in (
            (CPU_JOB, (gpus < 1) & ~needs_cpus),
            (UNKNOWN_DURATION, ~np.isfinite(duration)),
            (NEGATIVE_DURATION, duration < 0),
        ):
            skipped[rule] = int((keep & broken).sum())
            keep &= ~broken

        stated = "order_in_vc" in frame.columns and bool(frame["order_in_vc"].notna().all())
        given = frame["order_in_vc"].to_numpy() if stated else np.arange(len(frame))
        rows = np.flatnonzero(keep)
        rows = rows[np.lexsort((given[rows], instants[rows]))]
        zero = pd.Timestamp(aware(origin)) if origin is not None else None
        if zero is None and len(rows):
            zero = pd.Timestamp(int(instants[rows[0]]), unit="us", tz="UTC")
        seconds = (instants[rows] - (zero.value // 1_000 if zero is not None else 0)) / 1e6
        users, types = texts_of(frame, "user")[rows], texts_of(frame, "job_type")
        columns = WorkloadColumns(
            job_id=frame["job_id"].astype("str").array[rows],
            virtual_cluster=texts_of(frame, "virtual_cluster")[rows],
            user=users,
            gpus=gpus[rows],
            submit_time_s=seconds,
            duration_s=duration[rows],
            estimated_duration_s=estimates_of(estimated_duration_s, rows),
            order=given[rows].astype(np.int64),
            profile=_profiles(frame, rows, types, profiles),
            cpus=np.where(needs_cpus, cpus, 0)[rows].astype(np.int64),
            template=template_texts(types[rows], users, names[rows]),
            cancel_time_s=np.where(withdrawn[rows], seconds + waited_s[rows], np.nan),
            phase=None,
            long_cold_start=flags(frame, "long_cold_start")[rows],
            elasticity=None if elastic is None else elastic[rows],
            workers=None,
            time_limit_s=limit[rows],
            withdrawn=withdrawn[rows],
            timed_out=timed_out(frame)[rows],
            account=texts_of(frame, "account")[rows],
            qos=texts_of(frame, "qos")[rows],
        )
        return cls(JobSequence(columns=columns), skipped, zero, rows)

    def with_estimates(self, estimated_duration_s: np.ndarray) -> "Workload":
        """Return the same jobs with other beliefs, one a job in the order of `jobs` (seconds).

        No job is believed to run for longer than its time limit lets it. What is believed of a withdrawn
        job stands for its run time, which is unknown.
        """
        if len(estimated_duration_s) != len(self.jobs):
            raise BadInputError(f"{len(estimated_duration_s)} estimates for {len(self.jobs)} jobs.")
        jobs = self.columns
        limits_s = np.where(np.isnan(jobs.time_limit_s), np.inf, jobs.time_limit_s)
        within = np.minimum(np.asarray(estimated_duration_s, dtype=np.float64), limits_s)
        beliefs = estimates_of(within, np.arange(len(self.jobs)))
        believed = jobs.withdrawn & ~np.isnan(beliefs)
        lasting = np.where(believed, np.maximum(0.0, beliefs), jobs.duration_s)
        elastic = jobs.elasticity
        if elastic is not None:
            elastic = elastic.copy()
            for row, _ in objects_in(elastic, believed):
                elastic[row] = self.jobs[row].lasting(float(lasting[row])).elasticity
        return self.with_columns(estimated_duration_s=beliefs, duration_s=lasting, elasticity=elastic)

    def running_what_was_withdrawn(self) -> "Workload":
        """Let the withdrawn jobs run, for as long as they are guessed to (`Job.withdrawn`)."""
        jobs = self.columns
        return self.with_columns(cancel_time_s=np.where(jobs.withdrawn, np.nan, jobs.cancel_time_s))

    def in_one_virtual_cluster(self, name: str) -> "Workload":
        """Return the same jobs, all in one virtual cluster; ties keep the order of `jobs`."""
        home = Texts(np.zeros(len(self), dtype=np.int32), (name,))
        return self.with_columns(virtual_cluster=home, order=np.arange(len(self)))

    def that_fit(self, cluster: ClusterSpec, changes: Sequence[ClusterChange] = ()) -> "Workload":
        """Leave out, and count, the jobs that could never start on this cluster as it changes.

        An elastic job needs its minimum, and any GPU if that is 0.
        """
        fit = np.ones(len(self), dtype=bool)
        skipped = dict(self.skipped)
        for rule, broken in rules_against(self.columns, LargestSizes(cluster, changes)):
            if broken.any():
                skipped[rule] = skipped.get(rule, 0) + int(broken.sum())
                fit &= ~broken
        return self if fit.all() else replace(self.taken(fit), skipped=skipped)

    def largest_gpus(self, cluster: ClusterSpec) -> dict[str, int]:
        """Return the most GPUs that a job of each virtual cluster (or pool of several) asks for; of one in
        workers, those of its least workers.
        """
        largest = dict.fromkeys(cluster.virtual_clusters, 0)
        jobs = self.columns
        gpus = jobs.gpus
        if jobs.workers is not None:
            gpus = gpus.copy()
            for row, workers in objects_in(jobs.workers):
                gpus[row] = workers.base_gpus
        for name, rows in jobs.virtual_cluster.groups():
            home = cluster.home_of(name)
            largest[home] = max(largest[home], int(gpus[rows].max()))
        return largest

    def capped(self, cluster: ClusterSpec, changes: Sequence[ClusterChange] = ()) -> "Workload":
        """Let elastic jobs ask for no more GPUs than their virtual cluster ever has from their submission on.

        They have the same work to do, which takes longer on fewer GPUs.
        """
        if self.columns.elasticity is None:
            return self
        largest = LargestSizes(cluster, changes)
        jobs = tuple(
            job
            if job.elasticity is None
            else job.on_at_most(int(largest.gpus_from(job.virtual_cluster, job.submit_time_s)))
            for job in self.jobs
        )
        return self if jobs == self.jobs else replace(self, jobs=jobs)


def _profiles(
    frame: "pd.DataFrame",
    rows: np.ndarray,
    types: Texts,
    profiles: Mapping[str, JobProfile] | Sequence[JobProfile | None] | None,
) -> np.ndarray | None:
    """One profile a kept row: as given by row, by job type, or from the table's own columns."""
    if profiles is not None and not isinstance(profiles, Mapping):
        if len(profiles) != len(frame):
            raise BadInputError(f"{len(profiles)} profiles for {len(frame)} rows.")
        return objects_or_none([profiles[row] for row in rows])
    if profiles is not None:
        of_types = objects_or_none([*map(profiles.get, types.names), profiles.get("")])
        return None if of_types is None else of_types[types.codes[rows]]
    util, mem_util, mem = (
        floats(frame, name)[rows] for name in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib")
    )
    measured = np.flatnonzero(np.isfinite(util) & np.isfinite(mem_util) & np.isfinite(mem))
    if not len(measured):
        return None
    found = np.empty(len(rows), dtype=object)
    found[measured] = [
        JobProfile(row_util, row_mem_util, row_mem, _amp(job_type), job_type)
        for row_util, row_mem_util, row_mem, job_type in zip(
            util[measured].tolist(),
            mem_util[measured].tolist(),
            mem[measured].tolist(),
            types[rows[measured]].tolist(),
            strict=True,
        )
    ]
    return found


def _amp(job_type: str | None) -> bool:
    return job_type is not None and job_type.endswith("/1")


def refuse_negative_estimates(workload: Workload, policy: str) -> None:
    """Raise BadInputError if a policy would order by an estimate below 0."""
    below = np.flatnonzero(workload.columns.estimated_duration_s < 0.0)
    if len(below):
        first = workload.jobs[int(below[0])]
        raise BadInputError(
            f"{policy} cannot believe that {len(below)} jobs take less than no time, the first "
            f"{first.job_id!r} with {first.estimated_duration_s} s.",
            remedy="Correct the estimates; only --rules helios-artifact takes them as they are.",
        )


def as_elastic(
    workload: Workload,
    min_gpus: int,
    *,
    models: Sequence[str | None] = (),
    speed_ups: Mapping[str, SpeedUp] | None = None,
) -> Workload:
    """Return the same jobs, each content with any number of GPUs from `min_gpus` to what it asked for.

    On those it takes as long as it did; on fewer, as the curve of its model says (`models`: one a job, in the
    order of `jobs`; `speed_ups`: curves by model), and without one in proportion. Jobs that are elastic
    already stay as they are.
    """
    if min_gpus < 0:
        raise BadInputError(f"Elastic jobs would need {min_gpus} GPUs at least.", remedy="Use 0 or more.")
    curves = speed_ups or {}
    jobs = []
    for i, job in enumerate(workload.jobs):
        if job.elasticity is None and job.gpus:
            curve = curves.get(models[i] or "") if models else None
            if curve is None:
                curve = SpeedUp.linear(job.gpus)
            elasticity = Elasticity(job.duration_s * curve.at(job.gpus), curve, min(min_gpus, job.gpus))
            job = replace(job, elasticity=elasticity)
        jobs.append(job)
    return replace(workload, jobs=tuple(jobs))
