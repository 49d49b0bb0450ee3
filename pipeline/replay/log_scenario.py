"""Makes a scenario of a log file: its jobs, the cluster that replays them, and what is measured of both."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from cluster_logs.readers.base import load_reader
from foundation.errors import BadInputError
from foundation.outside_names import admitted
from foundation.progress import Progress, silent
from pipeline.replay.cluster_events import EVERYONE, ClusterEvents, ClusterSize, lake_sizes
from pipeline.replay.job_types import profiles_by_type
from pipeline.replay.log_companion import LogCompanion
from pipeline.replay.log_file import LogFile
from pipeline.replay.run_time_estimates import EstimateSource
from pipeline.replay.warm_up import WarmJobs
from simulator.scenario.companion import Companion
from simulator.scenario.rules import DEFAULT, Rules
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import BelievedPairs, ColocationModel, MeasuredPairs
from simulator.workload.forecast import naive_forecast
from simulator.workload.job import JobProfile
from simulator.workload.job_columns import strings_or_none
from simulator.workload.speed_up_table import read_speed_ups, speed_ups_for
from simulator.workload.workload import Workload, as_elastic

# The measurements of job types in the reference data, alone and in pairs.
SINGLES_FILE = "single_jobs_rtx3090.csv"
PAIRS_FILE = "colocated_pairs_rtx3090.csv"
# Where the job table puts the beginning of a log that counts its own seconds.
SECOND_0 = datetime(1970, 1, 1, tzinfo=UTC)
Withdrawn = Literal["leave", "run"]


@dataclass(frozen=True)
class LogToReplay:
    """A log, the cluster that replays it, and where the rest of what is known of its jobs lies.

    `speed_ups_path` has the speed-up curves of elastic jobs where they are not the measured ones; with
    `elastic_min_gpus` all jobs are elastic. `singles_path` and `pairs_path` are measurements of job types,
    alone and in pairs. `estimates` says where policies have run times from. `seed` draws failures and trains
    models. `companions` act beside the policies. `withdrawn` says what becomes of jobs that left the log's
    queue without a run: they leave here, too, or run for as long as they are estimated to.
    """

    log: LogFile
    size: ClusterSize = field(default_factory=ClusterSize)
    events: ClusterEvents = field(default_factory=ClusterEvents)
    rules: Rules = DEFAULT
    singles_path: Path | None = None
    pairs_path: Path | None = None
    speed_ups_path: Path | None = None
    elastic_min_gpus: int | None = None
    estimates: EstimateSource = field(default_factory=EstimateSource)
    seed: int = 0
    companions: tuple[Companion | LogCompanion, ...] = ()
    withdrawn: Withdrawn = "leave"


@dataclass(frozen=True)
class LogScenario:
    """What is replayed of a log; `origin` is the instant of second 0, `estimates` where they are from."""

    scenario: Scenario
    origin: pd.Timestamp
    job_ids: "pd.Series[Any]"  # of all jobs of the log
    virtual_clusters: int
    estimates: str | None
    remarks: tuple[str, ...]


def read_scenario(
    request: LogToReplay,
    *,
    needs_estimates: bool,
    needs_pairs: bool = False,
    needs_profiles: bool = True,
    sizes: pd.DataFrame | None = None,
    progress: Progress = silent,
) -> LogScenario:
    """Read the log and what goes with it. Raises BadInputError for an input that cannot be used.

    `sizes` (as `ClusterSize.read` has them) stand for those of the request.

    With `needs_estimates` jobs have the estimates of the source that is asked for; with `needs_pairs` a
    pairwise model predicts how fast pairs run. Without `needs_profiles` no policy reads profiles: neither
    the log's own nor the reference data's measurements are looked at.
    """
    log, rules, zone = request.log, request.rules, request.log.zone
    speed_ups = read_speed_ups(request.speed_ups_path) if request.speed_ups_path is not None else None
    sizes = request.size.read(zone) if sizes is None else sizes
    learns = request.estimates.learns_from_jobs or any(
        isinstance(each, LogCompanion) for each in request.companions
    )
    frame, remarks = log.read(progress, to_replay=not learns)
    warm = log.part(frame)
    jobs = warm.jobs
    remarks += [] if warm.remark is None else [warm.remark]
    singles_path, pairs_path = request.singles_path, request.pairs_path
    if needs_profiles and singles_path is None and jobs["job_type"].notna().any():
        singles_path, pairs_path, remark = reference_measurements()
        remarks.append(remark)
    profiles, colocation = measured_colocation(singles_path, pairs_path, request.seed, rules)
    counts_from_zero = load_reader(log.source_format).counts_from_zero
    workload = Workload.from_jobs(
        jobs,
        profiles=profiles if needs_profiles or profiles is not None else {},
        cpu_jobs=request.events.cpu_cores_per_node > 0,
        withdrawn_jobs=not rules.fractional,
        speed_ups=speed_ups,
        origin=SECOND_0 if counts_from_zero and log.start is None else None,
    )
    if request.elastic_min_gpus is not None:
        models = strings_or_none(jobs, "name")
        largest = int(workload.columns.gpus.max(initial=1))
        workload = as_elastic(
            workload,
            request.elastic_min_gpus,
            models=[models[row] for row in workload.rows] if workload.rows is not None else models,
            speed_ups=speed_ups if speed_ups is not None else speed_ups_for(largest),
        )
    origin = workload.origin if workload.origin is not None else jobs["submit_time"].min()
    companions, workload, has_estimates, of_companions = _beside(request, workload, jobs, origin)
    remarks += of_companions
    events = request.events
    if events.site is not None:
        sizes = lake_sizes(events.site, origin.to_pydatetime(), zone)
    if set(sizes["virtual_cluster"]) == {EVERYONE}:
        workload = workload.in_one_virtual_cluster(EVERYONE)
    cluster, changes = events.cluster(sizes, workload, origin, zone, request.seed)
    workload = workload.that_fit(cluster, changes)
    remarks += [
        f"Jobs of the log that are not replayed: {count:,} {rule}."
        for rule, count in sorted(workload.skipped.items())
        if count
    ]
    larger = int((workload.columns.gpus != workload.capped(cluster, changes).columns.gpus).sum())
    if larger:
        remarks.append(f"Elastic jobs that ask for more GPUs than there are get all of them: {larger:,}.")
    counted_from_s = None
    if warm.counted_from is not None:
        counted_from_s = (pd.Timestamp(warm.counted_from) - origin).total_seconds()
    if not (workload.columns.submit_time_s >= (counted_from_s or 0.0)).any():
        raise BadInputError(
            f"{log.path} has no job that can be replayed. " + " ".join(remarks),
            remedy="Check --nodes against the log's virtual clusters.",
        )
    estimates = None
    if not has_estimates:
        workload, estimates, beliefs = _with_beliefs(request, workload, warm, needs_estimates, progress)
        remarks += beliefs
    scenario = Scenario(
        workload,
        cluster,
        rules=rules,
        colocation=colocation,
        changes=changes,
        forecast=naive_forecast(workload),  # no model was trained here; what policies do with it is theirs
        believed_pairs=learned_pairs(singles_path, pairs_path, request.seed) if needs_pairs else None,
        companions=companions,
        counted_from_s=counted_from_s,
    )
    return LogScenario(scenario, origin, frame["job_id"], len(sizes), estimates, tuple(remarks))


def _beside(
    request: LogToReplay, workload: Workload, jobs: pd.DataFrame, origin: pd.Timestamp
) -> tuple[tuple[Companion, ...], Workload, bool, list[str]]:
    """Return the companions, the jobs beside them, whether these have their estimates, and remarks."""
    companions: list[Companion] = []
    has_estimates, remarks = False, list[str]()
    for each in request.companions:
        if isinstance(each, Companion):
            companions.append(each)
            continue
        companion, workload, estimated, said = each.beside(workload, jobs, origin)
        companions.append(companion)
        has_estimates |= estimated
        remarks += said
    return tuple(companions), workload, has_estimates, remarks


def _with_beliefs(
    request: LogToReplay,
    workload: Workload,
    warm: WarmJobs,
    needs_estimates: bool,
    progress: Progress,
) -> tuple[Workload, str | None, list[str]]:
    """Give jobs their estimates, where they are needed, and limits; say where the former are from."""
    runs_withdrawn = request.withdrawn == "run"
    estimates = None
    if needs_estimates or runs_withdrawn:
        estimates = request.estimates.used_for(workload)
        workload, told = request.estimates.estimated(
            workload, warm.jobs, warm.earlier.sort_values("submit_time"), progress, known_until=warm.since
        )
    else:
        workload, told = request.estimates.limited(workload)
    remarks = list(told)
    gone = int(workload.columns.withdrawn.sum())
    if gone:
        how = "run as they are estimated" if runs_withdrawn else "leave when they did, and hold no GPU"
        remarks.append(f"Jobs that left the log's queue without a run: {gone:,}; they {how}.")
    if runs_withdrawn:
        workload = workload.running_what_was_withdrawn()
    return workload, estimates, remarks


def reference_measurements() -> tuple[Path | None, Path | None, str]:
    """Return the measurements of job types in the reference data, if it is there, and what to say of it."""
    folder = os.environ.get("LUCID_REFERENCE_DATA")
    packing = Path(folder) / "data" / "packing" if folder else None
    if packing is None or not (packing / SINGLES_FILE).is_file() or not (packing / PAIRS_FILE).is_file():
        return None, None, "No job shares GPUs: give the measured --singles and --pairs."
    return packing / SINGLES_FILE, packing / PAIRS_FILE, f"Pairs were measured: {packing / PAIRS_FILE}."


def learned_pairs(singles_path: Path | None, pairs_path: Path | None, seed: int) -> BelievedPairs | None:
    """Return what a pairwise packing model predicts, trained on these measurements; None: there are none."""
    if singles_path is None or pairs_path is None:
        return None
    from live_scheduler.deciding.live_policies import believed_pairs
    from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings
    from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

    solo, pairs = read_solo_profiles(str(singles_path)), read_pair_profiles(str(pairs_path))
    return believed_pairs(PackingAnalyzeModel(PackingSettings(kind="pairwise", seed=seed)).fit(solo, pairs))


def read_measurements(singles_uri: str, pairs_uri: str, rules: Rules) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the measurements of job types, alone and in pairs.

    Rules with labelled scores take the published tables as they are; the labels are then the column
    sharing_score of the former.
    """
    from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

    labelled = rules.labelled_tables(Path(admitted(singles_uri)), Path(admitted(pairs_uri)))
    return labelled or (read_solo_profiles(singles_uri), read_pair_profiles(pairs_uri))


def colocation_of(solo: pd.DataFrame, pairs: pd.DataFrame, rules: Rules) -> ColocationModel:
    """Return how fast the measured pairs run; of labelled measurements by the rules for these."""
    return rules.labelled_pairs(pairs) if "sharing_score" in solo.columns else MeasuredPairs(pairs)


def measured_colocation(
    singles_path: Path | None, pairs_path: Path | None, seed: int, rules: Rules = DEFAULT
) -> tuple[dict[str, JobProfile] | None, ColocationModel | None]:
    """Return scored profiles by job type, labelled or by the packing model, and the speeds of pairs."""
    if singles_path is None or pairs_path is None:
        return None, None
    solo, pairs = read_measurements(str(singles_path), str(pairs_path), rules)
    scores: Iterable[Any]
    if "sharing_score" in solo.columns:
        scores = solo["sharing_score"]
    else:
        from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings

        scores = PackingAnalyzeModel(PackingSettings(seed=seed)).fit(solo, pairs).predict_table(solo)
    by_type = dict(zip(solo["job_type"], map(int, scores), strict=True))
    profiles = {
        name: replace(profile, sharing_score=by_type[name])
        for name, profile in profiles_by_type(solo).items()
    }
    return profiles, colocation_of(solo, pairs, rules)
