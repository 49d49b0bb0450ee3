"""Writes a study's tables and pictures beside it, and into MLflow."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from foundation.csv_files import csv_text
from foundation.leftovers import scratch_folder
from foundation.storage import locate, read_bytes, write_atomically
from lucid_models.registry import Registry
from pipeline.search.experiment_store.documents import write_json
from pipeline.search.tuning.proposal import CURRENT, PROPOSAL_FILE, TUNED, Proposal
from pipeline.search.tuning.rounds import Trial, best_trial, trials_of
from pipeline.search.tuning.search import importances
from pipeline.search.tuning.space import shown
from pipeline.search.tuning.study import TuningStudy
from pipeline.search.tuning.tables import sensitivity_table, study_markdown, trials_table

EXPERIMENT = "lucid-tuning"
TRIALS_FILE, SENSITIVITY_FILE, REPORT_FILE = "trials.csv", "sensitivity.csv", "tuning.md"
IMPORTANCES_FILE = "importances.json"


def write_report(study: TuningStudy, proposal: Proposal) -> tuple[str, ...]:
    """Write trials.csv, sensitivity.csv, importances.json, tuning.md and the pictures; return their URIs."""
    from pipeline.search.tuning import figures  # loading matplotlib takes longer than many a replay

    trials = trials_of(study)
    weights = weights_of(study, trials)
    table = sensitivity_table(study.space, trials)
    texts = {
        TRIALS_FILE: csv_text(trials_table(study, trials)),
        SENSITIVITY_FILE: csv_text(table),
        REPORT_FILE: f"# Tuning {study.cluster}\n\n{study_markdown(study, trials, proposal, weights)}\n",
    }
    fs, folder = locate(study.uri)
    for name, text in texts.items():
        write_atomically(fs, f"{folder}/{name}", partial(_write, text.encode()))
    write_json(f"{study.uri}/{IMPORTANCES_FILE}", weights)
    drawn = {
        "tuning_trials.png": figures.course(trials, best_trial(trials)),
        "tuning_sensitivity.png": figures.sensitivity(study.space, table),
        "tuning_importances.png": figures.importance(weights),
    }
    with scratch_folder("tuning") as scratch:
        for name, figure in drawn.items():
            file = scratch / name
            # No date or version in the file: the same study gives the same bytes.
            figure.savefig(file, dpi=120, metadata={"Software": None})
            write_atomically(fs, f"{folder}/{name}", partial(_write, file.read_bytes()))
    return tuple(f"{study.uri}/{name}" for name in (*texts, IMPORTANCES_FILE, *drawn))


def weights_of(study: TuningStudy, trials: list[Trial]) -> dict[str, float]:
    """Which settings explain the trials' scores."""
    return importances(study.space, [(trial.values, trial.change_pct) for trial in trials])


def record_study(study: TuningStudy, proposal: Proposal, *, tracking_uri: str) -> str:
    """Log a study as a run of MLflow, with its files; return the run's page in MLflow's UI."""
    tags = {"cluster": study.cluster, "tuning_study": study.sha256, "study_uri": study.uri}
    with Registry(tracking_uri).run(EXPERIMENT, f"tuning {study.cluster}", tags) as run:
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
        with scratch_folder("tuning") as scratch:
            for name in (study.plan_file, PROPOSAL_FILE, *_report_files()):
                data = read_bytes(f"{study.uri}/{name}")
                if data is not None:
                    (scratch / name).write_bytes(data)
            run.log_folder(scratch)
        return run.ui_path()


def _report_files() -> tuple[str, ...]:
    pictures = ("tuning_trials.png", "tuning_sensitivity.png", "tuning_importances.png")
    return (TRIALS_FILE, SENSITIVITY_FILE, REPORT_FILE, IMPORTANCES_FILE, *pictures)


def _metrics(proposal: Proposal) -> dict[str, float]:
    found: dict[str, float] = {"search_change_pct": float(proposal.search["change_pct"])}
    validation: Mapping[str, Any] = proposal.validation or {}
    for name in ("change_pct", "change_low_pct", "change_high_pct"):
        value = validation.get("objective", {}).get(name)
        if value is not None:
            found[f"validation_{name}"] = float(value)
    for which in (CURRENT, TUNED):
        for name, value in validation.get("figures", {}).get(which, {}).items():
            found[f"validation_{which}_{name}"] = float(value)
    return found


def _write(data: bytes, sink: pa.NativeFile) -> None:
    sink.write(data)
