"""Predictions from graphs beside their rivals: a section of docs/model_quality.md.

`lucid evaluate all` measures it with the rest, alone
`python -m experiments.model_quality.utilisation DATA --write PAGE`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.model_quality.utilisation_rivals import all_contenders
from experiments.pages import run_study
from experiments.profiling.graph_predictions_study import unseen_predictions
from foundation.markdown import NO_VALUE, markdown_frame, number
from foundation.progress import Progress, silent
from lucid_models.evaluation.measures import Row
from parts.horus.evaluation import CHOSEN, OURS, TARGETS, evaluate_utilisation
from parts.horus.formulas import level_of_cost
from parts.horus.model import UtilisationSettings
from profiler_jobs.profile_table import read_solo_profiles
from simulator.workload.job import JobProfile

SINGLES = "data/packing/single_jobs_rtx3090.csv"
LEVELS = (1.0, 3.0, 6.0)
_SIMULATED_MODELS = (OURS, "mean", "batch_size", "ridge")
_TITLES = {
    "gpu_util_pct": "GPU utilisation",
    "gpu_mem_util_pct": "memory utilisation",
    "gpu_mem_mib": "memory",
}
_WHAT: Mapping[str, str] = {
    OURS: "our model: a step's time on device and host; Horus's formula for memory",
    CHOSEN: "whichever did best within each fold's training rows",
    "mean": "naive: the mean of the other models",
    "largest": "naive: as much as any of the others",
    "horus_counts": "Horus's formula with textbook counts, only the overhead learned",
    "batch_size": "no graph: ridge on batch size and AMP",
    "ridge": "ridge on arithmetic and activations an operator, AMP",
    "ridge_all": "ridge on all features",
    "nearest": "five most similar configurations",
    "rf": "black box on all features (Horus's kind)",
    "lightgbm": "black box on all features (Horus's kind)",
    "ebm": "additive and monotone, on the ridge's features",
}


@dataclass(frozen=True)
class UtilisationQuality:
    """Rows of `evaluate_utilisation` on measured and on simulated profiles, by what an under-estimate
    costs, and each model's measured, expected and careful figures.
    """

    measured: Sequence[Row]
    simulated: Sequence[Row]
    by_cost: Sequence[Row]
    by_model: Sequence[Row]


def solo_profiles(file: Path | None, seed: int = 0) -> tuple[pd.DataFrame, str]:
    """Return solo profiles and the name of what they were measured on: of a file, else the simulated GPU."""
    if file is not None:
        return read_solo_profiles(file), file.name
    from profiler_jobs.campaign import measure_simulated_profiles

    return measure_simulated_profiles(seed).solo, "the simulated GPU"


def measure_utilisation(data: Path, progress: Progress = silent) -> UtilisationQuality:
    """Measure everything; `data` is the folder of the public data."""
    solo, _ = solo_profiles(data / SINGLES)
    simulated, _ = solo_profiles(None)
    by_cost = [
        {**row, "cost": cost}
        for cost in LEVELS
        for row in evaluate_utilisation(
            solo, settings=UtilisationSettings(cost, cost), models=(OURS,), progress=progress
        )
    ]
    return UtilisationQuality(
        evaluate_utilisation(solo, contenders=all_contenders, progress=progress),
        evaluate_utilisation(
            simulated, models=_SIMULATED_MODELS, contenders=all_contenders, progress=progress
        ),
        by_cost,
        _by_model(solo),
    )


def utilisation_tables(quality: UtilisationQuality) -> dict[str, str]:
    """Return the section's tables, by the name of their markers."""
    return {
        **{f"utilisation_{target}": _rivals(quality.measured, target) for target in TARGETS},
        "utilisation_simulated": _simulated(quality.simulated),
        "utilisation_by_cost": _costs(quality.by_cost),
        "utilisation_by_model": _models(quality.by_model),
    }


def utilisation_standing(quality: UtilisationQuality) -> list[str]:
    """Return a line a target: how our model stands, with the rival that is ahead, if one is."""
    return [_stands(quality.measured, target) for target in TARGETS]


def _by_model(solo: pd.DataFrame) -> list[Row]:
    predicted = unseen_predictions(solo)
    rows: list[Row] = []
    for model, part in solo.groupby("model", sort=True):
        told = [predicted[str(name)] for name in part["job_type"]]
        row: Row = {"model": str(model), "configurations": len(part)}
        for target in ("gpu_util_pct", "gpu_mem_mib"):
            row[f"{target}_measured"] = float(part[target].mean())
            for at, which in enumerate(("careful", "expected")):
                row[f"{target}_{which}"] = float(np.mean([_figure(pair[at], target) for pair in told]))
        rows.append(row)
    return rows


def _figure(profile: JobProfile, target: str) -> float:
    return float(getattr(profile, target))


def _rivals(rows: Sequence[Row], target: str) -> str:
    found = sorted((row for row in rows if row["target"] == target), key=lambda row: float(row["mae"]))
    memory = target == "gpu_mem_mib"
    shown = [
        {
            "model": f"**{row['model']}**" if row["model"] == OURS else row["model"],
            "what": _WHAT.get(str(row["model"]), ""),
            "MAE": _amount(row["mae"], memory),
            **({"mean relative error": _share(row["mape"])} if memory else {}),
            "RMSE": _amount(row["rmse"], memory),
            "Spearman": number(row["spearman"], 2),
            "careful: MAE": _amount(row["careful_mae"], memory),
            "would run out" if memory else "under": _share(row["under_share"]),
            "of models": _share(row["under_models"]),
            "by (mean)": _amount(row["under_mean"], memory),
            "within range": _share(row["within_models"]),
            "fit, CPU ms": NO_VALUE if row["fit_s"] is None else f"{1_000 * row['fit_s']:.0f}",
        }
        for row in found
    ]
    return markdown_frame(pd.DataFrame(shown))


def _simulated(rows: Sequence[Row]) -> str:
    shown = [
        {
            "of": _TITLES[str(row["target"])],
            "model": f"**{row['model']}**" if row["model"] == OURS else row["model"],
            "MAE": _amount(row["mae"], row["target"] == "gpu_mem_mib"),
            "Spearman": number(row["spearman"], 2),
            "careful: MAE": _amount(row["careful_mae"], row["target"] == "gpu_mem_mib"),
            "under, of models": _share(row["under_models"]),
        }
        for row in rows
    ]
    return markdown_frame(pd.DataFrame(shown))


def _costs(rows: Sequence[Row]) -> str:
    shown = [
        {
            "of": _TITLES[str(row["target"])],
            "an under-estimate costs": f"{row['cost']:g} times as much",
            "may under-estimate": _share(1.0 - level_of_cost(float(row["cost"]))),
            "does, of models": _share(row["under_models"]),
            "of configurations": _share(row["under_share"]),
            "careful: MAE": _amount(row["careful_mae"], row["target"] == "gpu_mem_mib"),
        }
        for row in sorted(rows, key=lambda row: (list(TARGETS).index(str(row["target"])), row["cost"]))
    ]
    return markdown_frame(pd.DataFrame(shown))


def _models(rows: Sequence[Row]) -> str:
    shown = [
        {
            "model": row["model"],
            "configurations": row["configurations"],
            **{
                f"{words}: {which}": _amount(row[f"{target}_{which}"], target == "gpu_mem_mib")
                for target, words in (("gpu_util_pct", "GPU, %"), ("gpu_mem_mib", "memory, MiB"))
                for which in ("measured", "expected", "careful")
            },
        }
        for row in rows
    ]
    return markdown_frame(pd.DataFrame(shown))


def _stands(rows: Sequence[Row], target: str) -> str:
    found = [row for row in rows if row["target"] == target and row["model"] != CHOSEN]
    ours = next(row for row in found if row["model"] == OURS)
    ahead = [row for row in found if row["mae"] < ours["mae"]]
    memory = target == "gpu_mem_mib"
    unit = "MiB" if memory else "points"
    mean = next(row for row in found if row["model"] == "mean")
    text = (
        f"- **{_TITLES[target]} from graphs, a model left out**: mean error {_amount(ours['mae'], memory)} "
        f"{unit} (the mean predictor: {_amount(mean['mae'], memory)}); "
    )
    if not ahead:
        return f"{text}none of {len(found) - 1} rivals is ahead."
    named = ", ".join(f"{row['model']} {_amount(row['mae'], memory)}" for row in ahead)
    return f"{text}**behind** {named}."


def _amount(value: float, memory: bool) -> str:
    return f"{value:,.0f}" if memory else f"{value:.1f}"


def _share(value: float | None) -> str:
    return NO_VALUE if value is None else f"{100 * value:.0f} %"


def tables(data: Path) -> dict[str, str]:
    """Return the section's tables alone."""
    return utilisation_tables(measure_utilisation(data))


if __name__ == "__main__":
    run_study("experiments.model_quality.utilisation", __doc__, tables)
