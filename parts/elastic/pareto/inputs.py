"""The collected workload that a search draws its samples from, frozen beside the search.

Jobs of logs without speed-up curves are taken as linear (any share of a GPU is of use, and twice the GPUs are
twice the speed) or as rigid (all of their GPUs or none, which needs whole GPUs), as the operator says. Linear
is the default because completions are predicted so much faster in fractions; the gate replays what is picked
with jobs as they are.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.node_table import open_to_each
from foundation import strict_json
from foundation.errors import BadInputError, check_names
from foundation.progress import Progress, silent
from foundation.site import Site
from foundation.storage import read_bytes
from lucid_models.training_data import as_known_at
from parts.elastic.active_job import rigid
from simulator.workload.job import Job
from simulator.workload.speed_up import Elasticity, SpeedUp
from simulator.workload.speed_up_table import read_speed_ups
from simulator.workload.workload import Workload

Scaling = Literal["rigid", "linear"]
INPUTS_FILE = "workload.json.gz"
POOL = "pool"
HISTORY_JOBS = 50_000  # the newest: older jobs say little of those to come
BIGGER_THAN_POOL, OLDER_THAN_HISTORY = "bigger_than_pool", "older_than_history"


@dataclass(frozen=True)
class Collected:
    """A workload as it was collected: elastic jobs by submission, the pool, and what was left out."""

    jobs: tuple[Job, ...]
    gpus: int
    whole: bool  # GPUs are handed out whole
    remarks: tuple[str, ...] = ()

    @property
    def sizes_s(self) -> list[float]:
        """Run times on one GPU (s), ascending: what size classes are cut from."""
        return sorted(elasticity_of(job).service_s for job in self.jobs)

    @property
    def all_rigid(self) -> bool:
        """Whether no job can do with fewer GPUs than it asks for."""
        return all(elasticity_of(job).min_gpus == job.gpus for job in self.jobs)

    def to_bytes(self) -> bytes:
        """Return the jobs and the pool as compressed JSON, the same bytes for the same workload."""
        curves: dict[SpeedUp, int] = {}
        rows = []
        for job in self.jobs:
            elasticity = elasticity_of(job)
            curve = curves.setdefault(elasticity.speed_up, len(curves))
            rows.append([job.submit_time_s, elasticity.service_s, job.gpus, elasticity.min_gpus, curve])
        document = {
            "gpus": self.gpus,
            "whole": self.whole,
            "columns": ["submit_time_s", "service_s", "gpus", "min_gpus", "curve"],
            "jobs": rows,
            "curves": [list(curve.values) for curve in curves],
        }
        return gzip.compress(json.dumps(document, allow_nan=False).encode(), mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Collected":
        """Read what `to_bytes` wrote; ids are the positions."""
        document = strict_json.loads(gzip.decompress(data))
        curves = [SpeedUp(tuple(values)) for values in document["curves"]]
        jobs = []
        for i, (submit_s, service_s, gpus, min_gpus, curve) in enumerate(document["jobs"]):
            elasticity = Elasticity(service_s, curves[curve], min_gpus)
            jobs.append(_job(str(i), i, submit_s, gpus, elasticity))
        return cls(tuple(jobs), int(document["gpus"]), bool(document["whole"]))


def elasticity_of(job: Job) -> Elasticity:
    """Return what a job is; one that says nothing is rigid."""
    return job.elasticity or rigid(job)


def _job(job_id: str, order: int, submit_time_s: float, gpus: int, elasticity: Elasticity) -> Job:
    speed = elasticity.speed_up.at(gpus)
    return Job(
        job_id,
        POOL,
        None,
        gpus,
        submit_time_s,
        elasticity.service_s / speed,
        order=order,
        elasticity=elasticity,
    )


def collect_from_log(
    jobs_path: Path,
    source_format: str,
    *,
    gpus: int,
    scaling: Scaling = "rigid",
    whole: bool | None = None,
    speed_ups_path: Path | None = None,
    time_zone: str | None = None,
    progress: Progress = silent,
) -> Collected:
    """Read a log file: all of its jobs share one pool. Raises BadInputError when there is nothing to sample.

    `whole` None: whole GPUs if a job is rigid, else fractions, as in the paper's simulator.
    """
    frame, account = read_jobs_file(str(jobs_path), source_format, time_zone=time_zone, progress=progress)
    remarks = [f"Rows of the log that are not used: {account.left_out}."] if account.left_out else []
    speed_ups = read_speed_ups(speed_ups_path) if speed_ups_path is not None else None
    return collect(frame, gpus=gpus, scaling=scaling, whole=whole, speed_ups=speed_ups, remarks=remarks)


def collect_from_lake(
    site: Site,
    *,
    until: datetime,
    virtual_cluster: str | None = None,
    gpus: int | None = None,
    scaling: Scaling = "rigid",
    whole: bool | None = None,
) -> Collected:
    """Read what the lake knew of a cluster at `until`; its GPUs then are the pool unless `gpus` says.

    With a `virtual_cluster` only its jobs and GPUs, else all as one pool.
    """
    lake = Lake(site.lake)
    frame = as_known_at(lake.read_jobs(site.cluster, end=until), until)
    nodes = lake.read_nodes(site.cluster, until.date())
    if virtual_cluster is not None:
        nodes = open_to_each(nodes)
        check_names("virtual cluster", [virtual_cluster], sorted(set(nodes["virtual_cluster"])))
        frame = frame[frame["virtual_cluster"] == virtual_cluster]
        nodes = nodes[nodes["virtual_cluster"] == virtual_cluster]
    total = gpus or int((nodes["nodes"] * nodes["gpus_per_node"]).sum())
    return collect(frame, gpus=total, scaling=scaling, whole=whole)


def collect(
    frame: pd.DataFrame,
    *,
    gpus: int,
    scaling: Scaling = "rigid",
    whole: bool | None = None,
    speed_ups: Mapping[str, SpeedUp] | None = None,
    remarks: Sequence[str] = (),
) -> Collected:
    """Make the workload of a job table."""
    check_names("scaling", [scaling], get_args(Scaling))
    workload = Workload.from_jobs(frame.reset_index(drop=True), withdrawn_jobs=False, speed_ups=speed_ups)
    all_remarks = list(remarks)
    skipped = {rule: count for rule, count in workload.skipped.items() if count}
    if len(workload) > HISTORY_JOBS:
        skipped[OLDER_THAN_HISTORY] = len(workload) - HISTORY_JOBS
    curveless = 0
    jobs: list[Job] = []
    for job in workload.jobs[-HISTORY_JOBS:]:
        elasticity = job.elasticity
        if elasticity is None:
            curveless += 1
            linear = Elasticity(job.duration_s * job.gpus, _linear(job.gpus))
            elasticity = linear if scaling == "linear" else rigid(job)
        if elasticity.min_gpus > gpus:
            skipped[BIGGER_THAN_POOL] = skipped.get(BIGGER_THAN_POOL, 0) + 1
            continue
        jobs.append(_job(str(len(jobs)), len(jobs), job.submit_time_s, job.gpus, elasticity))
    all_remarks += [f"Jobs that are not used: {count:,} {rule}." for rule, count in sorted(skipped.items())]
    if curveless:
        all_remarks.append(
            f"{curveless:,} of {len(jobs):,} jobs have no speed-up curve and are taken as {scaling} "
            "(--scaling rigid or linear)."
        )
    if not jobs:
        raise BadInputError(
            "The log has no job to draw samples from. " + " ".join(all_remarks),
            remedy="Check --gpus and the format.",
        )
    if whole is None:
        whole = any(elasticity_of(job).min_gpus for job in jobs)
    return Collected(tuple(jobs), gpus, whole, tuple(all_remarks))


@cache
def _linear(gpus: int) -> SpeedUp:
    return SpeedUp.linear(gpus)


def read_collected(uri: str) -> Collected:
    """Read a stored workload; raises BadInputError when it is gone."""
    data = read_bytes(f"{uri}/{INPUTS_FILE}")
    if data is None:
        raise BadInputError(f"{uri} has lost its {INPUTS_FILE}.", remedy="Plan the search again.")
    return Collected.from_bytes(data)
