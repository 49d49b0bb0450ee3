"""Measures each model beside its rivals, by the protocols of docs/model_quality.md; rows ready for a table.

All splits are by time (packing: by configuration); rivals read the very same history as the model.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.errors import BadInputError
from cluster_logs.progress import Progress, silent
from lucid_models import baselines, black_boxes
from lucid_models.duration import WorkloadEstimateModel, epoch_seconds
from lucid_models.packing_evaluation import evaluate_packing
from lucid_models.throughput import ThroughputPredictModel, binned_series
from lucid_models.throughput_features import DAY_S

__all__ = ["evaluate_duration", "evaluate_packing", "evaluate_throughput"]

Row = dict[str, Any]
Seconds = NDArray[np.float64]
LEADS = {"g5": 5, "g1": 1}
SERIES = {"jobs": "submitted_gpu_jobs", "gpus": "submitted_gpus"}
_PUBLISHED = {"jobs": "pred_gpu_job", "gpus": "pred_gpu_num"}


def evaluate_throughput(
    source: Path | str | pd.DataFrame,
    *,
    test_days: int = 28,
    published: Path | str | pd.DataFrame | None = None,
    leads: tuple[str, ...] = ("g5", "g1"),
    rivals: bool = True,
    progress: Progress = silent,
) -> list[Row]:
    """Rows {series, lead, model, mae, fit_s, predict_ms} on the last `test_days` days of a throughput table.

    `source`: a table by THROUGHPUT_SCHEMA or a CSV in Helios's layout. g5 means that the newest known bin
    lies five bins before the forecast one; never compare across leads. `published`: predictions of the Lucid
    artifact for the test bins (time, pred_gpu_job, pred_gpu_num), listed as lucid_published at g5.
    `rivals=False` leaves out the black boxes, which take most of the time.
    """
    table = source if isinstance(source, pd.DataFrame) else read_throughput_csv(Path(source))
    rows: list[Row] = []
    combinations = [(series, lead) for series in SERIES for lead in leads]
    for done, (series, lead) in enumerate(combinations):
        progress(done, len(combinations), f"{series} at lead {lead}")
        rows += _throughput_rows(table, series, lead, test_days, rivals)
        if published is not None and lead == "g5":
            rows.append(_published_row(table, published, series, test_days))
    progress(len(combinations), len(combinations), "throughput evaluated")
    return rows


def evaluate_duration(
    jobs: pd.DataFrame,
    train_days: float,
    *,
    rivals: bool = True,
    progress: Progress = silent,
) -> list[Row]:
    """Rows {model, kendall_tau, spearman, mae_log10, r2_mean_head, coverage_p90, fit_s, jobs} on later jobs.

    Trained on the jobs submitted in the first `train_days` days, tested on the rest in the order of
    submission; a run time is known only once the job ended. Jobs that never ran (no run time, or zero) are
    left out. Ranks are of GPU time (GPUs x run time), errors of log10 run time, R2 of seconds. The row
    `ebm_unconstrained` is the same model before its monotone constraints.
    """
    ran = jobs[pd.to_numeric(jobs["duration_s"], errors="coerce").astype("Float64").fillna(0) > 0]
    submit = epoch_seconds(ran, "submit_time")
    order = np.argsort(submit, kind="stable")
    ran = ran.iloc[order].reset_index(drop=True)
    early = submit[order] < (submit.min() if len(ran) else 0.0) + train_days * DAY_S
    train, test = ran[early], ran[~early].reset_index(drop=True)
    if len(test) < 10 or len(train) < 10:
        raise BadInputError(
            f"{train_days:g} training days leave {len(train)} jobs to learn from and {len(test)} to test.",
            remedy="Choose --train-days within the log.",
        )
    began = time.perf_counter()
    model = WorkloadEstimateModel().fit(train, progress=progress)
    fit_s = time.perf_counter() - began
    features = model.features_causal(test, earlier=train)
    p50, p90, mean = model.scorer.estimate_rows(features.to_numpy())
    truth = test["duration_s"].to_numpy(dtype=np.float64)
    # A job without a GPU counts as one unit, so that CPU logs are ranked by run time x cores or run time.
    size = np.maximum(test["gpus"].to_numpy(dtype=np.float64), 1.0)

    def row(
        name: str, seconds: NDArray[np.float64], raw: NDArray[np.float64], fit: float, covered: float | None
    ) -> Row:
        return {
            "model": name,
            **duration_metrics(truth, seconds, size),
            "r2_mean_head": r_squared(truth, raw),
            "coverage_p90": covered,
            "fit_s": fit,
            "jobs": len(truth),
        }

    rows = [row("ebm", p50, mean, fit_s, float((truth <= p90).mean()))]
    if model.unconstrained is not None:
        free, free_p90, free_mean = model.unconstrained.estimate_rows(features.to_numpy())
        rows.append(row("ebm_unconstrained", free, free_mean, fit_s, float((truth <= free_p90).mean())))
    naive = baselines.duration_baselines(features)
    rows += [row(name, seconds, seconds, 0.0, None) for name, seconds in naive.items()]
    if rivals:
        rows += _duration_rivals(model, train, features, row, progress)
    return rows


def duration_metrics(
    truth: NDArray[np.float64], seconds: NDArray[np.float64], size: NDArray[np.float64]
) -> dict[str, float]:
    """Kendall's tau-b and Spearman's rank correlation of GPU time, mean absolute error of log10 run time."""
    from scipy.stats import kendalltau, spearmanr

    error = np.abs(np.log10(np.maximum(seconds, 1.0)) - np.log10(np.maximum(truth, 1.0)))
    return {
        "kendall_tau": float(kendalltau(seconds * size, truth * size)[0]),
        "spearman": float(spearmanr(seconds * size, truth * size)[0]),
        "mae_log10": float(error.mean()),
    }


def r_squared(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Coefficient of determination; NaN-free: 0 for a constant truth."""
    total = float(((truth - truth.mean()) ** 2).sum())
    return 1.0 - float(((truth - predicted) ** 2).sum()) / total if total > 0 else 0.0


def read_throughput_csv(path: Path) -> pd.DataFrame:
    """A throughput CSV in Helios's layout as the columns that the model reads; times as they are written."""
    try:
        raw = pd.read_csv(path)
    except (OSError, ValueError, EOFError) as error:
        raise BadInputError(
            f"{path} cannot be read as CSV: {error}.", remedy="Give a throughput CSV."
        ) from error
    names = {"time": "bin_start", "submit_gpu_job": "submitted_gpu_jobs", "submit_gpu_num": "submitted_gpus"}
    missing = [name for name in names if name not in raw.columns]
    if missing:
        raise BadInputError(
            f"{path} lacks the columns {', '.join(missing)}.",
            remedy="Give cluster_throughput.csv in Helios's layout.",
        )
    table = raw[list(names)].rename(columns=names)
    try:
        table["bin_start"] = pd.to_datetime(table["bin_start"], utc=True)
    except ValueError as error:
        raise BadInputError(f"{path} holds a time that cannot be read: {error}.") from error
    gaps = table["bin_start"].sort_values().diff().dt.total_seconds().dropna()
    if gaps.empty or gaps.min() <= 0:
        raise BadInputError(f"{path} holds fewer than two bins, or one bin twice.", remedy="Check the file.")
    table["bin_s"] = int(gaps.min())
    return table


def _throughput_rows(table: pd.DataFrame, series: str, lead: str, test_days: int, rivals: bool) -> list[Row]:
    column, lead_bins = SERIES[series], LEADS[lead]
    start = (
        table["bin_start"].max()
        + pd.Timedelta(seconds=int(table["bin_s"].iloc[0]))
        - pd.Timedelta(days=test_days)
    )
    test = (table["bin_start"] >= start).to_numpy()
    began = time.perf_counter()
    model = ThroughputPredictModel().fit(table[~test], column, lead_bins)
    fit_s = time.perf_counter() - began
    data = binned_series(table, column)
    matrix = model.scorer.features.matrix(data.counts, data.first_bin_s)[data.position]
    truth = table[column].to_numpy(dtype=np.float64)[test]

    def row(name: str, forecast: NDArray[np.float64], fit: float, predict_ms: float) -> Row:
        mae = float(np.nanmean(np.abs(forecast - truth)))
        return {
            "series": series,
            "lead": lead,
            "model": name,
            "mae": mae,
            "fit_s": fit,
            "predict_ms": predict_ms,
        }

    forecast, took_ms = _timed(partial(model.scorer.predict_rows, matrix[test]))
    rows = [row("ebm", forecast, fit_s, took_ms)]
    naive = baselines.throughput_baselines(data.counts, lead_bins, data.bin_s)
    rows += [row(name, values[data.position][test], 0.0, 0.0) for name, values in naive.items()]
    if not rivals:
        return rows
    warm_up = max(model.scorer.features.mean_bins, default=0)
    train = ~test & (data.position >= warm_up) & ~np.isnan(data.counts[data.position])
    for name in black_boxes.available():
        began = time.perf_counter()
        # The forest has no absolute loss within reasonable time; the square root tames the bursts instead.
        root = name == "rf"
        target = data.counts[data.position][train]
        fitted = black_boxes.fit_regressor(
            name, matrix[train], np.sqrt(target) if root else target, loss="l1"
        )
        fit_s = time.perf_counter() - began
        forecast, took_ms = _timed(partial(fitted.predict, matrix[test]))
        rows.append(row(name, np.square(forecast) if root else np.maximum(forecast, 0.0), fit_s, took_ms))
    return rows


def _published_row(
    table: pd.DataFrame, published: Path | str | pd.DataFrame, series: str, test_days: int
) -> Row:
    theirs = published if isinstance(published, pd.DataFrame) else pd.read_csv(published)
    start = table["bin_start"].max() - pd.Timedelta(days=test_days)
    ours = table[table["bin_start"] > start].set_index("bin_start")[SERIES[series]]
    forecast = theirs.assign(time=pd.to_datetime(theirs["time"], utc=True)).set_index("time")[
        _PUBLISHED[series]
    ]
    error = (ours - forecast).abs().dropna()
    return {
        "series": series,
        "lead": "g5",
        "model": "lucid_published",
        "mae": float(error.mean()),
        "fit_s": None,
        "predict_ms": None,
    }


def _duration_rivals(
    model: WorkloadEstimateModel,
    train: pd.DataFrame,
    features: pd.DataFrame,
    row: Callable[..., Row],
    progress: Progress,
) -> list[Row]:
    """Black boxes on the features of the training jobs, and Helios's mix of its rolling estimate with one."""
    matrix, logarithm = model.training_rows(train)
    rows: list[Row] = []
    test = features.to_numpy()
    seconds: dict[str, NDArray[np.float64]] = {}
    fit: dict[str, float] = {}
    for name in black_boxes.available():
        progress(0, None, f"fitting {name}")
        began = time.perf_counter()
        log_box = black_boxes.fit_regressor(name, matrix, logarithm)
        raw_box = black_boxes.fit_regressor(name, matrix, np.exp(logarithm))
        fit[name] = time.perf_counter() - began
        seconds[name] = np.exp(np.clip(log_box.predict(test), 0.0, 20.0))
        rows.append(row(name, seconds[name], np.maximum(raw_box.predict(test), 1.0), fit[name], None))
    box = black_boxes.available()[0]
    share = baselines.HELIOS_LAMBDA
    mixed = share * baselines.helios_rolling(features) + (1.0 - share) * seconds[box]
    rows.append(row("helios_mix", mixed, mixed, fit[box], None))
    return rows


def _timed(call: Callable[[], NDArray[np.float64]], repeats: int = 5) -> tuple[NDArray[np.float64], float]:
    """The result and the median time in milliseconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = call()
        times.append(1e3 * (time.perf_counter() - began))
    return result, float(np.median(times))
