"""Pictures of an evaluation: a week forecast, error by lead, calibration, estimates against the truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.model_quality.duration_comparison import DurationComparison
from experiments.model_quality.throughput_comparison import ThroughputComparison
from foundation.png_figures import new_figure, save_figure
from lucid_models.evaluation.measures import Floats
from lucid_models.evaluation.throughput import lead_bins_of

WEEK_RIVALS = ("ebm", "lightgbm", "rolling_median_12", "lucid_published")
LEAD_RIVALS = ("ebm", "lightgbm", "last_value", "rolling_median_12", "same_time_last_week", "zero")
ESTIMATE_RIVALS = ("p50_s", "ewma", "lightgbm", "lucid_recipe")
_COLOURS = ("#2c6fbb", "#c0392b", "#2e8b57", "#e08e0b", "#7d5ba6", "#555555")
_UNITS = {"jobs": "jobs submitted a bin", "gpus": "GPUs asked for a bin"}
_GROUPS = 10


def draw_throughput(comparison: ThroughputComparison, folder: Path) -> list[Path]:
    """A week of each series and lead, and the error by lead where there are several; PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [
        draw_week(forecasts, series, lead, folder / f"throughput_week_{series}_{lead}.png")
        for (series, lead), forecasts in comparison.forecasts.items()
    ]
    if len({row["lead"] for row in comparison.rows}) > 1:
        drawn.append(draw_error_by_lead(comparison.rows, folder / "throughput_error_by_lead.png"))
    return drawn


def draw_durations(comparison: DurationComparison, folder: Path) -> list[Path]:
    """Calibration, and estimates against the truth; PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        draw_calibration(comparison.estimates, folder / "duration_calibration.png"),
        draw_estimates(comparison.estimates, folder / "duration_estimates.png"),
    ]


def draw_week(forecasts: pd.DataFrame, series: str, lead: str, path: Path) -> Path:
    """The first week of the test: what came, what our model and some rivals said (Lucid's Figure 13 a)."""
    end = forecasts["bin_start"].min() + pd.Timedelta(days=7)
    week = forecasts[forecasts["bin_start"] < end]
    figure = new_figure(11.0, 4.0)
    axes = figure.add_subplot()
    axes.fill_between(week["bin_start"], week["truth"], color="#dddddd", label="truth", linewidth=0)
    for name, colour in zip(WEEK_RIVALS, _COLOURS, strict=False):
        if name in week:
            width = 1.6 if name == "ebm" else 0.8
            axes.plot(week["bin_start"], week[name], color=colour, linewidth=width, label=name)
    # One burst of thousands would flatten the week.
    axes.set_ylim(0, 1.15 * max(float(week["truth"].quantile(0.995)), 1.0))
    axes.set_ylabel(_UNITS[series])
    axes.set_title(f"{series} at lead {lead}: the first week of the test")
    axes.legend(loc="upper right", fontsize=8, ncols=2)
    figure.autofmt_xdate()
    return save_figure(figure, path)


def draw_error_by_lead(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Mean absolute error of some models at each lead, a panel a series."""
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    figure = new_figure(5.5 * len(names), 4.0)
    for panel, series in enumerate(names, start=1):
        axes = figure.add_subplot(1, len(names), panel)
        for name, colour in zip(LEAD_RIVALS, _COLOURS, strict=True):
            found = sorted(
                (lead_bins_of(str(row["lead"])), float(row["mae"]))
                for row in rows
                if row["series"] == series and row["model"] == name and row["mae"] is not None
            )
            if found:
                leads, errors = zip(*found, strict=True)
                axes.plot(leads, errors, marker="o", markersize=3, color=colour, label=name)
        axes.set_xscale("log")
        axes.set_xlabel("lead (bins)")
        axes.set_ylabel(f"mean absolute error ({series})")
        axes.legend(fontsize=8)
    return save_figure(figure, path)


def draw_calibration(estimates: pd.DataFrame, path: Path) -> Path:
    """How many jobs end within P50 and P90, by how long they were said to run."""
    figure = new_figure(6.5, 4.0)
    axes = figure.add_subplot()
    for column, share, colour in (("p50_s", 0.5, _COLOURS[0]), ("p90_s", 0.9, _COLOURS[1])):
        said, covered = coverage_by_estimate(estimates, column)
        axes.plot(said, covered, marker="o", color=colour, label=f"{column[:3].upper()}: measured")
        axes.axhline(share, color=colour, linestyle=":", linewidth=1, label=f"{column[:3].upper()}: meant")
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel("P50 (s), tenths of the jobs")
    axes.set_ylabel("share that ended within it")
    axes.legend(fontsize=8, loc="lower left")
    return save_figure(figure, path)


def coverage_by_estimate(estimates: pd.DataFrame, column: str) -> tuple[Floats, Floats]:
    """Mean P50 of groups of jobs with similar P50, and the share of each that ended within `column`."""
    order = np.argsort(estimates["p50_s"].to_numpy(), kind="stable")
    groups = np.array_split(order, min(_GROUPS, len(order)))
    covered = (estimates["truth_s"] <= estimates[column]).to_numpy(dtype=np.float64)
    said = estimates["p50_s"].to_numpy(dtype=np.float64)
    return (
        np.array([float(np.exp(np.log(said[group]).mean())) for group in groups]),
        np.array([float(covered[group].mean()) for group in groups]),
    )


def draw_estimates(estimates: pd.DataFrame, path: Path) -> Path:
    """Estimates against true run times, a panel a model (Lucid's Figure 13 b)."""
    names = [name for name in ESTIMATE_RIVALS if name in estimates]
    figure = new_figure(3.6 * len(names), 3.8)
    truth = np.maximum(estimates["truth_s"].to_numpy(dtype=np.float64), 1.0)
    limits = (1.0, 2.0 * float(truth.max()))
    for panel, name in enumerate(names, start=1):
        axes = figure.add_subplot(1, len(names), panel)
        said = np.clip(estimates[name].to_numpy(dtype=np.float64), *limits)
        axes.hexbin(truth, said, gridsize=40, xscale="log", yscale="log", bins="log", mincnt=1, cmap="Blues")
        axes.plot(limits, limits, color="#c0392b", linewidth=0.8)
        axes.set_xlim(*limits)
        axes.set_ylim(*limits)
        axes.set_title("ebm" if name == "p50_s" else name, fontsize=9)
        axes.set_xlabel("run time (s)")
        axes.set_ylabel("estimate (s)" if panel == 1 else "")
    return save_figure(figure, path)
