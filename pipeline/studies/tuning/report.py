"""Writes a study's tables and pictures beside it, and into MLflow."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from foundation.csv_files import csv_text
from foundation.markdown import NO_VALUE, markdown_frame, number
from foundation.process_lock import scratch_folder
from foundation.storage import write_bytes
from lucid_models.registry import Registry
from pipeline.studies.store import log_stored, store_files, write_json
from pipeline.studies.tuning.proposal import CURRENT, PROPOSAL_FILE, TUNED, Proposal
from pipeline.studies.tuning.space import SearchSpace, importances, shown, symbol_of
from pipeline.studies.tuning.study import Trial, TuningStudy, best_trial
from pipeline.studies.tuning.tuned_part import tuned_parts

FIGURES = (
    "mean_jct_s",
    "mean_queuing_delay_s",
    "p999_queuing_delay_s",
    "profiling_runs",
    "profiling_queue_s",
    "ended_in_profiling_pct",
    "colocated_pct",
)
_SHOWN: Mapping[str, tuple[str, int]] = {  # what people call a figure, and how many digits count
    "jobs": ("jobs", 0),
    "mean_jct_s": ("mean JCT, s", 0),
    "mean_queuing_delay_s": ("mean queuing delay, s", 0),
    "p999_queuing_delay_s": ("P99.9 queuing delay, s", 0),
    "profiling_runs": ("profiling runs", 0),
    "profiling_queue_s": ("queue before profiling, s", 1),
    "ended_in_profiling_pct": ("jobs that end in profiling, %", 1),
    "colocated_pct": ("jobs that shared GPUs, %", 1),
}
SAME_FILTERING = 0.95
WORTH_CUTTING_S = 1.0


def trials_table(study: TuningStudy, trials: Sequence[Trial]) -> pd.DataFrame:
    """One row a trial: its values, its score, the means of its figures over the search blocks."""
    return pd.DataFrame(
        [
            {
                "trial": trial.number,
                "round": trial.round_number,
                **trial.values,
                "change_pct": trial.change_pct,
                **{name: trial.mean_figure(name) for name in _figures_of(study.space)},
                "error": None if trial.record is None else trial.record["error"],
            }
            for trial in trials
        ]
    )


def _figures_of(space: SearchSpace) -> tuple[str, ...]:
    return (*FIGURES, *(name for part in space.parts for name in part.figures))


def _shown() -> dict[str, tuple[str, int]]:
    """What people call every figure, and how many digits count."""
    return {**_SHOWN, **{name: figure for part in tuned_parts() for name, figure in part.figures.items()}}


def sensitivity_table(space: SearchSpace, trials: Sequence[Trial]) -> pd.DataFrame:
    """One row for each value of each parameter, all others at their current values."""
    by_values = {tuple(trial.values[p.name] for p in space.parameters): trial for trial in trials}
    rows: list[dict[str, Any]] = []
    for parameter in space.free:
        for value in parameter.values:
            values = {**space.current, parameter.name: value}
            trial = by_values.get(tuple(values[p.name] for p in space.parameters))
            if trial is not None:
                rows.append(
                    {
                        "parameter": parameter.name,
                        "value": value,
                        "current": value == parameter.current,
                        "change_pct": trial.change_pct,
                        **{name: trial.mean_figure(name) for name in _figures_of(space)},
                    }
                )
    return pd.DataFrame(rows)


def sensitivity_markdown(space: SearchSpace, table: pd.DataFrame) -> str:
    """The rows of all parameters as a Markdown table; current values are marked."""
    rows = [
        {
            "setting": parameter.symbol,
            "value": shown(parameter.name, row["value"]) + (" *" if row["current"] else ""),
            "objective": _signed(row["change_pct"]),
            "mean JCT, s": number(row["mean_jct_s"], 0),
            "mean queue, s": number(row["mean_queuing_delay_s"], 0),
            "P99.9 queue, s": number(row["p999_queuing_delay_s"], 0),
            "profiling runs": number(row["profiling_runs"], 0),
            "queue before profiling, s": number(row["profiling_queue_s"], 1),
            "end in profiling, %": number(row["ended_in_profiling_pct"], 1),
            "shared GPUs, %": number(row["colocated_pct"], 1),
            **{
                figure.title: number(row[name], figure.digits)
                for part in space.parts
                for name, figure in part.figures.items()
            },
        }
        for parameter in space.free
        for row in table[table["parameter"] == parameter.name].to_dict(orient="records")
    ]
    return markdown_frame(pd.DataFrame(rows))


def profiling_markdown(trials: Sequence[Trial]) -> str:
    """The paper's guided tuning (section 4.8): the profiler with the shortest queue that costs nothing.

    Of the trials with an objective no worse than the current one, in which as many jobs end in profiling
    (95 % of them at least), the one with the shortest queue before profiling; on the search blocks.
    """
    current = trials[0] if trials else None
    if current is None or not current.mean_figure("profiling_runs"):
        return ""
    if (current.mean_figure("profiling_queue_s") or 0.0) < WORTH_CUTTING_S:
        return "Jobs hardly queue before profiling: there is nothing to cut."
    fewest_pct = SAME_FILTERING * (current.mean_figure("ended_in_profiling_pct") or 0.0)
    able = [
        trial
        for trial in trials
        if trial.change_pct is not None
        and trial.change_pct <= 0
        and trial.mean_figure("profiling_runs")
        and (trial.mean_figure("ended_in_profiling_pct") or 0.0) >= fewest_pct
    ]
    best = min(able, key=lambda trial: (trial.mean_figure("profiling_queue_s"), trial.number))
    figures = ("profiling_queue_s", "profiling_runs", "ended_in_profiling_pct", "mean_jct_s")
    table = _before_after_table(figures, current.mean_figure, best.mean_figure, "search blocks", "tuned")
    changes = [
        f"{symbol_of(name)} {shown(name, value)}"
        for name, value in best.values.items()
        if value != current.values[name]
    ]
    changes_text = ", ".join(changes) or "the current settings"
    return f"The shortest queue before profiling at no cost: {changes_text}.\n\n{table}"


def validation_markdown(proposal: Proposal) -> str:
    """Before and after, on the validation window; empty when nothing was validated."""
    if proposal.validation is None:
        return ""
    before, after = (proposal.validation["figures"][name] for name in (CURRENT, TUNED))
    shown_figures = tuple(name for name in _shown() if name in before)
    return _before_after_table(shown_figures, before.get, after.get, "validation window", "best trial")


def _before_after_table(
    names: Sequence[str],
    before: Callable[[str], float | None],
    after: Callable[[str], float | None],
    where: str,
    what: str,
) -> str:
    """Figures by name, before and after: one row a figure, with their ratio."""
    rows, shown_by_name = [], _shown()
    for name in names:
        old, new = before(name), after(name)
        title, digits = shown_by_name[name]
        ratio = number(old / new) + "×" if old and new and old != new else NO_VALUE
        rows.append({where: title, "current": number(old, digits), what: number(new, digits), "ratio": ratio})
    return markdown_frame(pd.DataFrame(rows))


def study_markdown(
    study: TuningStudy, trials: Sequence[Trial], proposal: Proposal, weights: dict[str, float]
) -> str:
    """The whole report of a study."""
    table = sensitivity_table(study.space, trials)
    blocks = ", ".join(
        f"{w.start:%Y-%m-%d %H:%M} to {w.end:%m-%d %H:%M}" for w in study.windows.search.values()
    )
    validated = study.windows.validation
    jobs = sum(int(block["jobs"]) for block in (trials[0].record or {"blocks": {}})["blocks"].values())
    what = (
        f"{proposal.trials} settings were replayed on {jobs:,} jobs: blocks {blocks} (UTC); validated from "
        f"{validated.start:%Y-%m-%d %H:%M} to {validated.end:%m-%d %H:%M}. Objective: "
        f"{study.objective}, as the mean over blocks of its change against the current settings. Study "
        f"{study.sha256[:12]}, seed {study.seed}."
    )
    parts = [
        proposal.sentence,
        what,
        validation_markdown(proposal),
        sensitivity_markdown(study.space, table),
        profiling_markdown(trials),
        _weights_markdown(study.space, weights),
        *study.remarks,
    ]
    return "\n\n".join(part for part in parts if part)


def _weights_markdown(space: SearchSpace, weights: dict[str, float]) -> str:
    rows = [
        {
            "setting": parameter.symbol,
            "share of the trials' variance": f"{100 * weights[parameter.name]:.1f} %",
        }
        for parameter in sorted(space.free, key=lambda p: -weights.get(p.name, 0.0))
        if parameter.name in weights
    ]
    return markdown_frame(pd.DataFrame(rows))


def _signed(value: float | None) -> str:
    return NO_VALUE if value is None or value != value else f"{value:+.2f} %"


EXPERIMENT = "lucid-tuning"
TRIALS_FILE, SENSITIVITY_FILE, REPORT_FILE = "trials.csv", "sensitivity.csv", "tuning.md"
IMPORTANCES_FILE = "importances.json"
PICTURES = ("tuning_trials.png", "tuning_sensitivity.png", "tuning_importances.png")
FILES = (TRIALS_FILE, SENSITIVITY_FILE, REPORT_FILE, IMPORTANCES_FILE, *PICTURES)


def write_report(study: TuningStudy, proposal: Proposal) -> tuple[str, ...]:
    """Write trials.csv, sensitivity.csv, importances.json, tuning.md and the pictures; return their URIs."""
    # Loading matplotlib takes longer than many a replay.
    from foundation.png_figures import save_figure
    from pipeline.studies.tuning import figures

    trials = study.trials()
    weights = weights_of(study, trials)
    table = sensitivity_table(study.space, trials)
    texts = {
        TRIALS_FILE: csv_text(trials_table(study, trials)),
        SENSITIVITY_FILE: csv_text(table),
        REPORT_FILE: f"# Tuning {study.cluster}\n\n{study_markdown(study, trials, proposal, weights)}\n",
    }
    for name, text in texts.items():
        write_bytes(f"{study.uri}/{name}", text.encode())
    write_json(f"{study.uri}/{IMPORTANCES_FILE}", weights)
    drawn = (
        figures.course(trials, best_trial(trials)),
        figures.sensitivity(study.space, table),
        figures.importance(weights),
    )
    with scratch_folder("tuning") as scratch:
        pictures = zip(PICTURES, drawn, strict=True)
        store_files(study.uri, [save_figure(figure, scratch / name) for name, figure in pictures])
    return tuple(f"{study.uri}/{name}" for name in FILES)


def weights_of(study: TuningStudy, trials: list[Trial]) -> dict[str, float]:
    """Which settings explain the trials' scores."""
    return importances(study.space, [(trial.values, trial.score) for trial in trials])


def record_study(study: TuningStudy, proposal: Proposal, *, tracking_uri: str) -> str:
    """Log a study as a run of MLflow, with its files; return the run's page in MLflow's UI."""
    tags = {"cluster": study.cluster, "tuning_study": study.sha256, "study_uri": study.uri}
    name = f"{study.cluster} tuning until {study.windows.until:%Y-%m-%d}"
    with Registry(tracking_uri).run(EXPERIMENT, name, tags) as run:
        run.log_params(
            {
                "objective": study.objective,
                "trials": proposal.trials,
                "seed": study.seed,
                "proposed": proposal.proposed,
                "until": study.windows.until.isoformat(),
                **{f"tuned_{name}": shown(name, value) for name, value in proposal.values.items()},
            }
        )
        run.log_metrics(_metrics(proposal))
        run.set_tag("mlflow.note.content", proposal.sentence)
        names = (study.plan_file, PROPOSAL_FILE, *FILES)
        log_stored(run, [f"{study.uri}/{name}" for name in names])
        return run.ui_path()


def _metrics(proposal: Proposal) -> dict[str, float]:
    metrics: dict[str, float] = {"search_change_pct": float(proposal.search["change_pct"])}
    validation: Mapping[str, Any] = proposal.validation or {}
    for name in ("change_pct", "change_low_pct", "change_high_pct"):
        value = validation.get("objective", {}).get(name)
        if value is not None:
            metrics[f"validation_{name}"] = float(value)
    for which in (CURRENT, TUNED):
        for name, value in validation.get("figures", {}).get(which, {}).items():
            metrics[f"validation_{which}_{name}"] = float(value)
    return metrics
