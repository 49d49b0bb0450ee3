"""The figures of PCS' evaluation, under the paper's numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.reproduction.pcs.published import PublishedFigures
from experiments.reproduction.pcs.replays import CURVE_PCT, NAMES

COLOURS: Mapping[str, str] = {
    "afs": "#1f77b4",
    "srsf": "#2ca02c",
    "themis": "#9467bd",
    "elastic_fifo": "#7f7f7f",
    "pcs-jct": "#d62728",
    "pcs-bal": "#ff7f0e",
    "pcs-pred": "#e377c2",
}
LEAST_PCT = 0.1  # on a logarithmic axis


def _panels(width: float, height: float, rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for panel in axes:
        panel.grid(visible=True, alpha=0.3)
    return figure, axes


def fronts(tidy: pd.DataFrame) -> Figure:
    """Figure 3, from trace, kind (front or a policy's key), jct, mean_pct, p99_pct."""
    traces = list(dict.fromkeys(tidy["trace"]))
    figure, axes = _panels(9, 3.2 * len(traces), len(traces), 2)
    for i, trace in enumerate(traces):
        rows = tidy[tidy["trace"] == trace]
        for panel, measure, what in zip(
            axes[2 * i :], ("mean_pct", "p99_pct"), ("mean", "P99"), strict=False
        ):
            front = rows[rows["kind"] == "front"].sort_values("jct")
            panel.plot(front["jct"], front[measure], "o", color="0.3", markersize=4, label="found front")
            for row in rows[rows["kind"] != "front"].itertuples():
                shape = "s" if str(row.kind).startswith("pcs") else "^"
                panel.plot(
                    [row.jct],
                    [getattr(row, measure)],
                    shape,
                    color=COLOURS[str(row.kind)],
                    label=NAMES[str(row.kind)],
                )
            panel.set_xscale("log")
            panel.set_yscale("symlog", linthresh=1.0)
            panel.set_ylim(bottom=-0.05)
            panel.set_xlabel("mean JCT / that of AFS-L")
            panel.set_ylabel(f"{what} Pred_err (%)")
            panel.set_title(trace, fontsize="small")
    axes[0].legend(fontsize="x-small")
    return figure


def percentiles(found: Mapping[str, Mapping[str, Any]], shown: Sequence[str]) -> Figure:
    """Figure 5: the distributions of completion times and of prediction errors."""
    figure, (left, right) = _panels(9, 3.4, 1, 2)
    for key in shown:
        left.plot(
            np.maximum(found[key]["jct_s"]["curve"], 1.0), CURVE_PCT, color=COLOURS[key], label=NAMES[key]
        )
        right.plot(found[key]["error_pct"]["curve"], CURVE_PCT, color=COLOURS[key], label=NAMES[key])
    left.set_xscale("log")
    left.set_xlabel("JCT (s)")
    right.set_xscale("symlog", linthresh=1.0)
    right.set_xlim(left=0)
    right.set_xlabel("Pred_err (%)")
    for panel in (left, right):
        panel.set_ylabel("jobs (%)")
        panel.set_ylim(0, 100)
    right.legend(fontsize="x-small")
    return figure


def bars(tidy: pd.DataFrame, published: Mapping[str, Mapping[str, PublishedFigures]]) -> Figure:
    """Figure 7, from trace, policy, jct, error_pct, p99_error_pct; published figures as crosses."""
    traces = list(dict.fromkeys(tidy["trace"]))
    figure, axes = _panels(9, 2.8 * len(traces), len(traces), 2)
    for i, trace in enumerate(traces):
        left, right = axes[2 * i : 2 * i + 2]
        rows = tidy[tidy["trace"] == trace]
        keys = [str(key) for key in rows["policy"]]
        at = np.arange(len(keys))
        colours = [COLOURS[key] for key in keys]
        left.bar(at, rows["jct"], 0.6, color=colours)
        right.bar(at, rows["error_pct"].clip(lower=LEAST_PCT), 0.6, color=colours)
        right.plot(at, rows["p99_error_pct"].clip(lower=LEAST_PCT), "_", color="black", markersize=14)
        known = published.get(trace, {})
        crosses = [(n, known[key]) for n, key in enumerate(keys) if key in known]
        places = [n for n, _ in crosses]
        left.plot(places, [told.jct for _, told in crosses], "x", color="black")
        for value in ("error_pct", "p99_error_pct"):
            told = [max(LEAST_PCT, getattr(figures, value)) for _, figures in crosses]
            right.plot(places, told, "x", color="black")
        for panel in (left, right):
            panel.set_xticks(at, [NAMES[key] for key in keys], rotation=25, ha="right", fontsize="small")
            panel.set_yscale("log")
            panel.set_title(trace, fontsize="small")
        right.set_ylim(bottom=LEAST_PCT)
        left.set_ylabel("mean JCT / that of AFS-L")
        right.set_ylabel("Pred_err (%): mean, P99")
    return figure


def costs(times: pd.DataFrame, spaces: pd.DataFrame) -> Figure:
    """Figure 9 (a) and (c), from jobs, gpus, cpu_s and from space, seed, evaluations, hypervolume."""
    figure, (left, right) = _panels(9, 3.4, 1, 2)
    for gpus in sorted(set(times["gpus"].tolist())):
        rows = times[times["gpus"] == gpus]
        left.plot(rows["jobs"], rows["cpu_s"], "o-", label=f"{gpus:,} GPUs")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("jobs")
    left.set_ylabel("CPU s of a simulation")
    left.set_title("(a) a simulation, all ends foretold", fontsize="small")
    left.legend(fontsize="x-small")
    for space in dict.fromkeys(spaces["space"].tolist()):
        mean = spaces[spaces["space"] == space].groupby("evaluations")["hypervolume"].mean()
        right.plot(mean.index, mean.to_numpy(), label=space)
    right.set_xlabel("configurations tried")
    right.set_ylabel("hypervolume")
    right.set_title("(c) what is drawn", fontsize="small")
    right.legend(fontsize="x-small")
    return figure
