"""The figures of a what-if: each variant's means with intervals, by virtual cluster, and the changes.

Intervals are of a block bootstrap: whole days of one virtual cluster are drawn again and again, the same ones
for all variants (`simulator.gate.bootstrap`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.studies.sweeps.kept_jobs import ROW
from pipeline.studies.wait_target import Resampling, interval_of
from simulator.gate.bootstrap import Interval, paired_mean_change
from simulator.job_view import RunState

MOST_VIRTUAL_CLUSTERS = 60
WITHDRAWN = RunState.CANCELLED.value  # it left the queue without a run, as in its log
METRICS = {"mean_jct_s": "jct_s", "mean_queuing_delay_s": "queuing_delay_s"}
_RESAMPLING = Resampling()


def completed_gpu_jobs(waits: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that figures are of, as a summary's are: GPU jobs that ran to their end."""
    ran = (waits["state"] != WITHDRAWN) & np.isfinite(waits["jct_s"])
    completed: pd.DataFrame = waits[(waits["gpus"] > 0) & ran]
    return completed


def variant_figures(waits: pd.DataFrame) -> dict[str, Any]:
    """Return means with intervals, percentiles of waits and counts of completed GPU jobs."""
    blocks = _blocks(waits)
    delay_s = waits["queuing_delay_s"].to_numpy(dtype=np.float64)
    figures: dict[str, Any] = {"jobs": len(waits), "waited_jobs": int((delay_s > 0).sum())}
    for metric, column in METRICS.items():
        figures |= _mean(metric, waits[column].to_numpy(dtype=np.float64), blocks)
    for percent in (50, 95, 99):
        figures[f"p{percent}_queuing_delay_s"] = (
            float(np.percentile(delay_s, percent)) if len(waits) else None
        )
    figures["longest_wait_s"] = float(delay_s.max()) if len(waits) else None
    figures["preemptions"] = int(waits["preemptions"].sum())
    return figures


def _mean(metric: str, values: NDArray[np.float64], blocks: NDArray[np.int64]) -> dict[str, Any]:
    if not len(values):
        return {metric: None, f"{metric}_low": None, f"{metric}_high": None}
    interval = interval_of("mean", values, blocks, _RESAMPLING)
    return {metric: float(values.mean()), f"{metric}_low": interval.low, f"{metric}_high": interval.high}


def change_figures(waits: pd.DataFrame, reference: pd.DataFrame) -> dict[str, Any]:
    """Return how both means differ from a reference's, in per cent, over the jobs that both replayed.

    `outcome`: "better" or "worse" where the interval leaves no other, else "may be chance".
    """
    both = waits.merge(reference, on=ROW, suffixes=("", "_reference"))
    if both.empty:
        return {}
    blocks = _blocks(both)
    figures: dict[str, Any] = {"jobs": len(both)}
    for metric, column in METRICS.items():
        new, old = (both[name].to_numpy(dtype=np.float64) for name in (column, f"{column}_reference"))
        change = paired_mean_change(new, old, blocks, resamples=_RESAMPLING.resamples, seed=_RESAMPLING.seed)
        relative = change.relative_pct
        figures[metric] = {
            "difference_s": change.difference.point,
            "change_pct": None if relative is None else relative.point,
            "low_pct": None if relative is None else relative.low,
            "high_pct": None if relative is None else relative.high,
            "outcome": _outcome(change.difference),
        }
    return figures


def _outcome(difference: Interval) -> str:
    if not difference.point and not difference.low and not difference.high:
        return "the same"
    if difference.low is None or difference.high is None or not difference.reliable:
        return "may be chance"
    return "better" if difference.high < 0 else "worse" if difference.low > 0 else "may be chance"


def virtual_cluster_figures(tables: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Return a row a virtual cluster and variant: its jobs, and both means with intervals.

    The virtual clusters with the most jobs of all tables (by variant) first, MOST_VIRTUAL_CLUSTERS of them.
    """
    named = pd.concat([table["virtual_cluster"] for table in tables.values()])
    counts = named.value_counts()
    ordered = sorted(counts.index, key=lambda name: (-int(counts[name]), name))[:MOST_VIRTUAL_CLUSTERS]
    rows = []
    for name in ordered:
        for variant, table in tables.items():
            mine = table[table["virtual_cluster"] == name]
            blocks = _blocks(mine)
            row: dict[str, Any] = {"virtual_cluster": name, "variant": variant, "jobs": len(mine)}
            for metric, column in METRICS.items():
                row |= _mean(metric, mine[column].to_numpy(dtype=np.float64), blocks)
            rows.append(row)
    return rows


def _blocks(waits: pd.DataFrame) -> NDArray[np.int64]:
    names: Sequence[str] = waits["virtual_cluster"].tolist()
    return _RESAMPLING.blocks(
        waits["submit_time_s"].to_numpy(dtype=np.float64), np.asarray(names, dtype=object)
    )
