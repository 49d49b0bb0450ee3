"""How far live estimates and forecasts lie from what happened, beside naive rivals and validation.

Each finished job is estimated as it would have been at its submission, by the release under watch: its
statistics learn of jobs as they end, its shape functions stay as they were trained. Judged are the jobs that
*ended* in the window and were submitted after training: among jobs chosen by their submission, the long ones
would still be running and be left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.duration.model import WorkloadEstimateModel, epoch_seconds
from lucid_models.evaluation.baselines import duration_baselines, throughput_baselines
from lucid_models.evaluation.measures import duration_metrics
from lucid_models.evaluation.rival_estimates import known_from_s
from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings, label_configurations
from lucid_models.throughput.model import binned_series
from lucid_models.throughput.scorer import ThroughputForecasts
from pipeline.monitoring.data import DAY_S, MonitoredTables, MonitoredWindow
from pipeline.monitoring.forecast_errors import Change, Floats, ForecastErrors, change_over_days
from pipeline.monitoring.moved_run_times import MovedRunTimes, moved_run_times
from pipeline.monitoring.rules import MonitorSettings
from profiler_jobs.profile_table import ProfileSet

NAIVE_DURATION = ("ewma", "size_alone")  # the first that the log has the columns for
NAIVE_THROUGHPUT = "rolling_median_12"
SERIES_NAMES: Mapping[str, str] = {"submitted_gpu_jobs": "jobs", "submitted_gpus": "gpus"}


@dataclass(frozen=True)
class ErrorOfDay:
    """Mean errors of the rows of one UTC day."""

    day: str
    rows: int
    error: float
    naive_error: float


@dataclass(frozen=True)
class GroupErrors:
    """Errors of estimates over all jobs or a virtual cluster's; None where nothing could be measured.

    `coverage_p50`, `coverage_p90`: the share of jobs that ended within the quantiles as calibrated online.
    """

    name: str
    jobs: int
    mae_log10: float
    kendall_tau: float | None
    coverage_p50: float
    coverage_p90: float
    naive_mae_log10: float


@dataclass(frozen=True)
class DurationHealth:
    """`against_validation`: the live error less the one at validation; `against_naive`: less the rival's on
    the same jobs. `unusable`: estimates that are not finite or not positive. `moved`: virtual clusters whose
    run times have moved.
    """

    overall: GroupErrors | None
    virtual_clusters: tuple[GroupErrors, ...]
    days: tuple[ErrorOfDay, ...]
    naive: str
    validation: Mapping[str, float]
    against_validation: Change | None
    against_naive: Change | None
    coverage: Change | None
    estimated: int
    unusable: int
    note: str = ""
    moved: tuple[MovedRunTimes, ...] = ()


@dataclass(frozen=True)
class SeriesHealth(ForecastErrors):
    """Forecast errors of one throughput series, in jobs or GPUs a bin."""

    series: str
    days: tuple[ErrorOfDay, ...] = ()
    unusable: int = 0


@dataclass(frozen=True)
class PackingHealth:
    """The packing model on measurements that are newer than it; otherwise `note` says "not measured"."""

    configurations: int
    accuracy: float | None
    severe_errors: float | None
    validation_accuracy: float | None
    note: str = ""


def duration_health(
    model: WorkloadEstimateModel,
    tables: MonitoredTables,
    validation: Mapping[str, float],
    settings: MonitorSettings,
) -> DurationHealth:
    """Estimate every job that was submitted after training and judge those that ended in the window."""
    window, later = tables.window, tables.later
    submit_s, end_s = epoch_seconds(later, "submit_time"), known_from_s(later)
    after = submit_s >= window.trained_until.timestamp()
    fresh = later[after].reset_index(drop=True)
    nothing = DurationHealth(None, (), (), NAIVE_DURATION[0], validation, None, None, None, 0, 0)
    if fresh.empty:
        return replace(nothing, note="not measured: no job was submitted since the release learned")
    features = model.features_causal(fresh, earlier=later[~after])
    calibrated = model.quantiles_causal(fresh, features, earlier=later[~after])
    inside = submit_s[after] >= window.start.timestamp()
    moved = moved_run_times(
        fresh[inside],
        submit_s[after][inside],
        (calibrated["p90_offset"].to_numpy(dtype=np.float64) + model.followed(fresh, features))[inside],
        model.scorer.calibration,
        settings.least_jobs_of_a_group,
    )
    p50, p90 = (calibrated[name].to_numpy(dtype=np.float64) for name in ("p50_s", "p90_s"))
    rivals = duration_baselines(features)
    naive = next(name for name in NAIVE_DURATION if name in rivals)
    unusable = ~(np.isfinite(p50) & (p50 > 0) & np.isfinite(p90) & (p90 > 0))
    judged = (end_s[after] >= window.start.timestamp()) & (end_s[after] < window.end.timestamp())
    truth = fresh["duration_s"].to_numpy(dtype=np.float64, na_value=np.nan)
    judged &= (truth > 0) & ~unusable
    counted = DurationHealth(
        None, (), (), naive, validation, None, None, None, len(fresh), int(unusable.sum())
    )
    if not judged.any():
        return replace(counted, note="not measured: no job that was submitted since then has ended")
    table = pd.DataFrame(
        {
            "virtual_cluster": fresh["virtual_cluster"].astype(str),
            "gpus": np.maximum(fresh["gpus"].to_numpy(dtype=np.float64), 1.0),
            "submit_s": submit_s[after],
            "truth": truth,
            "p50": p50,
            "within_p50": truth <= p50,
            "within_p90": truth <= p90,
            "error": log_error(p50, truth),
            "naive_error": log_error(rivals[naive], truth),
        }
    )[judged]
    days = (table["submit_s"].to_numpy() // DAY_S).astype(np.int64)
    error, naive_error = table["error"].to_numpy(), table["naive_error"].to_numpy()
    groups = [
        _group(str(name), part)
        for name, part in table.groupby("virtual_cluster", sort=True)
        if len(part) >= settings.least_jobs_of_a_group
    ]
    enough = len(table) >= settings.least_jobs and len(np.unique(days)) >= settings.least_days
    at_validation = validation.get("mae_log10")
    expected = np.full(len(table), at_validation or 0.0)
    covered = table["within_p90"].to_numpy(dtype=np.float64)
    target = np.full(len(table), 0.9)
    return DurationHealth(
        _group("all", table),
        tuple(groups),
        _by_day(days, error, naive_error),
        naive,
        validation,
        None if at_validation is None or not enough else change_over_days(error, expected, days, settings),
        change_over_days(error, naive_error, days, settings) if enough else None,
        change_over_days(covered, target, days, settings) if enough else None,
        len(fresh),
        int(unusable.sum()),
        ""
        if enough
        else f"too few to decide: {len(table):,} jobs of {len(np.unique(days))} days ended in the window",
        moved,
    )


def throughput_health(
    forecasts: ThroughputForecasts,
    tables: MonitoredTables,
    validation: Mapping[str, float],
    settings: MonitorSettings,
) -> tuple[SeriesHealth, ...]:
    """Forecast each bin of the window from the bins that lie at least the lead before it."""
    return tuple(
        _series_health(forecasts, series, tables.throughput, tables.window, validation, settings)
        for series in SERIES_NAMES
    )


def packing_health(
    model: PackingAnalyzeModel,
    profiles: ProfileSet | None,
    learned_digest: str,
    validation: Mapping[str, float],
) -> PackingHealth:
    """Judge the model on the cluster's profile tables if they changed since it learned."""
    from lucid_models.training_data import profile_dataset

    expected = validation.get("loo_accuracy")
    if profiles is None:
        return PackingHealth(0, None, None, expected, "not measured: the lake holds no profiles")
    if profile_dataset(profiles.solo, profiles.pairs).digest == learned_digest:
        note = "not measured: no pair was measured since the model learned"
        return PackingHealth(0, None, None, expected, note)
    labels = label_configurations(profiles.solo, profiles.pairs, PackingSettings())
    table = profiles.solo.set_index("job_type").loc[list(labels.job_types)].reset_index()
    apart = np.abs(model.predict_table(table) - labels.scores)
    note = "on all measured configurations; those that it learned from are among them"
    return PackingHealth(len(table), float((apart == 0).mean()), float((apart == 2).mean()), expected, note)


def _series_health(
    forecasts: ThroughputForecasts,
    series: str,
    throughput: pd.DataFrame | None,
    window: MonitoredWindow,
    validation: Mapping[str, float],
    settings: MonitorSettings,
) -> SeriesHealth:
    short = SERIES_NAMES[series]
    health = SeriesHealth(series).validated(validation, f"{short}_mae", NAIVE_THROUGHPUT)
    scorer = forecasts.scorer(series)
    if throughput is None or int(throughput["bin_s"].iloc[0]) != scorer.features.bin_s:
        note = "not measured: the lake holds no throughput in bins of the model's length"
        return replace(health, note=note)
    data = binned_series(throughput, series)
    rivals = throughput_baselines(data.counts, scorer.features.lead_bins, data.bin_s)
    forecast = scorer.predict_series(data.counts, data.first_bin_s)
    start_s = data.first_bin_s + data.bin_s * np.arange(data.counts.size, dtype=np.float64)
    inside = (start_s >= window.start.timestamp()) & (start_s + data.bin_s <= window.end.timestamp())
    unusable = inside & ~(np.isfinite(forecast) & (forecast >= 0))
    inside &= ~unusable & ~np.isnan(data.counts) & ~np.isnan(rivals[NAIVE_THROUGHPUT])
    health = replace(health, unusable=int(unusable.sum()))
    if not inside.any():
        return replace(health, note="not measured: the window holds no bin with a known history")
    error = np.abs(forecast - data.counts)[inside]
    naive = np.abs(rivals[NAIVE_THROUGHPUT] - data.counts)[inside]
    days = (start_s[inside] // DAY_S).astype(np.int64)
    health = replace(health, days=_by_day(days, error, naive))
    return health.judged(error, naive, start_s[inside], settings)


def _group(name: str, table: pd.DataFrame) -> GroupErrors:
    truth, size = table["truth"].to_numpy(), table["gpus"].to_numpy()
    tau = duration_metrics(truth, table["p50"].to_numpy(), size)["kendall_tau"]
    return GroupErrors(
        name,
        len(table),
        float(table["error"].mean()),
        tau if np.isfinite(tau) else None,
        float(table["within_p50"].mean()),
        float(table["within_p90"].mean()),
        float(table["naive_error"].mean()),
    )


def _by_day(days: NDArray[np.int64], error: Floats, naive: Floats) -> tuple[ErrorOfDay, ...]:
    return tuple(
        ErrorOfDay(
            datetime.fromtimestamp(int(day) * DAY_S, UTC).date().isoformat(),
            int((days == day).sum()),
            float(error[days == day].mean()),
            float(naive[days == day].mean()),
        )
        for day in np.unique(days)
    )


def log_error(seconds: Floats, truth: Floats) -> Floats:
    """Return the absolute errors of log10 run time, shape (jobs,); both sides count as at least a second."""
    truth_or_one = np.where(np.isnan(truth), 1.0, truth)
    error: Floats = np.abs(np.log10(np.maximum(seconds, 1.0)) - np.log10(np.maximum(truth_or_one, 1.0)))
    return error
