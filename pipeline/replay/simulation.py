"""What `lucid simulate` does: a log, a cluster's size and policies' names in; tables and pictures out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from foundation.progress import Progress, Work, silent
from pipeline.replay.log_scenario import LogToReplay, read_scenario
from pipeline.replay.recordings import RunWatch, Watching
from pipeline.replay.report import write_results
from simulator.policies.registry import policy_class
from simulator.prediction import PredictBy
from simulator.replay import run_times_to_predict_by, simulate
from simulator.results.result import SimulationResult


@dataclass(frozen=True)
class SimulationReport:
    """One summary a policy, and remarks on what the log did not say.

    If waits were watched, a summary has the key `mean_waits_s` (by cause), and if they were to be explained
    `why`: rows of `WaitRecorder.table` with `sentences`. Of a companion that is compared each policy is also
    replayed without it, and its summary says what it adds (`Companion.added`).
    """

    summaries: tuple[Mapping[str, Any], ...]
    remarks: tuple[str, ...]


def simulate_log(
    request: LogToReplay,
    policies: Sequence[str],
    out_dir: Path,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    predict: bool = False,
    predict_by: PredictBy | None = None,
    watching: Watching | None = None,
    progress: Progress = silent,
) -> SimulationReport:
    """Replay a log file under each policy; write `jobs_POLICY.csv` and `summary.json` to `out_dir`.

    `settings` are by policy, `watching` says what is kept of each run, `predict` predicts each job's end at
    its submission, by `predict_by` (`simulator.replay.run_times_to_predict_by`). Raises BadInputError for an
    input that cannot be used, UnknownNameError for a format, policy or setting.
    """
    classes = [
        policy_class(policy, request.rules) for policy in policies
    ]  # an unknown name is an error before long work
    by = run_times_to_predict_by(request.rules, predict_by)
    settings, watching = settings or {}, watching or Watching()
    logged = read_scenario(
        request,
        needs_estimates=any(policy.needs_estimates for policy in classes) or (predict and by == "estimates"),
        needs_pairs=any(values.get("packing_rule") == "pairs" for values in settings.values()),
        needs_profiles=any(policy.reads_profiles for policy in classes),
        progress=progress,
    )
    scenario, origin = logged.scenario, logged.origin
    workload, changes = scenario.workload, scenario.changes
    watching.check_jobs(workload, logged.job_ids, logged.scenario.counted_from_s)
    remarks = [*logged.remarks]
    results: dict[str, SimulationResult] = {}
    watches: dict[str, RunWatch] = {}
    about = {
        "log": Path(request.log.path).name,
        "second_0": origin.isoformat(),
        "virtual_clusters": logged.virtual_clusters,
    }
    limited = not np.isnan(workload.columns.time_limit_s).all()
    for number, (policy, class_) in enumerate(zip(policies, classes, strict=True), start=1):
        what = Work(f"{policy} ({number} of {len(policies)})" if len(policies) > 1 else policy, "jobs")

        def reported(done: int, total: int | None, _: str, what: Work = what) -> None:
            progress(done, total, what)

        with RunWatch(policy, watching, watching.window(origin, request.log.zone), out_dir) as watch:
            results[policy] = simulate(
                scenario,
                policy,
                settings=settings.get(policy),
                predict=predict,
                predict_by=by,
                recorder=watch.recorder,
                progress=reported,
            )
            watch.finish(results[policy], about=about, changes=changes)
        known = "limit" if class_.by_limits and limited else logged.estimates
        known_to = known if class_.by_limits or class_.needs_estimates else None
        results[policy] = replace(results[policy], summary={**results[policy].summary, "estimates": known_to})
        for companion in scenario.companions:
            if companion.is_compared:
                without = simulate(
                    scenario.without(companion), policy, settings=settings.get(policy), progress=reported
                )
                added = companion.added(results[policy], without)
                results[policy] = replace(results[policy], summary={**results[policy].summary, **added})
        progress(len(workload), len(workload), what)
        watches[policy] = watch
        remarks += watch.remarks
    write_results(results, out_dir)
    if watching.plot:
        from pipeline.replay.figures import (
            draw_figures,  # loading matplotlib takes longer than most simulations
        )

        usage = {name: watch.usage for name, watch in watches.items() if watch.usage is not None}
        waits = {name: watch.mean_waits_s for name, watch in watches.items() if watch.mean_waits_s}
        draw_figures(
            results,
            out_dir,
            usage=usage,
            waits=waits,
            cluster=scenario.cluster,
            changes=changes,
            from_s=scenario.counted_from_s or 0.0,
        )
    return SimulationReport(
        tuple({**result.summary, **watches[name].facts()} for name, result in results.items()),
        tuple(remarks),
    )
