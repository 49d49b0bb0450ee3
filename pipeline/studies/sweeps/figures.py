"""Pictures of a sweep: what each setting does to mean JCT and queuing delay, with the spread over seeds."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foundation.png_figures import save_figure
from pipeline.studies.study import OK
from pipeline.studies.sweeps.runs import axes_of

MEASURES = (("mean_jct_h", "mean JCT (h)"), ("mean_queuing_delay_h", "mean queuing delay (h)"))
MOST_LINES = 10  # the best by mean JCT; more cannot be distinguished
POLICIES_FILE = "sweep_policies.png"
LOG_FROM_RATIO = 5.0  # where the ends of a scale differ by more it is logarithmic


def draw_sweep(table: pd.DataFrame, out_dir: Path) -> list[Path]:
    """Write one PNG of all variants side by side, and one for each setting that takes several values.

    `table` is `pipeline.studies.sweeps.runs.tidy_table`'s; runs without a result are left out, and a sweep
    without any gives no picture. Returns the files.
    """
    good = table[table["status"] == OK]
    if good.empty:
        return []
    good = good.assign(**{name: good[f"{name[:-2]}_s"].astype(float) / 3_600.0 for name, _ in MEASURES})
    axes = axes_of(good)
    figures = {POLICIES_FILE: variants(good, axes)}
    for axis in axes:
        if good[axis].nunique() > 1:
            figures[f"sweep_{axis}.png"] = along(good, axis, axes)
    return [save_figure(figure, out_dir / name) for name, figure in figures.items()]


def _label(row: pd.Series, axes: list[str], varied: set[str]) -> str:
    varied_values = [
        f"{axis.rpartition('.')[2]} {row[axis]:g}"
        if isinstance(row[axis], float)
        else f"{axis.rpartition('.')[2]} {row[axis]}"
        for axis in axes
        if axis in varied and not pd.isna(row[axis])
    ]
    return ", ".join([str(row["policy"]), *varied_values])


def _labelled(table: pd.DataFrame, axes: list[str]) -> pd.Series:
    varied = {axis for axis in axes if table[axis].nunique(dropna=False) > 1}
    return pd.Series([_label(row, axes, varied) for _, row in table.iterrows()], index=table.index)


def _best(table: pd.DataFrame, labels: pd.Series) -> list[str]:
    """The labels to draw, in the order of the table: at most MOST_LINES, those with the lowest mean JCT."""
    means = table["mean_jct_s"].astype(float).groupby(labels, sort=True).mean()
    best = set(means.sort_values(kind="stable").index[:MOST_LINES])
    return [label for label in dict.fromkeys(labels) if label in best]


def variants(table: pd.DataFrame, axes: list[str]) -> Figure:
    """Draw a point a variant (policy and settings): the mean over seeds, with the range over them."""
    labels = _labelled(table, axes)
    shown = _best(table, labels)
    figure = Figure(figsize=(9, 1.2 + 0.3 * len(shown)), layout="constrained")
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    figure.suptitle("Policies and settings: means over the runs, bars from the least to the most")
    places = np.arange(len(shown))[::-1]
    for panel, (measure, title) in zip(panels, MEASURES, strict=True):
        by_label = table[measure].astype(float).groupby(labels)
        mean, least, most = (by_label.agg(how).loc[shown].to_numpy() for how in ("mean", "min", "max"))
        panel.errorbar(
            mean, places, xerr=np.maximum(0.0, [mean - least, most - mean]), fmt="o", markersize=4, capsize=3
        )
        if least.min() > 0 and most.max() > LOG_FROM_RATIO * least.min():
            panel.set_xscale("log")
        else:
            panel.set_xlim(left=0)
        panel.set_yticks(places, shown, fontsize="small")
        panel.set_xlabel(title)
        panel.grid(visible=True, alpha=0.3)
    return figure


def along(table: pd.DataFrame, axis: str, axes: list[str]) -> Figure:
    """Draw both measures along one setting, a line a variant of everything else.

    The band is the range over seeds. The picture shows where the setting moves something: policies that do
    not have it are level lines, and the legend says the height of those that lie outside.
    """
    others = [name for name in axes if name != axis]
    moved = table[table[axis].notna()]
    level = table[table[axis].isna()]
    values = sorted(moved[axis].unique())
    numeric = all(isinstance(value, int | float | np.number) for value in values)
    places = dict(zip(values, values if numeric else range(len(values)), strict=True))
    figure = Figure(figsize=(9, 4), layout="constrained")
    figure.suptitle(f"What {axis} changes")
    panels = figure.subplots(1, len(MEASURES))
    for panel, (measure, title) in zip(panels, MEASURES, strict=True):
        _lines(panel, moved, axis, others, measure, places, joined=numeric)
        _levels(panel, level, others, measure)
        low, high = float(moved[measure].min()), float(moved[measure].max())
        margin = max(0.1 * (high - low), 0.02 * high, 1e-9)
        panel.set_ylim(max(0.0, low - margin), high + margin)
        panel.set_xlabel(axis)
        panel.set_ylabel(title)
        panel.grid(visible=True, alpha=0.3)
        if not numeric:
            panel.set_xticks(list(places.values()), [str(value) for value in values])
            panel.set_xlim(-0.5, len(values) - 0.5)
        panel.legend(fontsize="x-small")
    return figure


def _lines(
    panel: Axes,
    moved: pd.DataFrame,
    axis: str,
    others: list[str],
    measure: str,
    places: dict[object, float],
    *,
    joined: bool,
) -> None:
    labels = _labelled(moved, others)
    for label in _best(moved, labels):
        rows = moved[labels == label]
        by_value = rows[measure].astype(float).groupby(rows[axis], sort=True)
        spots = [places[value] for value in by_value.mean().index]
        mean, least, most = (by_value.agg(how).to_numpy() for how in ("mean", "min", "max"))
        if joined:
            (line,) = panel.plot(spots, mean, marker="o", markersize=4, label=label)
            panel.fill_between(spots, least, most, color=line.get_color(), alpha=0.2)
        else:
            spread = np.maximum(0.0, [mean - least, most - mean])
            panel.errorbar(spots, mean, yerr=spread, fmt="o", markersize=4, capsize=3, label=label)


def _levels(panel: Axes, level: pd.DataFrame, others: list[str], measure: str) -> None:
    if level.empty:
        return
    labels = _labelled(level, others)
    for i, label in enumerate(_best(level, labels)):
        height = float(level[labels == label][measure].astype(float).mean())
        text = f"{label}: {height:.3g} h"
        panel.axhline(height, linestyle="--", linewidth=1, color=f"C{(i + 5) % 10}", label=text)
