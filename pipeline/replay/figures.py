"""Plots of simulation results, in the manner of Lucid's Figures 8 and 9."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foundation.png_figures import save_figure
from simulator.cluster.changes import ClusterChange, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.job_view import RunState
from simulator.recorders.usage import Usage, binned, most_done_s
from simulator.recorders.wait_clocks import CAUSE_COLUMNS, CAUSE_NAMES
from simulator.results.metrics import mean, percentile
from simulator.results.prediction_metrics import finite_errors_pct
from simulator.results.result import SimulationResult
from simulator.scenario.companion import OverTime

JCT_FILE = "jct_cdf.png"
QUEUING_CDF_FILE = "queuing_cdf.png"
QUEUING_FILE = "queuing_delay_by_virtual_cluster.png"
USAGE_FILE = "usage.png"
WAITS_FILE = "waits.png"
PREDICTION_FILE = "pred_err_cdf.png"
TRADE_OFF_FILE = "jct_against_pred_err.png"
SHOWN_VIRTUAL_CLUSTERS = 8  # as in Figure 9: those with the longest queuing, and "all"
POINTS = 1_000  # of a line; more than a picture has columns
DAY_S, HOUR_S = 86_400.0, 3_600.0


def draw_figures(
    results: Mapping[str, SimulationResult],
    out_dir: Path,
    *,
    usage: Mapping[str, Usage] | None = None,
    waits: Mapping[str, Mapping[str, float]] | None = None,
    cluster: ClusterSpec | None = None,
    changes: Sequence[ClusterChange] = (),
    from_s: float = 0.0,
) -> list[Path]:
    """Write the plots as PNG into DIR and return the files; no file for results without a job.

    With `usage`, by policy, also GPUs in use and waiting jobs over time; `cluster` and its `changes` add the
    line of all GPUs. With `waits` (`simulator.recorders.waiting.mean_waits` by policy) also what jobs waited
    for. Results with predictions have their error drawn, too, and so is what companions kept over time. What
    is drawn over time begins at `from_s`, where warm-up is over.
    """
    if not any(len(result.jobs) and len(result.counted) for result in results.values()):
        return []
    out_dir.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Figure] = {
        JCT_FILE: jct_cdf(results),
        QUEUING_CDF_FILE: queuing_cdf(results),
        QUEUING_FILE: queuing_delay_by_virtual_cluster(results),
    }
    predicted = {name: result for name, result in results.items() if "predicted_end_time_s" in result.jobs}
    if predicted:
        drawn[PREDICTION_FILE] = pred_err_cdf(predicted)
        drawn[TRADE_OFF_FILE] = jct_against_pred_err(predicted)
    if usage:
        drawn[USAGE_FILE] = usage_over_time(usage, cluster, changes, from_s=from_s)
    kept: dict[type[OverTime], dict[str, OverTime]] = {}
    for policy, result in results.items():
        for each in result.kept.values():
            if isinstance(each, OverTime):
                kept.setdefault(type(each), {})[policy] = each
    for kind, by_policy in kept.items():
        drawn[f"{kind.name}.png"] = kind.drawn(by_policy, from_s=from_s)
    if waits:
        drawn[WAITS_FILE] = waits_by_cause(waits)
    for name, figure in drawn.items():
        save_figure(figure, out_dir / name)
    return [out_dir / name for name in drawn]


def jct_cdf(results: Mapping[str, SimulationResult]) -> Figure:
    """Draw the share of jobs (%) completed within a JCT (s, log scale), a line a policy (Figure 8)."""
    jct = {
        name: jobs["jct_s"].to_numpy()[(jobs["state"] == RunState.COMPLETED.value).to_numpy()]
        for name, jobs in ((name, result.counted) for name, result in results.items())
    }
    figure = _cdf({name: np.maximum(values, 1.0) for name, values in jct.items()}, "JCT (s)")
    figure.axes[0].set_xscale("log")
    return figure


def queuing_cdf(results: Mapping[str, SimulationResult]) -> Figure:
    """Draw the share of jobs (%) that waited for no longer than a queuing delay (s; linear up to 1 s)."""
    waited = {name: result.counted["queuing_delay_s"].to_numpy() for name, result in results.items()}
    return _linear_up_to_1(_cdf(waited, "queuing delay (s)"))


def pred_err_cdf(results: Mapping[str, SimulationResult]) -> Figure:
    """Draw the share of jobs (%) that ended at most so far from what was predicted (Pred_err, %)."""
    errors = {name: finite_errors_pct(result.counted) for name, result in results.items()}
    label = f"prediction error (% of the predicted completion time{_by(results)})"
    return _linear_up_to_1(_cdf(errors, label))


def jct_against_pred_err(results: Mapping[str, SimulationResult]) -> Figure:
    """Draw what predictability costs: a point a policy, mean JCT (h) against mean and P99 Pred_err (%)."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    drawn = figure.subplots(1, 2)
    for axes, label in zip(drawn, ("mean", "P99"), strict=True):
        for name, result in results.items():
            errors = finite_errors_pct(result.counted)
            error = mean(errors) if label == "mean" else percentile(errors, 99)
            hours = max(mean(result.counted["jct_s"].dropna().to_numpy()), 1.0) / HOUR_S
            axes.scatter([hours], [error], label=name)
            axes.annotate(name, (hours, error), xytext=(4, 4), textcoords="offset points", fontsize="small")
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(bottom=-0.05)
        axes.set_xlabel("mean JCT (h)")
        axes.set_ylabel(f"{label} prediction error (%{_by(results)})")
        axes.grid(visible=True, alpha=0.3)
        axes.margins(x=0.2, y=0.15)
    return figure


def _by(results: Mapping[str, SimulationResult]) -> str:
    """What ends were predicted by, where the results say it."""
    said = sorted(
        {str(each.summary["predict_by"]) for each in results.values() if "predict_by" in each.summary}
    )
    return f"; by {' and '.join(said)}" if said else ""


def _cdf(values_of: Mapping[str, np.ndarray], label: str) -> Figure:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, unsorted in values_of.items():
        values = np.sort(unsorted)
        share = np.arange(1, len(values) + 1) / max(1, len(values)) * 100
        kept = np.unique(np.linspace(0, len(values) - 1, POINTS).astype(int)) if len(values) else slice(0)
        axes.step(values[kept], share[kept], where="post", label=name)
    axes.set_xlabel(label)
    axes.set_ylabel("jobs (%)")
    axes.set_ylim(0, 100)
    axes.grid(visible=True, alpha=0.3)
    _name_lines(axes)
    return figure


def _linear_up_to_1(figure: Figure) -> Figure:
    """Have its axis of values begin at 0, linear up to 1 and logarithmic beyond."""
    figure.axes[0].set_xscale("symlog", linthresh=1.0)
    figure.axes[0].set_xlim(left=0)
    return figure


def waits_by_cause(waits: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw the mean queuing delay (h) of each policy, stacked by cause."""
    figure = Figure(figsize=(8, 1.5 + 0.4 * len(waits)), layout="constrained")
    axes = figure.add_subplot()
    names = list(waits)
    left = np.zeros(len(names))
    for cause, column in CAUSE_COLUMNS.items():
        hours = np.array([waits[name][column] for name in names]) / HOUR_S
        axes.barh(names, hours, left=left, label=CAUSE_NAMES[cause])
        left += hours
    axes.invert_yaxis()
    axes.set_xlabel("mean queuing delay (h)")
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(title="waited for", fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def usage_over_time(
    usage: Mapping[str, Usage],
    cluster: ClusterSpec | None = None,
    changes: Sequence[ClusterChange] = (),
    *,
    from_s: float = 0.0,
) -> Figure:
    """Draw GPUs in use and waiting jobs over time (days), a line a policy; means over equal bins.

    The picture begins at `from_s`, where warm-up is over, and ends when no policy has more than 1 % of its
    work left: what remains is a few long jobs.
    """
    figure = Figure(figsize=(9, 5), layout="constrained")
    busy, queue = figure.subplots(2, 1, sharex=True)
    end_s = max((most_done_s(each.at_s, each.gpus_in_use) for each in usage.values()), default=0.0) or 1.0
    edges = np.linspace(from_s, max(end_s, from_s + 1.0), POINTS // 2)
    for name, each in usage.items():
        for axes, values in ((busy, each.gpus_in_use), (queue, each.waiting_jobs)):
            axes.stairs(
                binned(each.at_s, values, edges),
                (edges - from_s) / DAY_S,
                baseline=None,
                label=name,
                linewidth=1,
            )
    if cluster is not None:
        at_s, gpus = _size_over_time(cluster, changes, end_s)
        at_days = np.maximum(0.0, np.array(at_s) - from_s) / DAY_S
        busy.step(at_days, gpus, where="post", color="0.4", linestyle=":", label="cluster")
    busy.set_ylabel("GPUs in use")
    busy.set_ylim(bottom=0)
    queue.set_ylabel("waiting jobs")
    queue.set_ylim(bottom=0)
    queue.set_xlabel("days from the first submission")
    for axes in (busy, queue):
        axes.grid(visible=True, alpha=0.3)
    _name_lines(busy)
    return figure


def _size_over_time(
    cluster: ClusterSpec, changes: Sequence[ClusterChange], end_s: float
) -> tuple[list[float], list[int]]:
    """All GPUs of the virtual clusters as a step function; failures are left out."""
    nodes = dict(cluster.virtual_clusters)
    at_s, gpus = [0.0], [cluster.gpus_with(nodes)]
    for change in sorted(changes, key=lambda change: change.at_s):
        if isinstance(change, SizeChange) and change.at_s < end_s:
            nodes[change.virtual_cluster] = change.nodes
            at_s.append(max(0.0, change.at_s))
            gpus.append(cluster.gpus_with(nodes))
    return [*at_s, end_s], [*gpus, gpus[-1]]


def queuing_delay_by_virtual_cluster(results: Mapping[str, SimulationResult]) -> Figure:
    """Draw the mean queuing delay (h) of the virtual clusters that queue most, and of all (Figure 9)."""
    means = {
        name: result.counted.groupby("virtual_cluster", sort=True)["queuing_delay_s"].mean()
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
        heights = [float(means[name].get(cluster, 0.0)) / HOUR_S for cluster in shown]
        heights.append(mean(result.counted["queuing_delay_s"].to_numpy()) / HOUR_S)
        axes.bar(positions + (i - (len(results) - 1) / 2) * width, heights, width, label=name)
    axes.set_xticks(positions, [*shown, "all"], rotation=30, ha="right")
    axes.set_ylabel("mean queuing delay (h)")
    axes.grid(visible=True, axis="y", alpha=0.3)
    _name_lines(axes)
    return figure


def _name_lines(axes: Axes) -> None:
    axes.legend(title="policy", fontsize="small")
