"""What `lucid simulate` does: a log, a cluster's size and policies' names in; tables and plots out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from cluster_logs.errors import BadInputError
from cluster_logs.ingest import read_jobs_file
from cluster_logs.progress import Progress, silent
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.readers.registry import load_reader
from pipeline.replay_inputs import profiles_by_type
from simulator.cluster import ClusterSpec
from simulator.colocation import ColocationModel, MeasuredPairs
from simulator.engine import run_policies
from simulator.pair_speed_rules import PairsInOrder
from simulator.policies.registry import policy_class
from simulator.published_packing import (
    PAIRS_FILE,
    SINGLES_FILE,
    has_labels,
    read_labelled_profiles,
    read_published_pairs,
)
from simulator.report import write_results
from simulator.rules import DEFAULT, Rules, load_rules
from simulator.user_history import user_history_estimates
from simulator.workload import JobProfile, Workload

EVERYONE = "all"  # the one virtual cluster of `--gpus N`


@dataclass(frozen=True)
class SimulationReport:
    """One summary a policy, and remarks on what the log did not say."""

    summaries: tuple[Mapping[str, Any], ...]
    remarks: tuple[str, ...]


def within(jobs: pd.DataFrame, start: datetime | None, end: datetime | None, zone: ZoneInfo) -> pd.DataFrame:
    """Return the jobs submitted from `start` to `end`, both included; naive bounds are in `zone`."""

    def in_utc(bound: datetime) -> pd.Timestamp:
        return pd.Timestamp(bound if bound.tzinfo else bound.replace(tzinfo=zone)).tz_convert("UTC")

    if start is not None and end is not None and in_utc(end) < in_utc(start):
        raise BadInputError(f"--end {end} lies before --start {start}.", remedy="Swap them.")
    kept = jobs
    if start is not None:
        kept = kept[kept["submit_time"] >= in_utc(start)]
    if end is not None:
        kept = kept[kept["submit_time"] <= in_utc(end)]
    if kept.empty:
        raise BadInputError(
            f"No job was submitted from {start or 'the start'} to {end or 'the end'}: the log covers "
            f"{jobs['submit_time'].min()} to {jobs['submit_time'].max()}.",
            remedy="Choose a window inside it.",
        )
    return kept


def simulate_log(
    *,
    jobs_path: Path,
    source_format: str,
    policies: Sequence[str],
    out_dir: Path,
    nodes_path: Path | None = None,
    gpus: int | None = None,
    gpus_per_node: int = 8,
    start: datetime | None = None,
    end: datetime | None = None,
    time_zone: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    rules: str = "default",
    singles_path: Path | None = None,
    pairs_path: Path | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> SimulationReport:
    """Replay a log file under each policy; write `jobs_POLICY.csv`, `summary.json` and plots to `out_dir`.

    The cluster is `nodes_path` (nodes of each virtual cluster) or one pool of `gpus`. Policies that need
    estimates get the log's own where it has them, else Tsafrir's user-history estimate. Raises BadInputError
    for an input that cannot be used, UnknownNameError for a format, policy, setting or rule set.
    """
    chosen_rules = load_rules(rules)
    classes = [policy_class(policy) for policy in policies]  # an unknown name is an error before long work
    cluster = (
        ClusterSpec.from_nodes(read_nodes_file(str(nodes_path), gpus_per_node=gpus_per_node))
        if nodes_path is not None
        else ClusterSpec.of_gpus(gpus or gpus_per_node, virtual_cluster=EVERYONE)
    )
    frame, account = read_jobs_file(str(jobs_path), source_format, time_zone=time_zone, progress=progress)
    zone = ZoneInfo(time_zone or load_reader(source_format).time_zone)
    remarks = []
    if account.rows_quarantined or account.rows_skipped:
        reasons = ", ".join(f"{count:,} {name}" for name, count in sorted(account.reasons.items()))
        remarks.append(f"Rows of the log that are not replayed: {reasons}.")
    jobs = within(frame, start, end, zone).reset_index(drop=True)
    if chosen_rules.labelled_scores and singles_path is None and "lucid" in policies:
        singles_path, pairs_path, said = reference_measurements()
        remarks.append(said)
    profiles, colocation = measured_colocation(singles_path, pairs_path, seed, chosen_rules)
    workload = Workload.from_jobs(jobs, profiles=profiles)
    if nodes_path is None:
        workload = workload.in_one_virtual_cluster(EVERYONE)
    workload = workload.that_fit(cluster)
    remarks += [
        f"Jobs of the log that are not replayed: {count:,} {rule}."
        for rule, count in sorted(workload.skipped.items())
        if count
    ]
    if not len(workload):
        raise BadInputError(
            f"{jobs_path} has no job that can be replayed. " + " ".join(remarks),
            remedy="Check --nodes against the log's virtual clusters.",
        )
    if any(found.needs_estimates for found in classes) and any(
        job.estimated_duration_s is None for job in workload.jobs
    ):
        workload = workload.with_estimates(
            user_history_estimates(workload, ends_s=logged_ends_s(workload, jobs))
        )
        remarks.append("The log states no estimates: policies use each user's last run times (Tsafrir).")
    results = run_policies(
        workload, cluster, policies, settings=settings, rules=rules, colocation=colocation, progress=progress
    )
    write_results(results, out_dir)
    return SimulationReport(tuple(result.summary for result in results.values()), tuple(remarks))


def logged_ends_s(workload: Workload, jobs: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return when each job ended in the log, in seconds from the workload's origin.

    A log without start and end times has jobs end when they would without waiting.
    """
    ends = pd.to_datetime(jobs["end_time"], utc=True).to_numpy(dtype="datetime64[us]")[workload.rows]
    origin = (
        np.datetime64(workload.origin.tz_localize(None), "us") if workload.origin else np.datetime64("NaT")
    )
    seconds = (ends - origin) / np.timedelta64(1, "s")
    unwaited = np.array([job.submit_time_s + job.duration_s for job in workload.jobs])
    return np.where(np.isnan(seconds), unwaited, seconds)


def reference_measurements() -> tuple[Path | None, Path | None, str]:
    """Return the artifact's own measurements, if the reference data are there, and what to say of it."""
    folder = os.environ.get("LUCID_REFERENCE_DATA")
    packing = Path(folder) / "data" / "packing" if folder else None
    if packing is None or not (packing / SINGLES_FILE).is_file() or not (packing / PAIRS_FILE).is_file():
        return None, None, "Nobody shares GPUs: give the measured --singles and --pairs."
    return packing / SINGLES_FILE, packing / PAIRS_FILE, f"Pairs were measured: {packing / PAIRS_FILE}."


def measured_colocation(
    singles_path: Path | None, pairs_path: Path | None, seed: int, rules: Rules = DEFAULT
) -> tuple[dict[str, JobProfile] | None, ColocationModel | None]:
    """Return profiles by job type, scored by the packing model, and the measured pairs' speeds.

    Rules with labelled scores take the published tables as they are, their labels being the scores.
    """
    if singles_path is None or pairs_path is None:
        return None, None
    if rules.labelled_scores and has_labels(singles_path):
        return read_labelled_profiles(singles_path), PairsInOrder(read_published_pairs(pairs_path))
    from lucid_models.packing import PackingAnalyzeModel, PackingSettings
    from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

    solo, pairs = read_solo_profiles(str(singles_path)), read_pair_profiles(str(pairs_path))
    model = PackingAnalyzeModel(PackingSettings(seed=seed)).fit(solo, pairs)
    scores = dict(zip(solo["job_type"], map(int, model.predict_table(solo)), strict=True))
    scored = {
        name: replace(profile, sharing_score=scores[name]) for name, profile in profiles_by_type(solo).items()
    }
    return scored, MeasuredPairs(pairs)
