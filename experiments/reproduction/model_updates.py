"""How often the duration model should be updated (Lucid, sections 3.6.2 and 4.5).

`update_intervals` says what an interval is. All intervals use the same, cheaper training than the end-to-end
evaluation does. `lucid replay-updates` asks the same of a whole log.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.reproduction.beliefs import why_no_model
from experiments.reproduction.runs import Outcome, ReproductionRun
from experiments.reproduction.sections import HOUR_S, Section, not_measured
from experiments.reproduction.study import LUCID, Study, figure_of
from experiments.updates.update_intervals import DAY_S, INTERVALS, History, assemble, learn, lessons
from foundation.markdown import number
from foundation.progress import Progress, silent
from foundation.worker_processes import over_processes
from lucid_models.duration.model import epoch_seconds
from lucid_models.evaluation.measures import duration_metrics

TITLE = "Model update intervals (section 4.5)"
TRAINING_DAYS = 7
MOST_JOBS_TAUGHT = 500_000  # in all fits of an interval together: minutes, not hours
LIVE = "live"  # fitted once, while its statistics learn of every job that ends


def estimates_name(interval: str) -> str:
    """Name the estimates of an interval among the study's materials."""
    return f"updated {interval}"


def intervals_of(study: Study) -> list[str]:
    """Name the intervals that can be compared on this trace: those that `left_out` does not name."""
    return [name for name in INTERVALS if name not in left_out(study)]


def left_out(study: Study) -> dict[str, str]:
    """Say of each interval that is not compared on this trace why not."""
    span_s = _span_s(study)
    trained_on = len(study.trace.jobs) * min(1.0, TRAINING_DAYS * DAY_S / max(span_s, 1.0))
    reasons = {}
    for name, every_s in INTERVALS.items():
        if name != "never" and every_s >= span_s:
            reasons[name] = f"the window of {span_s / DAY_S:.0f} days holds no second update"
        elif trained_on * span_s / every_s > MOST_JOBS_TAUGHT:
            reasons[name] = f"its fits would learn from over {MOST_JOBS_TAUGHT:,} jobs"
    return reasons


def why_not(study: Study) -> str:
    """Say why intervals cannot be compared on this trace; "" where they can."""
    if LUCID not in study.policies:
        return "lucid is not among the policies"
    return why_no_model(study.trace)


def add_updates(study: Study, *, progress: Progress = silent) -> Study:
    """Return the study with the estimates of every interval among its materials, where they can be made."""
    if why_not(study):
        return study
    submit_s = epoch_seconds(study.trace.jobs, "submit_time")
    start_s, end_s = float(submit_s.min()), float(submit_s.max())
    todo = lessons(start_s, end_s, intervals_of(study))
    jobs = pd.concat([study.trace.earlier, study.trace.jobs], ignore_index=True)
    history = History(jobs, epoch_seconds(jobs, "submit_time"), TRAINING_DAYS)
    done = over_processes(
        learn, history, todo, workers=study.workers, what="model updates", progress=progress
    )
    estimates = dict(study.materials.estimates)
    for name in intervals_of(study):
        frozen = assemble(done, submit_s, name, lambda learned: learned.frozen.p50)
        if frozen is not None:
            estimates[estimates_name(name)] = frozen
    live = done[todo[0]].live
    if live is not None:
        estimates[estimates_name(LIVE)] = live.p50
    return replace(study, materials=replace(study.materials, estimates=estimates))


def update_runs(study: Study) -> list[ReproductionRun]:
    """Lucid with the estimates of each interval."""
    return [] if why_not(study) else [_run(study, name) for name in [*intervals_of(study), LIVE]]


def update_sections(study: Study, outcomes: Mapping[ReproductionRun, Outcome]) -> list[Section]:
    """Set the intervals side by side."""
    reason = why_not(study)
    if reason:
        return [not_measured("update_intervals", TITLE, reason)]
    truth = study.trace.jobs["duration_s"].to_numpy(np.float64)
    gpus = study.trace.jobs["gpus"].to_numpy(np.float64)
    base_s = figure_of(outcomes[_run(study, "never")], "mean_queuing_delay_s")
    rows: list[dict[str, Any]] = []
    for name in [*intervals_of(study), LIVE]:
        outcome = outcomes[_run(study, name)]
        wait_s = figure_of(outcome, "mean_queuing_delay_s")
        ran = truth > 0
        quality = duration_metrics(
            truth[ran], study.materials.estimates[estimates_name(name)][ran], gpus[ran]
        )
        rows.append(
            {
                "interval": name,
                "mean_queuing_delay_s": wait_s,
                "mean_jct_s": figure_of(outcome, "mean_jct_s"),
                "queue_change_pct": None if not base_s or wait_s is None else 100 * (wait_s / base_s - 1),
                **quality,
            }
        )
    shown = pd.DataFrame(
        [
            {
                "model updated": row["interval"],
                "mean queue, h": number(_in_hours(row["mean_queuing_delay_s"]), 3),
                "against never, %": number(row["queue_change_pct"], 1),
                "mean JCT, h": number(_in_hours(row["mean_jct_s"]), 3),
                "Kendall's tau of GPU time": number(row["kendall_tau"], 3),
                "error of log10 run time": number(row["mae_log10"], 3),
            }
            for row in rows
        ]
    )
    notes = [
        (
            f"Each fit learns from the {TRAINING_DAYS} days before it and is then frozen, statistics "
            "included. "
            f'"{LIVE}" is what our scheduler does: fitted once, while its statistics learn of every job that '
            "ends."
        ),
        "The paper, on Venus: weekly updates cut queuing by 4.8 %, daily ones by a further 1.6 %.",
    ]
    notes += [f"Left out: {name}, because {reason}." for name, reason in left_out(study).items()]
    return [Section("update_intervals", TITLE, pd.DataFrame(rows), shown, tuple(notes))]


def _run(study: Study, interval: str) -> ReproductionRun:
    return study.run(LUCID, estimates=estimates_name(interval))


def _span_s(study: Study) -> float:
    submit = study.trace.jobs["submit_time"]
    return float((submit.max() - submit.min()).total_seconds())


def _in_hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / HOUR_S
