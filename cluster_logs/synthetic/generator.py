"""A synthetic cluster: its job table, its throughput, its nodes, and what tables of parts hold.

These rows are not measured. They imitate published statistics (`cluster_profiles`), and `measure_statistics`
says how well. Times are UTC, and the cluster's people live by UTC too. The log opens on an empty cluster,
holds every job submitted in its days, and knows how each of them ended, also after the last day.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from cluster_logs.cluster_writes import SYNTHETIC_SUFFIX, LogOrigin
from cluster_logs.day_tables import day_tables
from cluster_logs.job_table import JOB_SCHEMA, NODES_SCHEMA, THROUGHPUT_SCHEMA, conform, to_frame
from cluster_logs.lake import Lake
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT, store_site
from cluster_logs.synthetic.arrivals import Submissions, draw_submissions
from cluster_logs.synthetic.cluster_profiles import GPUS_PER_NODE, find_profile
from cluster_logs.synthetic.fifo_queue import start_times
from cluster_logs.synthetic.measured_statistics import measure_statistics
from cluster_logs.synthetic.population import IntArray, Population, build_population
from foundation.errors import BadInputError
from foundation.progress import Progress, silent

# A Wednesday, the first day of Helios' log.
FIRST_DAY = datetime(2020, 4, 1, tzinfo=UTC)
MOST_DAYS = 3_650
BIN_S = 600
_CPUS_PER_GPU = 6


@dataclass(frozen=True)
class SyntheticCluster:
    """What `synthesize` made; `jobs`, `throughput` and `nodes` follow their schemas in `job_table`,
    `series` those of parts' tables, by name.
    """

    like: str
    days: int
    seed: int
    jobs: pd.DataFrame
    throughput: pd.DataFrame
    nodes: pd.DataFrame
    series: Mapping[str, pd.DataFrame]

    def statistics(self) -> dict[str, float]:
        """Return the figures that published studies report, measured on this log."""
        return measure_statistics(self.jobs, self.nodes, self.days)


def synthesize(
    like: str, days: int, seed: int, *, cluster: str | None = None, progress: Progress = silent
) -> SyntheticCluster:
    """Make a log of `days` days of a cluster like `helios-venus`, `helios-saturn` or `philly`.

    The same arguments give the same log; more days give the same log with more days at its end. `cluster`
    names it in the tables (default: `synthetic-` and what it is like).
    """
    profile = find_profile(like)
    if not 1 <= days <= MOST_DAYS:
        raise BadInputError(f"days is {days}.", remedy=f"Choose between 1 and {MOST_DAYS}.")
    if seed < 0:
        raise BadInputError(f"seed is {seed}.", remedy="Choose a whole number from 0 on.")
    name = cluster or f"synthetic-{like}"
    progress(0, 4, "users and families")
    population = build_population(profile, seed)
    progress(1, 4, "submissions")
    submissions = draw_submissions(population, days, seed, FIRST_DAY.weekday())
    progress(2, 4, "queues")
    start_s = _queue_all(population, submissions)
    submissions, start_s = submissions.select(start_s >= 0), start_s[start_s >= 0]
    progress(3, 4, "tables")
    jobs = _job_table(population, submissions, start_s, name, f"{like}-seed{seed}{SYNTHETIC_SUFFIX}")
    nodes = pd.DataFrame(
        {
            "cluster": name,
            "virtual_cluster": list(population.virtual_cluster_names),
            "nodes": list(profile.nodes),
            "gpus_per_node": GPUS_PER_NODE,
        }
    )
    made = SyntheticCluster(
        like=like,
        days=days,
        seed=seed,
        jobs=jobs,
        throughput=_count_throughput(jobs, days, name),
        nodes=to_frame(conform(nodes, NODES_SCHEMA, what="nodes table")),
        series={
            table: kind.synthetic(FIRST_DAY, days, seed, sum(profile.nodes))
            for table, kind in day_tables().items()
            if kind.synthetic is not None
        },
    )
    progress(4, 4, "tables")
    return made


def write_to_lake(made: SyntheticCluster, lake: Lake, cluster: str) -> list[str]:
    """Write all tables under the name `cluster`; return their URIs.

    Writing the same log twice, or a longer one with the same seed, is fine. Raises BadInputError when the
    lake already holds other rows under this name, real ones or those of another seed: two logs would mix.
    """
    source = made.jobs["source_file"].iloc[0] if len(made.jobs) else ""
    tables = ("jobs", "throughput", "nodes", *made.series)
    with lake.writing(cluster, f"synthesis of {source}", tables):
        lake.writes.admit(cluster, LogOrigin.SYNTHETIC, f"jobs of {source}")
        if cluster in lake.clusters("jobs"):
            held = {
                name
                for table in lake.iter_jobs(cluster, columns=["source_file"])
                for name in table.column("source_file").unique().to_pylist()
            }
            if held - {source}:
                raise BadInputError(
                    f"Cluster {cluster!r} in {lake.uri} already holds jobs of {', '.join(sorted(held))}.",
                    remedy="Choose another cluster name, or remove the cluster first: `lucid remove-cluster "
                    f"--cluster {cluster}`.",
                )
        lake.write_jobs(cluster, made.jobs)
        lake.write_throughput(cluster, made.throughput)
        lake.write_nodes(cluster, made.nodes)
        for table, rows in made.series.items():
            lake.write_series(table, cluster, rows)
        store_site(FIRST_IN_FIRST_OUT, lake.uri, cluster)  # `fifo_queue` made the starts
    return [lake.table_uri(table, cluster) for table in tables]


def _queue_all(population: Population, submissions: Submissions) -> IntArray:
    """Return the start of each job in seconds, -1 where it is held back; each virtual cluster is alone."""
    starts = np.full(len(submissions.submit_s), -1, dtype=np.int64)
    owner = population.virtual_cluster[submissions.family]
    for index, nodes in enumerate(population.profile.nodes):
        here = np.flatnonzero(owner == index)
        start_s = start_times(
            submissions.submit_s[here].tolist(),
            submissions.duration_s[here].astype(np.int64).tolist(),
            submissions.gpus[here].tolist(),
            nodes=nodes,
            gpus_per_node=GPUS_PER_NODE,
            patience_s=submissions.patience_s[here].tolist(),
        )
        starts[here] = [-1 if start is None else start for start in start_s]
    return starts


def _job_table(
    population: Population, submissions: Submissions, start_s: IntArray, cluster: str, source: str
) -> pd.DataFrame:
    family = submissions.family
    count = len(family)
    epoch = pd.Timestamp(FIRST_DAY).as_unit("us")
    end_s = start_s + submissions.duration_s.astype(np.int64)

    def instants(seconds: IntArray) -> pd.Series:
        return pd.Series(epoch + pd.to_timedelta(seconds, unit="s").as_unit("us"))

    # Work that is done once has its user's job type: the same models, tried out.
    kinds = population.job_type
    frame = pd.DataFrame(
        {
            "cluster": cluster,
            "job_id": [str(number) for number in range(1, count + 1)],
            "virtual_cluster": np.array(population.virtual_cluster_names, dtype=object)[
                population.virtual_cluster[family]
            ],
            "user": np.array(population.user_names, dtype=object)[population.user[family]],
            "name": submissions.name,
            "gpus": submissions.gpus.astype(np.int32),
            "gpu_share": 1.0,
            "cpus": (submissions.gpus * _CPUS_PER_GPU).astype(np.int32),
            "nodes": (-(-submissions.gpus // GPUS_PER_NODE)).astype(np.int32),
            "state": submissions.state,
            "source_state": submissions.source_state,
            "submit_time": instants(submissions.submit_s),
            "start_time": instants(start_s),
            "end_time": instants(end_s),
            "duration_s": submissions.duration_s,
            "service_s": submissions.duration_s,
            "queuing_delay_s": (start_s - submissions.submit_s).astype(np.float64),
            "job_type": np.array([kind.name for kind in kinds], dtype=object)[family],
            "gpu_util_pct": np.array([kind.gpu_util_pct for kind in kinds]).round(3)[family],
            "gpu_mem_util_pct": np.array([kind.gpu_mem_util_pct for kind in kinds]).round(3)[family],
            "gpu_mem_mib": np.array([kind.gpu_mem_mib for kind in kinds]).round(1)[family],
            "source_file": source,
            "source_row": np.arange(1, count + 1, dtype=np.int64),
        }
    )
    return to_frame(conform(frame, JOB_SCHEMA, what="synthetic job table"))


def _count_throughput(jobs: pd.DataFrame, days: int, cluster: str) -> pd.DataFrame:
    """Count submissions, starts and ends in every bin of the log's days; what comes later is left out."""
    bins = days * 86_400 // BIN_S
    columns: dict[str, object] = {}
    epoch = pd.Timestamp(FIRST_DAY)
    weight = jobs["gpus"].to_numpy().astype(np.float64)
    for verb, column in (("submitted", "submit_time"), ("started", "start_time"), ("ended", "end_time")):
        at = ((jobs[column] - epoch).dt.total_seconds() // BIN_S).to_numpy().astype(np.int64)
        inside = at < bins
        counted = np.bincount(at[inside], minlength=bins).astype(np.int64)
        columns[f"{verb}_jobs"] = counted
        columns[f"{verb}_gpu_jobs"] = counted  # every synthetic job has a GPU
        gpus = np.bincount(at[inside], weights=weight[inside], minlength=bins)
        columns[f"{verb}_gpus"] = gpus.astype(np.int64)
    frame = pd.DataFrame(
        {
            "cluster": cluster,
            "bin_start": pd.date_range(FIRST_DAY, periods=bins, freq=f"{BIN_S}s").as_unit("us"),
            "bin_s": np.int64(BIN_S),
            **columns,
            "origin": "derived",
        }
    )
    return to_frame(conform(frame, THROUGHPUT_SCHEMA, what="synthetic throughput table"))
