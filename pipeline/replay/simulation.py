"""What `lucid simulate` does: a log, a cluster's size and policies' names in; tables and plots out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.nodes_over_time import read_nodes_over_time
from cluster_logs.readers.registry import load_reader
from foundation.errors import BadInputError
from foundation.progress import Progress, Work, silent
from pipeline.replay.cluster_events import EVERYONE as EVERYONE
from pipeline.replay.cluster_events import ClusterEvents, lake_sizes, one_pool
from pipeline.replay.recordings import RunWatch, Watching
from pipeline.validation.replay_inputs import profiles_by_type
from simulator.artifact_rules.pair_speed_rules import PairsInOrder
from simulator.artifact_rules.published_packing import (
    PAIRS_FILE,
    SINGLES_FILE,
    has_labels,
    read_labelled_profiles,
    read_published_pairs,
)
from simulator.artifact_rules.rule_sets import load_rules
from simulator.colocation import BelievedPairs, ColocationModel, MeasuredPairs
from simulator.elastic.elastic_jobs import as_elastic
from simulator.job_columns import strings_or_none
from simulator.naive_forecast import naive_forecast
from simulator.policies.registry import policy_class
from simulator.replay import simulate
from simulator.report import write_results
from simulator.result import SimulationResult
from simulator.rules import DEFAULT, Rules
from simulator.scenario import Scenario
from simulator.speed_up_table import measured_speed_ups, read_speed_ups
from simulator.user_history import user_history_estimates
from simulator.workload import JobProfile, Workload

# Where the job table puts the beginning of a log that counts its own seconds.
SECOND_0 = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SimulationReport:
    """One summary a policy, and remarks on what the log did not say.

    If waits were watched, a summary has the key `mean_waits_s` (by cause), and if they were to be explained
    `why`: rows of `WaitRecorder.table` with `sentences`.
    """

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


def simulate_log(  # noqa: C901, PLR0915
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
    predict: bool = False,
    speed_ups_path: Path | None = None,
    elastic_min_gpus: int | None = None,
    singles_path: Path | None = None,
    pairs_path: Path | None = None,
    seed: int = 0,
    events: ClusterEvents | None = None,
    watching: Watching | None = None,
    progress: Progress = silent,
) -> SimulationReport:
    """Replay a log file under each policy; write `jobs_POLICY.csv`, `summary.json` and plots to `out_dir`.

    The cluster is `nodes_path` (nodes of each virtual cluster, which may change with time), that of a lake
    (`events`), or one pool of `gpus`. `events` says what else happens to it, `watching` what is kept of each
    run. `predict` predicts each job's end at its submission. `speed_ups_path` has the speed-up curves of
    elastic jobs where they are not the measured ones; with `elastic_min_gpus` all jobs are elastic. Policies
    that need estimates get the log's own where it has them, else Tsafrir's user-history estimate. Raises
    BadInputError for an input that cannot be used, UnknownNameError for a format, policy, setting or rule
    set.
    """
    chosen_rules = load_rules(rules)
    classes = [policy_class(policy) for policy in policies]  # an unknown name is an error before long work
    events, watching = events or ClusterEvents(), watching or Watching()
    reader = load_reader(source_format)
    zone = ZoneInfo(time_zone or reader.time_zone)
    speed_ups = read_speed_ups(speed_ups_path) if speed_ups_path is not None else None
    sizes = None
    if nodes_path is not None:
        sizes = read_nodes_over_time(str(nodes_path), gpus_per_node=gpus_per_node, time_zone=zone.key)
    frame, account = read_jobs_file(str(jobs_path), source_format, time_zone=time_zone, progress=progress)
    remarks = []
    if account.rows_quarantined or account.rows_skipped:
        reasons = ", ".join(f"{count:,} {name}" for name, count in sorted(account.reasons.items()))
        remarks.append(f"Rows of the log that are not replayed: {reasons}.")
    jobs = within(frame, start, end, zone).reset_index(drop=True)
    if singles_path is None and jobs["job_type"].notna().any():
        singles_path, pairs_path, said = reference_measurements()
        remarks.append(said)
    profiles, colocation = measured_colocation(singles_path, pairs_path, seed, chosen_rules)
    believed = None
    if any(chosen.get("packing_rule") == "pairs" for chosen in (settings or {}).values()):
        believed = learned_pairs(singles_path, pairs_path, seed)
    workload = Workload.from_jobs(
        jobs,
        profiles=profiles,
        cpu_jobs=events.cpu_cores_per_node > 0,
        withdrawn_jobs=not chosen_rules.fractional,
        speed_ups=speed_ups,
        origin=SECOND_0 if reader.counts_from_zero and start is None else None,
    )
    if elastic_min_gpus is not None:
        models = strings_or_none(jobs, "name")
        workload = as_elastic(
            workload,
            elastic_min_gpus,
            models=[models[row] for row in workload.rows] if workload.rows is not None else models,
            speed_ups=speed_ups if speed_ups is not None else measured_speed_ups(),
        )
    origin = workload.origin if workload.origin is not None else jobs["submit_time"].min()
    if events.lake_cluster is not None:
        sizes = lake_sizes(events.lake_uri, events.lake_cluster, origin.to_pydatetime(), zone)
    if sizes is None:
        sizes = one_pool(gpus or gpus_per_node)
    if set(sizes["virtual_cluster"]) == {EVERYONE}:
        workload = workload.in_one_virtual_cluster(EVERYONE)
    cluster, changes = events.cluster(sizes, workload, origin, zone, seed)
    workload = workload.that_fit(cluster, changes)
    remarks += [
        f"Jobs of the log that are not replayed: {count:,} {rule}."
        for rule, count in sorted(workload.skipped.items())
        if count
    ]
    larger = sum(
        job.gpus != less.gpus
        for job, less in zip(workload.jobs, workload.capped(cluster, changes).jobs, strict=True)
    )
    if larger:
        remarks.append(f"Elastic jobs that ask for more GPUs than there are get all of them: {larger:,}.")
    if not len(workload):
        raise BadInputError(
            f"{jobs_path} has no job that can be replayed. " + " ".join(remarks),
            remedy="Check --nodes against the log's virtual clusters.",
        )
    watching.check_jobs(workload, frame["job_id"])
    if any(found.needs_estimates for found in classes) and any(
        job.estimated_duration_s is None for job in workload.jobs
    ):
        workload = workload.with_estimates(
            user_history_estimates(workload, ends_s=logged_ends_s(workload, jobs))
        )
        remarks.append("The log states no estimates: policies use each user's last run times (Tsafrir).")
    results: dict[str, SimulationResult] = {}
    watches: dict[str, RunWatch] = {}
    forecast = naive_forecast(workload)  # no model was trained here; what policies do with it is theirs
    about = {"log": jobs_path.name, "second_0": origin.isoformat(), "virtual_clusters": len(sizes)}
    for number, policy in enumerate(policies, start=1):
        what = Work(f"{policy} ({number} of {len(policies)})" if len(policies) > 1 else policy, "jobs")

        def reported(done: int, total: int | None, _: str, what: Work = what) -> None:
            progress(done, total, what)

        with RunWatch(policy, watching, watching.window(origin, zone), out_dir) as watch:
            results[policy] = simulate(
                Scenario(
                    workload,
                    cluster,
                    rules=chosen_rules,
                    colocation=colocation,
                    changes=changes,
                    forecast=forecast,
                    believed_pairs=believed,
                ),
                policy,
                settings=(settings or {}).get(policy),
                predict=predict,
                recorder=watch.recorder,
                progress=reported,
            )
            watch.finish(results[policy], about=about, changes=changes)
        progress(len(workload), len(workload), what)
        watches[policy] = watch
        remarks += watch.remarks
    write_results(results, out_dir, figures=False)
    if watching.plot is not False:
        from simulator.figures import draw_figures  # loading matplotlib takes longer than most simulations

        usage = {name: watch.usage for name, watch in watches.items() if watch.usage is not None}
        waits = {name: watch.mean_waits_s for name, watch in watches.items() if watch.mean_waits_s}
        draw_figures(results, out_dir, usage=usage, waits=waits, cluster=cluster, changes=changes)
    return SimulationReport(
        tuple({**result.summary, **watches[name].facts()} for name, result in results.items()),
        tuple(remarks),
    )


def logged_ends_s(workload: Workload, jobs: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return when each job ended in the log, in seconds from the workload's origin.

    A log without start and end times has jobs end when they would without waiting. NaN: it never ran.
    """
    ends = pd.to_datetime(jobs["end_time"], utc=True).to_numpy(dtype="datetime64[us]")[workload.rows]
    origin = (
        np.datetime64(workload.origin.tz_localize(None), "us") if workload.origin else np.datetime64("NaT")
    )
    seconds = (ends - origin) / np.timedelta64(1, "s")
    unwaited = np.array([job.submit_time_s + job.duration_s for job in workload.jobs])
    withdrawn = np.array([job.cancel_time_s is not None for job in workload.jobs], dtype=bool)
    # A job that was withdrawn while it waited never ran: nobody learns a run time from it.
    return np.where(withdrawn, np.nan, np.where(np.isnan(seconds), unwaited, seconds))


def reference_measurements() -> tuple[Path | None, Path | None, str]:
    """Return the measurements of job types in the reference data, if it is there, and what to say of it."""
    folder = os.environ.get("LUCID_REFERENCE_DATA")
    packing = Path(folder) / "data" / "packing" if folder else None
    if packing is None or not (packing / SINGLES_FILE).is_file() or not (packing / PAIRS_FILE).is_file():
        return None, None, "Nobody shares GPUs: give the measured --singles and --pairs."
    return packing / SINGLES_FILE, packing / PAIRS_FILE, f"Pairs were measured: {packing / PAIRS_FILE}."


def learned_pairs(singles_path: Path | None, pairs_path: Path | None, seed: int) -> BelievedPairs | None:
    """Return what a pairwise packing model predicts, trained on these measurements; None: there are none."""
    if singles_path is None or pairs_path is None:
        return None
    from live_scheduler.deciding.sharing_beliefs import believed_pairs
    from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings
    from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

    solo, pairs = read_solo_profiles(str(singles_path)), read_pair_profiles(str(pairs_path))
    return believed_pairs(PackingAnalyzeModel(PackingSettings(kind="pairwise", seed=seed)).fit(solo, pairs))


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
    from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings
    from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

    solo, pairs = read_solo_profiles(str(singles_path)), read_pair_profiles(str(pairs_path))
    model = PackingAnalyzeModel(PackingSettings(seed=seed)).fit(solo, pairs)
    scores = dict(zip(solo["job_type"], map(int, model.predict_table(solo)), strict=True))
    scored = {
        name: replace(profile, sharing_score=scores[name]) for name, profile in profiles_by_type(solo).items()
    }
    return scored, MeasuredPairs(pairs)
