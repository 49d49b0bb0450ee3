"""Our schedule beside a reference simulator's, job by job.

A reference schedule is a CSV of job_id, submit_time, start_time (the first start), end_time, queue (all
pending time) and, of preemptive policies, ckpt_times; seconds from the slice's first submission.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.nodes_file import read_nodes_file
from experiments.artifact_rules.pair_speed_rules import PairsInOrder
from experiments.artifact_rules.published_packing import read_labelled_profiles, read_published_pairs
from foundation.csv_files import as_text
from foundation.errors import BadInputError, NotFoundError
from pipeline.replay.log_scenario import PAIRS_FILE, SINGLES_FILE
from simulator.cluster.spec import DEFAULT_GPUS_PER_NODE, ClusterSpec
from simulator.replay import simulate
from simulator.results.result import SimulationResult
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import ColocationModel
from simulator.workload.job import JobProfile
from simulator.workload.workload import Workload

TOLERANCE_S = 2.0
SCHEDULE_COLUMNS = ("job_id", "submit_time", "start_time", "end_time", "queue")


def replayed(part: Scenario, policy: str, rules: str) -> SimulationResult:
    """Replay a part of a log under a rule set by name."""
    return simulate(replace(part, rules=load_rules(rules)), policy)


@dataclass(frozen=True)
class RunAgreement:
    """Shares of jobs are in [0, 1]; None where only the reference's means are known.

    `differences` has one row for each job whose start or end is not equal to the second: job_id, submit_s,
    start_s, reference_start_s, end_s, reference_end_s, profiled_only (it ended in the profiler), shared.
    """

    jobs: int
    equal_starts: float | None
    starts_within_2s: float | None
    equal_ends: float | None
    ends_within_2s: float | None
    mean_jct_s: float
    reference_mean_jct_s: float
    mean_queuing_s: float
    reference_mean_queuing_s: float
    preemptions: int
    reference_preemptions: int | None
    jobs_per_cpu_s: float
    differences: pd.DataFrame | None = None

    @property
    def jct_error(self) -> float:
        """Our mean JCT's distance from the reference's, as a share of it."""
        return abs(self.mean_jct_s / self.reference_mean_jct_s - 1.0)


def load_slice(jobs: Path, nodes: Path | int, packing: Path | None = None) -> Scenario:
    """Read a slice: `reference-csv` jobs, and a file of nodes or the nodes of its one virtual cluster.

    `packing` is the folder of the published packing measurements, which sharing GPUs needs.
    """
    if not jobs.exists():
        raise NotFoundError(f"{jobs} is not there.", remedy="Point LUCID_REFERENCE_DATA at the data.")
    frame, account = read_jobs_file(str(jobs), "reference-csv")
    if account.rows_quarantined:
        reasons = ", ".join(f"{count} {name}" for name, count in sorted(account.reasons.items()))
        raise BadInputError(f"{jobs} has rows that cannot be read: {reasons}.")
    profiles: Mapping[str, JobProfile] | None = None
    colocation: ColocationModel | None = None
    if packing is not None:
        profiles = read_labelled_profiles(packing / SINGLES_FILE)
        colocation = PairsInOrder(read_published_pairs(packing / PAIRS_FILE))
    workload = Workload.from_jobs(frame, profiles=profiles)
    if isinstance(nodes, int):
        names = sorted({job.virtual_cluster for job in workload.jobs})
        if len(names) != 1:
            raise BadInputError(
                f"{jobs} has {len(names)} virtual clusters.", remedy="Give a file of their nodes."
            )
        cluster = ClusterSpec({names[0]: nodes}, DEFAULT_GPUS_PER_NODE)
    else:
        cluster = ClusterSpec.from_nodes(read_nodes_file(str(nodes)))
    return Scenario(workload, cluster, colocation=colocation)


def read_schedule(path: Path) -> pd.DataFrame:
    """Read a reference schedule, indexed by job_id."""
    if not path.exists():
        raise NotFoundError(f"{path} is not there.", remedy="Give the reference simulator's schedule.")
    schedule = pd.read_csv(path, dtype={"job_id": str})
    missing = [column for column in SCHEDULE_COLUMNS if column not in schedule.columns]
    if missing:
        raise BadInputError(
            f"{path} lacks {', '.join(missing)}.", remedy=f"A schedule has {', '.join(SCHEDULE_COLUMNS)}."
        )
    schedule["job_id"] = schedule["job_id"].map(as_text)  # a file of ours is one too
    return schedule.set_index("job_id")


def compare_schedules(result: SimulationResult, reference: pd.DataFrame) -> RunAgreement:
    """Compare a result with a reference schedule; raises BadInputError unless both have the same jobs."""
    ours = result.jobs
    unknown = set(reference.index) ^ set(ours["job_id"])
    if unknown or reference.index.has_duplicates:
        raise BadInputError(
            f"{len(unknown)} jobs are only in one of both schedules, for instance {sorted(unknown)[:3]}.",
            remedy="Compare the schedule of the very jobs that are replayed.",
        )
    theirs = reference.loc[ours["job_id"]]
    start, end = ours["first_start_time_s"].to_numpy(), ours["end_time_s"].to_numpy()
    their_start, their_end = theirs["start_time"].to_numpy(), theirs["end_time"].to_numpy()
    if (theirs["submit_time"].to_numpy() != ours["submit_time_s"].to_numpy()).any():
        raise BadInputError(
            "The schedules differ in when jobs are submitted.",
            remedy="Both count seconds from the slice's first submission.",
        )
    differences = pd.DataFrame(
        {
            "job_id": ours["job_id"],
            "submit_s": ours["submit_time_s"],
            "start_s": start,
            "reference_start_s": their_start,
            "end_s": end,
            "reference_end_s": their_end,
            "profiled_only": ours["ended_in_profiling"],
            "shared": ours["colocated"],
        }
    )
    return RunAgreement(
        jobs=len(ours),
        equal_starts=float((start == their_start).mean()),
        starts_within_2s=float((abs(start - their_start) <= TOLERANCE_S).mean()),
        equal_ends=float((end == their_end).mean()),
        ends_within_2s=float((abs(end - their_end) <= TOLERANCE_S).mean()),
        mean_jct_s=result.summary["mean_jct_s"],
        reference_mean_jct_s=float((theirs["end_time"] - theirs["submit_time"]).mean()),
        mean_queuing_s=result.summary["mean_queuing_delay_s"],
        reference_mean_queuing_s=float(theirs["queue"].mean()),
        preemptions=result.summary["preemptions"],
        reference_preemptions=(int(theirs["ckpt_times"].sum()) if "ckpt_times" in theirs.columns else None),
        jobs_per_cpu_s=result.summary["jobs_per_cpu_s"],
        differences=differences[(start != their_start) | (end != their_end)].reset_index(drop=True),
    )


def compare_means(result: SimulationResult, mean_jct_s: float, mean_queuing_s: float) -> RunAgreement:
    """Compare a result with published means, where no schedule was kept."""
    summary = result.summary
    return RunAgreement(
        jobs=len(result.jobs),
        equal_starts=None,
        starts_within_2s=None,
        equal_ends=None,
        ends_within_2s=None,
        mean_jct_s=summary["mean_jct_s"],
        reference_mean_jct_s=mean_jct_s,
        mean_queuing_s=summary["mean_queuing_delay_s"],
        reference_mean_queuing_s=mean_queuing_s,
        preemptions=summary["preemptions"],
        reference_preemptions=None,
        jobs_per_cpu_s=summary["jobs_per_cpu_s"],
    )
