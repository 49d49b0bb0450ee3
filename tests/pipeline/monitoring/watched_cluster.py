"""Two virtual clusters of a synthetic log, a release that learned from three weeks of it, and a week more."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs.job_table import derive_throughput
from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import FIRST_DAY, synthesize
from lucid_models.boosting import BoostingSettings
from lucid_models.duration.level_search import LevelSearchSettings
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.evaluation.baselines import throughput_baselines
from lucid_models.evaluation.measures import duration_metrics
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
from lucid_models.throughput.scorer import SERIES, ThroughputForecasts
from pipeline.monitoring.monitor import WatchedRelease

CLUSTER = "watched"
TRAINED_DAYS, TAIL_DAYS, LIVE_DAYS = 21, 5, 7
TRAINED_UNTIL = FIRST_DAY + timedelta(days=TRAINED_DAYS)
END = TRAINED_UNTIL + timedelta(days=LIVE_DAYS)
_FAST = BoostingSettings(bags=2, max_rounds=40, max_bins=32, learning_rate=0.2)
THROUGHPUT = ThroughputSettings(
    boosting=BoostingSettings(
        objective="pseudo_huber:delta=1.0", bags=2, max_rounds=40, max_bins=32, learning_rate=0.2
    )
)
DURATION = DurationSettings(
    levels=LevelSearchSettings(trial_jobs=1_500, most_trial_jobs=1_500),
    log_boosting=_FAST,
    mean_boosting=BoostingSettings(objective="gamma_deviance", bags=2, max_rounds=20, max_bins=32),
    pairs=0,
)


@dataclass(frozen=True)
class WatchedCluster:
    """`jobs`: all 28 days. `release`: what was learned from the first 21."""

    jobs: pd.DataFrame
    release: WatchedRelease

    def lake(self, folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame] | None = None) -> str:
        """Write the log to a lake, its last week as `change` makes it."""
        live = self.jobs["submit_time"] >= TRAINED_UNTIL
        week = self.jobs[live] if change is None else change(self.jobs[live].copy())
        jobs = pd.concat([self.jobs[~live], week], ignore_index=True)
        lake = Lake(str(folder))
        lake.write_jobs(CLUSTER, jobs)
        lake.write_throughput(CLUSTER, count_bins(jobs))
        return str(folder)


def count_bins(jobs: pd.DataFrame) -> pd.DataFrame:
    """The throughput of the log's days."""
    table = pa.Table.from_pandas(
        jobs[["submit_time", "start_time", "end_time", "gpus"]], preserve_index=False
    )
    times = {"submit_time", "start_time", "end_time"}
    columns = [
        table.column(name).cast(pa.timestamp("us", tz="UTC")) if name in times else table.column(name)
        for name in table.column_names
    ]
    bins = derive_throughput([pa.table(columns, names=table.column_names)]).to_pandas()
    return bins[bins["bin_start"] < END].reset_index(drop=True)


@cache
def watched_cluster(seed: int, virtual_clusters: int = 2) -> WatchedCluster:
    """Make the log and learn from it: validation on the training window's tail, then the final fit.

    Made once a process; no test may change it.
    """
    jobs = synthesize("helios-venus", TRAINED_DAYS + LIVE_DAYS, seed).jobs
    busiest = jobs["virtual_cluster"].value_counts().index
    kept = sorted(busiest[8 : 8 + virtual_clusters])
    jobs = jobs[jobs["virtual_cluster"].isin(kept)].reset_index(drop=True)
    known = jobs[(jobs["end_time"] < TRAINED_UNTIL) & (jobs["submit_time"] < TRAINED_UNTIL)]
    tail = known["submit_time"] >= TRAINED_UNTIL - timedelta(days=TAIL_DAYS)
    early, late = known[~tail], known[tail].reset_index(drop=True)
    judge = WorkloadEstimateModel(DURATION).fit(early).estimate_causal(late, earlier=early)
    truth = late["duration_s"].to_numpy(np.float64)
    scores = duration_metrics(truth, judge["p50_s"].to_numpy(), late["gpus"].to_numpy(np.float64))
    scores["coverage_p90"] = float((truth <= judge["p90_s"]).mean())
    trained = jobs[jobs["submit_time"] < TRAINED_UNTIL]
    bins = count_bins(jobs)
    before = bins[bins["bin_start"] < TRAINED_UNTIL]

    def learn(table: pd.DataFrame, series: str) -> ThroughputPredictModel:
        return ThroughputPredictModel(THROUGHPUT).fit(table, series)

    counts = {}
    recent = (before["bin_start"] >= TRAINED_UNTIL - timedelta(days=TAIL_DAYS)).to_numpy()
    for series, short in (("submitted_gpu_jobs", "jobs"), ("submitted_gpus", "gpus")):
        seen = before[series].to_numpy(np.float64)
        naive = throughput_baselines(seen, 5, 600)["rolling_median_12"]
        forecast = learn(before[~recent], series).predict(before)
        counts[f"{short}_mae"] = float(np.abs(forecast - seen)[recent].mean())
        counts[f"baseline/rolling_median_12/{short}_mae"] = float(np.abs(naive - seen)[recent].mean())
    models = SimpleNamespace(
        duration=WorkloadEstimateModel(DURATION).fit(trained, known_until=TRAINED_UNTIL),
        throughput=ThroughputForecasts({series: learn(before, series).scorer for series in SERIES}),
        packing=None,
        forecasts={},
        # Without a bound on overtaking wrong beliefs do all the harm that they can, and true ones do best.
        manifest=SimpleNamespace(policy="lucid", settings={"overtaking_bound_s": 0.0}, parts={}),
    )
    validation = {"duration": scores, "throughput": counts, "packing": {}}
    release = WatchedRelease(1, "champion", models, FIRST_DAY, TRAINED_UNTIL, validation, "")
    return WatchedCluster(jobs, release)


def as_of(days: float) -> datetime:
    """So many days after training."""
    return (TRAINED_UNTIL + timedelta(days=days)).astimezone(UTC)
