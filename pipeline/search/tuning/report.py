"""Writes a study's tables and pictures beside it, and into MLflow."""

from collections.abc import Mapping
from typing import Any

from foundation.csv_files import csv_text
from foundation.leftovers import scratch_folder
from foundation.storage import write_bytes
from lucid_models.registry import Registry
from pipeline.search.experiment_store.documents import store_files, write_json
from pipeline.search.experiment_store.tracking import log_stored
from pipeline.search.tuning.proposal import CURRENT, PROPOSAL_FILE, TUNED, Proposal
from pipeline.search.tuning.rounds import Trial, best_trial, trials_of
from pipeline.search.tuning.search import importances
from pipeline.search.tuning.space import shown
from pipeline.search.tuning.study import TuningStudy
from pipeline.search.tuning.tables import sensitivity_table, study_markdown, trials_table

EXPERIMENT = "lucid-tuning"
TRIALS_FILE, SENSITIVITY_FILE, REPORT_FILE = "trials.csv", "sensitivity.csv", "tuning.md"
IMPORTANCES_FILE = "importances.json"
PICTURES = ("tuning_trials.png", "tuning_sensitivity.png", "tuning_importances.png")
FILES = (TRIALS_FILE, SENSITIVITY_FILE, REPORT_FILE, IMPORTANCES_FILE, *PICTURES)


def write_report(study: TuningStudy, proposal: Proposal) -> tuple[str, ...]:
    """Write trials.csv, sensitivity.csv, importances.json, tuning.md and the pictures; return their URIs."""
    # Loading matplotlib takes longer than many a replay.
    from foundation.png_figures import save_figure
    from pipeline.search.tuning import figures

    trials = trials_of(study)
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
