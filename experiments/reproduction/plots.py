"""The figures of an evaluation, under the paper's numbers, each drawn from a tidy table alone."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.reproduction.sections import HOUR_S, name_of

_COLOURS = {
    "lucid": "#d62728",
    "clarity": "#e377c2",
    "fifo": "#7f7f7f",
    "sjf": "#bcbd22",
    "srtf": "#aec7e8",
    "qssf": "#1f77b4",
    "horus": "#8c564b",
    "tiresias": "#2ca02c",
    "fair_share": "#17becf",
    "easy": "#ff7f0e",
    "tsafrir_easy": "#9467bd",
}
_LEAST_SHOWN_H = 0.001  # on a logarithmic axis
_LEAST_SHOWN_S = 1.0


def colour_of(policy: str) -> str | None:
    """Return a policy's colour, the same in every figure; None: the next free one."""
    return _COLOURS.get(policy)


def _figure(width: float, height: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
    for panel in axes:
        panel.grid(visible=True, alpha=0.3)
    return figure, axes


def jct_distribution(tidy: pd.DataFrame) -> Figure | None:
    """Figure 8, from policy, jobs_pct, jct_s."""
    if tidy.empty:
        return None
    figure, (axes,) = _figure(6, 3.6)
    for policy, rows in tidy.groupby("policy", sort=False):
        axes.plot(
            rows["jct_s"].clip(lower=1.0),
            rows["jobs_pct"],
            label=name_of(str(policy)),
            linewidth=2.2 if policy == "lucid" else 1.2,
            color=colour_of(str(policy)),
        )
    axes.set_xscale("log")
    axes.set_xlabel("JCT (s)")
    axes.set_ylabel("jobs (%)")
    axes.set_ylim(0, 100)
    axes.legend(fontsize="x-small")
    return figure


def queuing_by_virtual_cluster(tidy: pd.DataFrame, shown: Sequence[str]) -> Figure | None:
    """Figure 9, from policy, virtual_cluster, jobs, mean_queuing_delay_s; `shown` and all."""
    if tidy.empty:
        return None
    figure, (axes,) = _figure(8, 3.6)
    policies = list(dict.fromkeys(tidy["policy"]))
    shown = shown if len(shown) > 1 else []  # one virtual cluster is all of it
    width = 0.85 / len(policies)
    for i, policy in enumerate(policies):
        rows = tidy[tidy["policy"] == policy].set_index("virtual_cluster")
        waits = rows["mean_queuing_delay_s"]
        heights = [float(waits.get(name, 0.0)) / HOUR_S for name in shown]
        heights.append(float(np.average(waits, weights=rows["jobs"])) / HOUR_S)
        positions = np.arange(len(heights)) + (i - (len(policies) - 1) / 2) * width
        axes.bar(positions, heights, width, label=name_of(policy), color=colour_of(policy))
    axes.set_xticks(np.arange(len(shown) + 1), [*shown, "all"], rotation=25, ha="right", fontsize="small")
    axes.set_yscale("log")
    axes.set_ylim(bottom=_LEAST_SHOWN_H)
    axes.set_ylabel("mean queuing delay (h, log)")
    figure.legend(loc="outside upper center", fontsize="x-small", ncols=6)
    return figure


def scheduling_latency(tidy: pd.DataFrame) -> Figure | None:
    """Figure 10 (a), from policy, queued_jobs, median_ms."""
    if tidy.empty:
        return None
    figure, (axes,) = _figure(6, 3.4)
    for policy, rows in tidy.groupby("policy", sort=False):
        axes.plot(
            rows["queued_jobs"],
            rows["median_ms"],
            marker="o",
            markersize=4,
            label=name_of(str(policy)),
            color=colour_of(str(policy)),
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.axhline(3.0, color="grey", linestyle=":", label="paper's bound for 2,048 jobs")
    axes.set_xlabel("queued jobs")
    axes.set_ylabel("decision (ms, median)")
    axes.legend(fontsize="x-small")
    return figure


def ablations(tidy: pd.DataFrame, optimum_jct_s: float, profiling: pd.DataFrame) -> Figure | None:
    """Figure 11: (a) JCT and queuing of each variant, (b) the queue before two profilers.

    `tidy`: variant, mean_jct_s, mean_queuing_delay_s; `profiling`: variant, profiling_queue_s.
    """
    if tidy.empty:
        return None
    figure, (left, right) = _figure(9, 3.6, 2)
    variants = [str(variant) for variant in tidy["variant"]]
    positions = np.arange(len(variants))
    left.bar(positions - 0.2, tidy["mean_jct_s"] / HOUR_S, 0.4, label="mean JCT")
    left.bar(positions + 0.2, tidy["mean_queuing_delay_s"] / HOUR_S, 0.4, label="mean queue")
    left.axhline(optimum_jct_s / HOUR_S, color="grey", linestyle=":", label="JCT without any queue")
    left.set_xticks(positions, variants, rotation=25, ha="right", fontsize="small")
    left.set_ylabel("hours")
    left.set_title("(a) binder and estimator", fontsize="small")
    left.legend(fontsize="x-small")
    if profiling.empty:
        right.set_axis_off()
        return figure
    right.bar(
        [str(variant) for variant in profiling["variant"]],
        profiling["profiling_queue_s"],
        0.5,
        color=colour_of("lucid"),
    )
    right.set_yscale("log")
    right.set_ylim(bottom=_LEAST_SHOWN_S)
    right.set_ylabel("queue before profiling (s, log)")
    right.set_title("(b) space-aware profiling", fontsize="small")
    return figure


def workload_mixes(utilisations: pd.DataFrame, tidy: pd.DataFrame) -> Figure | None:
    """Figure 12: (a) GPU utilisation of each mix's jobs, (b) queuing under each mix.

    `utilisations`: mix, jobs_pct, gpu_util_pct; `tidy`: mix, policy, mean_queuing_delay_s.
    """
    if tidy.empty:
        return None
    figure, (left, right) = _figure(9, 3.4, 2)
    for mix, rows in utilisations.groupby("mix", sort=False):
        left.plot(rows["gpu_util_pct"], rows["jobs_pct"], label=str(mix))
    left.set_xlabel("GPU utilisation (%)")
    left.set_ylabel("jobs (%)")
    left.set_title("(a) workload mixes", fontsize="small")
    left.legend(fontsize="x-small")
    mixes = list(dict.fromkeys(tidy["mix"]))
    policies = list(dict.fromkeys(tidy["policy"]))
    width = 0.8 / len(policies)
    for i, policy in enumerate(policies):
        rows = tidy[tidy["policy"] == policy].set_index("mix")
        heights = [float(rows["mean_queuing_delay_s"].get(mix, 0.0)) / HOUR_S for mix in mixes]
        positions = np.arange(len(mixes)) + (i - (len(policies) - 1) / 2) * width
        right.bar(positions, heights, width, label=name_of(policy), color=colour_of(policy))
    right.set_xticks(np.arange(len(mixes)), mixes)
    right.margins(y=0.3)  # room for the legend
    right.set_ylabel("mean queuing delay (h)")
    right.set_title("(b) queuing", fontsize="small")
    right.legend(fontsize="x-small")
    return figure
