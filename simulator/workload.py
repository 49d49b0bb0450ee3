"""The jobs that a simulation replays.

A workload is made from a job table (`cluster_logs.job_table.JOB_SCHEMA`) or from a `reference-csv`. Rows that
cannot be replayed are left out by a rule that has a name, and counted in `Workload.skipped`: the jobs and the
skipped rows together are the rows that came in. Times are seconds from the first job that is replayed, or
from an origin that is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from math import inf, isfinite
from sys import intern
from typing import TYPE_CHECKING, Any

import numpy as np

from foundation.errors import BadInputError
from simulator.cluster import ClusterSpec
from simulator.cluster_changes import ClusterChange
from simulator.job import Job, JobProfile
from simulator.job_columns import (
    ARRIVAL,
    aware,
    estimates_of,
    flags,
    floats,
    instants_of,
    numbers_or_none,
    require,
    strings_or_none,
    timed_out,
    waited_until_cancelled_s,
)
from simulator.job_family import job_templates
from simulator.skip_rules import (
    CPU_JOB,
    NEGATIVE_DURATION,
    SKIP_RULES,
    UNKNOWN_DURATION,
    LargestSizes,
    rule_against,
)
from simulator.speed_up import Elasticity, SpeedUp
from simulator.speed_up_table import elasticities, run_times_s
from simulator.workers import Workers

if TYPE_CHECKING:
    import pandas as pd

DURATION_TOLERANCE = 1e-6  # by which a run time may differ from what a job's speed-up curve says, relative


@dataclass(frozen=True)
class Workload:
    """Jobs in the order of (submit_time_s, order)."""

    jobs: tuple[Job, ...]
    skipped: Mapping[str, int]
    origin: "pd.Timestamp | None" = None  # the instant of second 0 (UTC)
    rows: np.ndarray | None = None  # for each job, its row in the frame that the workload was made of

    def __post_init__(self) -> None:
        previous = (-float("inf"), 0)
        for job in self.jobs:
            if (
                (job.gpus < 1 and job.cpus < 1)
                or not isfinite(job.submit_time_s)
                or not isfinite(job.duration_s)
            ):
                raise BadInputError(f"Job {job.job_id!r} cannot be replayed: {job}.")
            if job.cancel_time_s is not None and not job.withdrawn:
                raise BadInputError(f"Job {job.job_id!r} leaves at a time, but is not withdrawn: {job}.")
            if job.duration_s < 0:
                raise BadInputError(f"Job {job.job_id!r} has a duration of {job.duration_s} s.")
            if job.elasticity is not None:
                _check_elasticity(job, job.elasticity)
            if job.workers is not None:
                _check_workers(job, job.workers)
            now = (job.submit_time_s, job.order)
            if now < previous:
                raise BadInputError(
                    f"Job {job.job_id!r} breaks the order of submission.",
                    remedy="Sort the jobs by (submit_time_s, order).",
                )
            previous = now

    def __len__(self) -> int:
        return len(self.jobs)

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
        those of `simulator.speed_up_table`). `origin` is second 0; default: the first submission. A row with
        an `arrival_time` is submitted then.
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
        names = strings_or_none(frame, "name")
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
        measured = _profiles(frame, rows, profiles)
        users = strings_or_none(frame, "user")
        templates = job_templates(strings_or_none(frame, "job_type"), users, names)
        taken = rows.tolist()
        # In the order of Job's fields; column by column, so that a million jobs are made in seconds.
        columns: dict[str, Iterable[Any]] = {
            "job_id": frame["job_id"].astype(str).to_numpy(dtype=object)[rows].tolist(),
            "virtual_cluster": map(
                intern, frame["virtual_cluster"].astype(str).to_numpy(dtype=object)[rows].tolist()
            ),
            "user": map(users.__getitem__, taken),
            "gpus": gpus[rows].tolist(),
            "submit_time_s": seconds.tolist(),
            "duration_s": duration[rows].tolist(),
            "estimated_duration_s": estimates_of(estimated_duration_s, rows),
            "order": map(int, given[rows].tolist()),
            "profile": measured,
            "cpus": map(int, np.where(needs_cpus, cpus, 0)[rows].tolist()),
            "template": map(templates.__getitem__, taken),
            "cancel_time_s": numbers_or_none(np.where(withdrawn[rows], seconds + waited_s[rows], np.nan)),
            "phase": repeat(None, len(taken)),
            "long_cold_start": flags(frame, "long_cold_start")[rows].tolist(),
            "elasticity": map(elastic.__getitem__, taken),
            "workers": repeat(None, len(taken)),
            "time_limit_s": numbers_or_none(limit[rows]),
            "withdrawn": withdrawn[rows].tolist(),
            "timed_out": timed_out(frame)[rows].tolist(),
            "account": map(strings_or_none(frame, "account").__getitem__, taken),
            "qos": map(strings_or_none(frame, "qos").__getitem__, taken),
        }
        jobs = tuple(Job(*row) for row in zip(*columns.values(), strict=True))
        return cls(jobs, skipped, zero, rows)

    def with_estimates(self, estimated_duration_s: np.ndarray) -> "Workload":
        """Return the same jobs with other beliefs, one a job in the order of `jobs` (seconds).

        No job is believed to run for longer than its time limit lets it. What is believed of a withdrawn
        job stands for its run time, which is unknown.
        """
        if len(estimated_duration_s) != len(self.jobs):
            raise BadInputError(f"{len(estimated_duration_s)} estimates for {len(self.jobs)} jobs.")
        limits_s = np.array([inf if job.time_limit_s is None else job.time_limit_s for job in self.jobs])
        within = np.minimum(np.asarray(estimated_duration_s, dtype=np.float64), limits_s)
        beliefs = estimates_of(within, np.arange(len(self.jobs)))
        jobs = tuple(
            replace(job, estimated_duration_s=belief)
            if not job.withdrawn or belief is None
            else replace(job.lasting(max(0.0, belief)), estimated_duration_s=belief)
            for job, belief in zip(self.jobs, beliefs, strict=True)
        )
        return replace(self, jobs=jobs)

    def running_what_was_withdrawn(self) -> "Workload":
        """Let the withdrawn jobs run, for as long as they are guessed to (`Job.withdrawn`)."""
        jobs = tuple(replace(job, cancel_time_s=None) if job.withdrawn else job for job in self.jobs)
        return replace(self, jobs=jobs)

    def in_one_virtual_cluster(self, name: str) -> "Workload":
        """Return the same jobs, all in one virtual cluster; ties keep the order of `jobs`."""
        jobs = tuple(replace(job, virtual_cluster=name, order=i) for i, job in enumerate(self.jobs))
        return replace(self, jobs=jobs)

    def that_fit(self, cluster: ClusterSpec, changes: Sequence[ClusterChange] = ()) -> "Workload":
        """Leave out, and count, the jobs that could never start on this cluster as it changes.

        An elastic job needs its minimum, and any GPU if that is 0.
        """
        largest = LargestSizes(cluster, changes)
        rules = [rule_against(job, largest) for job in self.jobs]
        if not any(rules):
            return self
        skipped = dict(self.skipped)
        for rule in filter(None, rules):
            skipped[rule] = skipped.get(rule, 0) + 1
        kept = [i for i, rule in enumerate(rules) if rule is None]
        rows = None if self.rows is None else self.rows[kept]
        return replace(self, jobs=tuple(self.jobs[i] for i in kept), skipped=skipped, rows=rows)

    def largest_gpus(self, cluster: ClusterSpec) -> dict[str, int]:
        """Return the most GPUs that a job of each virtual cluster (or pool of several) asks for; of one in
        workers, those of its least workers.
        """
        largest = dict.fromkeys(cluster.virtual_clusters, 0)
        for job in self.jobs:
            gpus = job.gpus if job.workers is None else job.workers.base_gpus
            home = cluster.home_of(job.virtual_cluster)
            if gpus > largest[home]:
                largest[home] = gpus
        return largest

    def capped(self, cluster: ClusterSpec, changes: Sequence[ClusterChange] = ()) -> "Workload":
        """Let elastic jobs ask for no more GPUs than their virtual cluster ever has from their submission on.

        They have the same work to do, which takes longer on fewer GPUs.
        """
        largest = LargestSizes(cluster, changes)
        jobs = tuple(
            job
            if job.elasticity is None
            else job.on_at_most(largest.gpus_from(job.virtual_cluster, job.submit_time_s))
            for job in self.jobs
        )
        return self if jobs == self.jobs else replace(self, jobs=jobs)


def _check_elasticity(job: Job, elasticity: Elasticity) -> None:
    """Raise BadInputError unless the job's run time is what its curve says for all of its GPUs."""
    if not job.gpus or elasticity.min_gpus > job.gpus:
        raise BadInputError(
            f"Job {job.job_id!r} asks for {job.gpus} GPUs, and is to run on {elasticity.min_gpus} or more."
        )
    says_s = elasticity.service_s / elasticity.speed_up.at(job.gpus)
    if abs(says_s - job.duration_s) > DURATION_TOLERANCE * max(1.0, says_s):
        raise BadInputError(
            f"Job {job.job_id!r} takes {job.duration_s} s, and by its speed-up curve {says_s} s on "
            f"all of its {job.gpus} GPUs.",
            remedy="Let duration_s be service_s / S(gpus).",
        )


def _check_workers(job: Job, workers: Workers) -> None:
    """Raise BadInputError unless the job asks for the GPUs of all its workers."""
    if job.gpus != workers.gpus or job.elasticity is not None:
        raise BadInputError(
            f"Job {job.job_id!r} asks for {job.gpus} GPUs and has up to {workers.most} workers of "
            f"{workers.gpus_each}.",
            remedy="Let gpus be most x gpus_each, and give it no elasticity beside its workers.",
        )


def _profiles(
    frame: "pd.DataFrame",
    rows: np.ndarray,
    profiles: Mapping[str, JobProfile] | Sequence[JobProfile | None] | None,
) -> list[JobProfile | None]:
    """One profile a kept row: as given by row, by job type, or from the table's own columns."""
    types = strings_or_none(frame, "job_type")
    of_rows: list[JobProfile | None]
    if profiles is not None and not isinstance(profiles, Mapping):
        if len(profiles) != len(frame):
            raise BadInputError(f"{len(profiles)} profiles for {len(frame)} rows.")
        of_rows = [profiles[row] for row in rows]
    elif profiles is not None:
        of_rows = [profiles.get(types[row] or "") for row in rows]
    else:
        util, mem_util, mem = (
            floats(frame, name) for name in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib")
        )
        measured_rows = np.isfinite(util) & np.isfinite(mem_util) & np.isfinite(mem)
        of_rows = [
            JobProfile(row_util, row_mem_util, row_mem, _amp(types[row]), types[row]) if measured else None
            for row, measured, row_util, row_mem_util, row_mem in zip(
                rows.tolist(),
                measured_rows[rows].tolist(),
                util[rows].tolist(),
                mem_util[rows].tolist(),
                mem[rows].tolist(),
                strict=True,
            )
        ]
    return of_rows


def _amp(job_type: str | None) -> bool:
    return job_type is not None and job_type.endswith("/1")


def refuse_negative_estimates(workload: Workload, policy: str) -> None:
    """Raise BadInputError if a policy would order by an estimate below 0."""
    below = [job for job in workload.jobs if (job.estimated_duration_s or 0.0) < 0.0]
    if below:
        raise BadInputError(
            f"{policy} cannot believe that {len(below)} jobs take less than no time, the first "
            f"{below[0].job_id!r} with {below[0].estimated_duration_s} s.",
            remedy="Correct the estimates; only --rules helios-artifact takes them as they are.",
        )
