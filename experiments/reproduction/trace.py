"""The trace that an evaluation replays: its window, the jobs before it, and the cluster."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.base import load_reader
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.synthetic.generator import synthesize
from experiments.reproduction.published import find_trace
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from pipeline.replay.log_file import within
from simulator.cluster.spec import ClusterSpec
from simulator.workload.workload import Workload

HISTORY_DAYS = 30  # of a synthetic log, before the window: what models learn from
_LIKE_OF_SYNTHETIC = {"helios-venus": "venus", "helios-saturn": "saturn", "philly": "philly"}


@dataclass(frozen=True)
class ReproductionTrace:
    """`jobs` are the job table's rows that are replayed, `earlier` those submitted before them.

    `like` names the paper's trace whose published figures stand beside ours. `remarks` say what a reader
    must know of the data.
    """

    title: str
    like: str
    source: str
    jobs: pd.DataFrame
    earlier: pd.DataFrame
    cluster: ClusterSpec
    synthetic: bool
    drawn_job_types: bool  # the source drew its job types: they are not what its users ran
    remarks: tuple[str, ...]

    @property
    def has_users_and_names(self) -> bool:
        """Whether the log says who submitted most jobs and what they are called."""
        return all(
            bool(len(frame)) and bool(frame[name].notna().mean() > 0.5)
            for frame in (self.jobs, self.earlier)
            for name in ("user", "name")
        )

    @property
    def has_stated_estimates(self) -> bool:
        """Whether every job came with an estimate of its run time."""
        return bool(self.jobs["estimated_duration_s"].notna().all())

    @property
    def has_job_types(self) -> bool:
        """Whether the log says what each job runs."""
        return bool(self.jobs["job_type"].notna().all())


def read_trace(
    *,
    jobs_path: Path,
    source_format: str,
    nodes_path: Path,
    gpus_per_node: int = 8,
    start: datetime | None = None,
    end: datetime | None = None,
    time_zone: str | None = None,
    like: str | None = None,
    title: str | None = None,
    progress: Progress = silent,
) -> ReproductionTrace:
    """Read a log; jobs submitted from `start` to `end` are the window. `like` defaults by the format.

    Raises BadInputError for a log, a window or a cluster that leaves nothing to replay.
    """
    beside = find_trace(like or ("philly" if source_format.startswith("philly") else "venus"))
    cluster = ClusterSpec.from_nodes(read_nodes_file(str(nodes_path), gpus_per_node=gpus_per_node))
    frame, account = read_jobs_file(str(jobs_path), source_format, time_zone=time_zone, progress=progress)
    remarks = [f"Rows of the log that are not replayed: {account.left_out}."] if account.left_out else []
    zone = ZoneInfo(time_zone or load_reader(source_format).time_zone)
    window = within(frame, start, end, zone)
    earlier = frame[frame["submit_time"] < window["submit_time"].min()]
    return _trace(
        title or jobs_path.name,
        beside,
        f"{jobs_path.name} ({source_format})",
        window,
        earlier,
        cluster,
        synthetic=False,
        drawn_job_types=source_format == "reference-csv",
        remarks=remarks,
    )


def synthesize_trace(
    like: str,
    *,
    days: int,
    seed: int,
    history_days: int = HISTORY_DAYS,
    like_trace: str | None = None,
    title: str | None = None,
    progress: Progress = silent,
) -> ReproductionTrace:
    """Make a log of `history_days` + `days` days like a published cluster and evaluate the last `days`."""
    made = synthesize(like, history_days + days, seed, progress=progress)
    first = pd.Timestamp(made.jobs["submit_time"].min()).normalize()
    begins = first + pd.Timedelta(days=history_days)
    inside = made.jobs["submit_time"] >= begins
    remarks = [
        (
            "The trace is synthetic: these rows were not measured. They imitate statistics that were "
            "published for the cluster (`lucid synthesize`), not its log."
        ),
        f"The {history_days} days before the window are what models learn from.",
    ]
    return _trace(
        title or f"{days} synthetic days like {like}",
        find_trace(like_trace or _LIKE_OF_SYNTHETIC[like]),
        f"lucid synthesize --like {like} --days {history_days + days} --seed {seed}",
        made.jobs[inside],
        made.jobs[~inside],
        ClusterSpec.from_nodes(made.nodes),
        synthetic=True,
        drawn_job_types=False,
        remarks=remarks,
    )


def _trace(
    title: str,
    like: str,
    source: str,
    window: pd.DataFrame,
    earlier: pd.DataFrame,
    cluster: ClusterSpec,
    *,
    synthetic: bool,
    drawn_job_types: bool,
    remarks: list[str],
) -> ReproductionTrace:
    """Leave out what cannot be replayed, and say so."""
    window = window.reset_index(drop=True)
    workload = Workload.from_jobs(window).that_fit(cluster)
    remarks += [
        f"Jobs of the window that are not replayed: {count:,} {rule.replace('_', ' ')}."
        for rule, count in sorted(workload.skipped.items())
        if count
    ]
    if not len(workload) or workload.rows is None:
        raise BadInputError(
            f"{title} has no job that can be replayed. " + " ".join(remarks),
            remedy="Check --nodes against the log's virtual clusters.",
        )
    jobs = window.iloc[np.sort(workload.rows)].reset_index(drop=True)
    return ReproductionTrace(
        title,
        like,
        source,
        jobs,
        earlier.reset_index(drop=True),
        cluster,
        synthetic,
        drawn_job_types,
        tuple(remarks),
    )
