"""The throughput model on other clusters and on short histories: a table of docs/model_quality.md.

`lucid evaluate all` measures it with the rest, alone
`python -m experiments.model_quality.throughput_clusters DATA --write PAGE`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.job_table import derive_throughput, to_frame
from cluster_logs.synthetic.generator import synthesize
from experiments.model_quality import black_boxes
from experiments.model_quality.inputs import read_throughput
from experiments.model_quality.verdicts import verdict
from experiments.pages import run_study
from foundation.markdown import NO_VALUE, markdown_frame, number
from foundation.progress import Progress, silent
from lucid_models.evaluation.measures import Floats, Row
from lucid_models.evaluation.throughput import ThroughputTest, measured_tests

PHILLY = "data/philly/philly_jobs.csv.gz"
GRAHAM = "data/drac_slurm/graham_jobs.csv.gz"
SERVEGEN = "data/lyra/servegen_rates_10min.csv.gz"
FILES = (PHILLY, GRAHAM, SERVEGEN)
LEAD = "g5"
BIN_S = 600
DAY_BINS = 86_400 // BIN_S
TRAIN_DAYS = (3, 14, None)  # None: all that lies before the test
# Philly's log holds a few jobs a day before 25 September and next to none from 13 to 19 December.
PHILLY_BUSY = (pd.Timestamp("2017-09-25", tz="UTC"), pd.Timestamp("2017-12-13", tz="UTC"))
SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED = "helios-venus", 42, 5
MEDIAN = "rolling_median_12"


@dataclass(frozen=True)
class MeasuredCluster:
    """A throughput table, what its two series are called, and how many of its last days are the test."""

    name: str
    table: pd.DataFrame
    titles: tuple[str, str]
    test_days: int = 14


def measured_clusters(data: Path) -> Iterator[MeasuredCluster]:
    """Yield each cluster; `data` is the folder of the public data."""
    philly = read_throughput(str(data / PHILLY), "philly-csv", time_zone="UTC")
    starts = philly["bin_start"]
    titles = ("GPU jobs", "GPUs")
    busy = philly[(starts >= PHILLY_BUSY[0]) & (starts < PHILLY_BUSY[1])].reset_index(drop=True)
    yield MeasuredCluster("Philly", busy, titles)
    yield MeasuredCluster("Philly with its silence", philly, titles)
    yield MeasuredCluster("Graham", _graham(data / GRAHAM), ("GPU jobs", "all jobs"))
    made = synthesize(SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED).jobs
    yield MeasuredCluster("synthetic Venus", _counted(made["submit_time"], made["gpus"]), titles)
    yield MeasuredCluster("ServeGen", _servegen(data / SERVEGEN), ("m_small", "m_large"), 4)


def measure_clusters(data: Path, progress: Progress = silent) -> list[Row]:
    """Rows {cluster, series, train_days, weights, mae, median, naive, ...}."""
    rows: list[Row] = []
    for cluster in measured_clusters(data):
        last = None
        for train_days in TRAIN_DAYS:
            bins = None if train_days is None else (train_days + cluster.test_days) * DAY_BINS
            table = cluster.table if bins is None else cluster.table.iloc[-bins:].reset_index(drop=True)
            if len(table) == last:
                continue
            last = len(table)
            tests = measured_tests(table, test_days=cluster.test_days, leads=(LEAD,), progress=progress)
            for test, model in tests:
                _add_lightgbm(test, model.features_of(table).to_numpy())
                rows.append(
                    {
                        "cluster": cluster.name,
                        "series": cluster.titles[0 if test.series == "jobs" else 1],
                        "train_days": last / DAY_BINS - cluster.test_days,
                        "weights": model.scorer.blend.busy.weights,
                        "by_model": {row["model"]: row for row in test.result()},
                    }
                )
    return rows


def cluster_table(rows: Sequence[Row]) -> dict[str, str]:
    """Return the table, by the name of its markers."""
    return {"throughput_clusters": markdown_frame(pd.DataFrame([_shown(row) for row in rows]))}


def tables(data: Path) -> dict[str, str]:
    """Return the table alone."""
    return cluster_table(measure_clusters(data))


def _shown(row: Row) -> dict[str, str]:
    by_model = row["by_model"]
    # A naive forecast that lacks bins, such as those after unknown ones, is compared on those that it has.
    naive = {
        name: measured["worse_by"]
        for name, measured in by_model.items()
        if name not in ("ebm", "lightgbm") and measured["worse_by"] is not None
    }
    best = min(naive, key=lambda name: (naive[name], name))
    lightgbm = by_model.get("lightgbm", {}).get("mae")
    amount = partial(_amount, by_model["ebm"]["mae"])
    return {
        "cluster": row["cluster"],
        "series": row["series"],
        "trained on, days": f"{row['train_days']:.0f}",
        "learned / median / newest": " / ".join(f"{weight:.0%}" for weight in row["weights"]),
        "ours": amount(by_model["ebm"]["mae"]),
        "median of 12": amount(by_model[MEDIAN]["mae"]),
        "against the median": verdict(by_model[MEDIAN]),
        "best naive": f"{amount(by_model[best]['mae'])} ({best})",
        "against it": verdict(by_model[best]),
        "LightGBM, our features": NO_VALUE if lightgbm is None else amount(lightgbm),
    }


def _amount(scale: float, value: float) -> str:
    return number(value, 3) if scale < 1_000 else f"{value:,.0f}"


def _add_lightgbm(test: ThroughputTest, features: Floats) -> None:
    train = ~test.rows & (test.data.position >= DAY_BINS // 4) & ~np.isnan(test.counts)
    if "lightgbm" in black_boxes.available():
        box = black_boxes.fit_regressor("lightgbm", features[train], test.counts[train], loss="l1")
        test.add("lightgbm", np.maximum(box.predict(features[test.rows]), 0.0), None, None)


def _graham(path: Path) -> pd.DataFrame:
    """Graham's submissions, on its own clock; the column of GPUs holds the jobs of all kinds."""
    log = pd.read_csv(path, usecols=["submit_time", "gpus"])
    table = _counted(pd.to_datetime(log["submit_time"]).dt.tz_localize("UTC"), log["gpus"])
    return table.assign(submitted_gpus=table["submitted_jobs"])


def _counted(submitted: pd.Series, gpus: pd.Series) -> pd.DataFrame:
    """The throughput until the last submission: starts and ends are left unknown."""
    at = submitted.astype("datetime64[us, UTC]")
    unknown = pd.Series(pd.NaT, index=at.index, dtype=at.dtype)
    jobs = {"submit_time": at, "start_time": unknown, "end_time": unknown, "gpus": gpus.astype("int64")}
    return to_frame(derive_throughput([pa.Table.from_pandas(pd.DataFrame(jobs))]))


def _servegen(path: Path) -> pd.DataFrame:
    """Requests per ten minutes of two models; a rate of zero is a gap."""
    rates = pd.read_csv(path)
    start = pd.Timestamp("2025-01-06", tz="UTC")  # the day is not published, and nothing else reads it
    requests = {name: (rates[name] * BIN_S).where(rates[name] > 0) for name in ("m_small", "m_large")}
    return pd.DataFrame(
        {
            "bin_start": start + pd.to_timedelta(rates["time_s"], unit="s"),
            "bin_s": BIN_S,
            "submitted_gpu_jobs": requests["m_small"],
            "submitted_gpus": requests["m_large"],
        }
    )


if __name__ == "__main__":
    run_study("experiments.model_quality.throughput_clusters", __doc__, tables)
