"""Plots of simulation results, in the manner of Lucid's Figures 8 and 9."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from simulator.metrics import mean
from simulator.result import SimulationResult

JCT_FILE = "jct_cdf.png"
QUEUING_FILE = "queuing_delay_by_virtual_cluster.png"
SHOWN_VIRTUAL_CLUSTERS = 8  # as in Figure 9: those with the longest queuing, and "all"


def draw_figures(results: Mapping[str, SimulationResult], out_dir: Path) -> list[Path]:
    """Write both plots as PNG into DIR and return the files; no file for results without a job."""
    if not any(len(result.jobs) for result in results.values()):
        return []
    out_dir.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in (
        (JCT_FILE, jct_cdf(results)),
        (QUEUING_FILE, queuing_delay_by_virtual_cluster(results)),
    ):
        FigureCanvasAgg(figure)
        # No date or version in the file: the same results give the same bytes.
        figure.savefig(out_dir / name, dpi=120, metadata={"Software": None})
        written.append(out_dir / name)
    return written


def jct_cdf(results: Mapping[str, SimulationResult]) -> Figure:
    """Draw the share of jobs (%) completed within a JCT (s, log scale), a line a policy (Figure 8)."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, result in results.items():
        jct = np.sort(np.maximum(result.jobs["jct_s"].to_numpy(), 1.0))
        axes.step(jct, np.arange(1, len(jct) + 1) / max(1, len(jct)) * 100, where="post", label=name)
    axes.set_xscale("log")
    axes.set_xlabel("JCT (s)")
    axes.set_ylabel("jobs (%)")
    axes.set_ylim(0, 100)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(title="policy", fontsize="small")
    return figure


def queuing_delay_by_virtual_cluster(results: Mapping[str, SimulationResult]) -> Figure:
    """Draw the mean queuing delay (h) of the virtual clusters that queue most, and of all (Figure 9)."""
    means = {
        name: result.jobs.groupby("virtual_cluster", sort=True)["queuing_delay_s"].mean()
        for name, result in results.items()
    }
    clusters = sorted({cluster for column in means.values() for cluster in column.index})
    worst = {
        cluster: max(float(column.get(cluster, 0.0)) for column in means.values()) for cluster in clusters
    }
    shown = sorted(clusters, key=lambda cluster: (-worst[cluster], cluster))[:SHOWN_VIRTUAL_CLUSTERS]
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    positions = np.arange(len(shown) + 1)
    width = 0.8 / max(1, len(results))
    for i, (name, result) in enumerate(results.items()):
        heights = [float(means[name].get(cluster, 0.0)) / 3600 for cluster in shown]
        heights.append(mean(result.jobs["queuing_delay_s"].to_numpy()) / 3600)
        axes.bar(positions + (i - (len(results) - 1) / 2) * width, heights, width, label=name)
    axes.set_xticks(positions, [*shown, "all"], rotation=30, ha="right")
    axes.set_ylabel("mean queuing delay (h)")
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(title="policy", fontsize="small")
    return figure
