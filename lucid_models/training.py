"""Data in, a registered model version out: fit, measure beside naive rivals, log, register.

Metrics come from a fit on everything before the validation tail, judged on the tail; the version that is
registered is fitted again on all data until `train_until`. The same data and seed give the same file, and an
identical file of the same data is not registered twice: its run is logged, its version is used again.
"""

from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.busy_days import BusyDays
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.duration.heads import pairs_sentence
from lucid_models.duration.levels import level_rows
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel, job_mappings
from lucid_models.evaluation.duration import DurationTest
from lucid_models.evaluation.measures import Row
from lucid_models.evaluation.packing import evaluate_packing
from lucid_models.evaluation.throughput import evaluate_throughput
from lucid_models.explanation.model_card import CardFacts
from lucid_models.packing.model import FEATURES, PackingAnalyzeModel, PackingSettings
from lucid_models.series.training import EXAMPLE_BINS, FittedSeries, train_series
from lucid_models.serving_frames import DURATION as DURATION_FRAME
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
from lucid_models.throughput.scorer import SERIES, ThroughputForecasts
from lucid_models.training_data import (
    TrainingTable,
    profile_dataset,
    read_training_jobs,
    read_training_throughput,
)
from lucid_models.training_log import (
    Metrics,
    TrainedModel,
    TrainReport,
    log_card,
    log_tags,
    register_model,
)

# Beyond this many jobs older ones add little: the statistics decay with a half-life of days.
MAX_JOBS = 500_000
# Of an evaluation's rows; what is left out are costs, which differ from run to run.
DURATION_METRICS = (
    "kendall_tau",
    "spearman",
    "mae_log10",
    "r2_mean_head",
    "coverage_p50",
    "coverage_p90",
    "negative_share",
)
_EXAMPLE_ROWS = 5


def train_packing(
    *,
    solo: pd.DataFrame,
    pairs: pd.DataFrame,
    tracking_uri: str,
    cluster: str | None = None,
    seed: int = 0,
    settings: PackingSettings | None = None,
    progress: Progress = silent,
) -> TrainReport:
    """Train and register the Packing Analyze Model from solo and pair profiles: the tree, and with the
    settings' kind "pairwise" the model of pairs beside it. `cluster`: the one with those GPUs, if any.

    Measured by leaving out one configuration at a time, and every configuration of one model at a time (the
    model of pairs by the latter alone). Its metrics are named PROTOCOL_..., of pairs: pairwise_PROTOCOL_...
    Raises BadInputError for tables that are too small to learn from, ServiceUnavailableError when MLflow does
    not answer.
    """
    packing_settings = replace(settings or PackingSettings(), seed=seed)
    rows = evaluate_packing(
        solo,
        pairs,
        packing_settings,
        models=("tree", "majority_class", "nearest_neighbour"),
        progress=progress,
    )
    own = ("tree", packing_settings.kind)
    if packing_settings.kind == "pairwise":
        rows += evaluate_packing(
            solo,
            pairs,
            packing_settings,
            models=("pairwise", "utilisation_sum_learned"),
            protocols=("leave_model_out",),
            progress=progress,
        )
    metrics: Metrics = {}
    baselines: dict[str, Metrics] = {}
    for row in rows:
        measures = {
            f"{row['protocol']}_{name}": float(value)
            for name, value in row.items()
            if name not in ("model", "protocol", "fit_s", "predict_ms")
            and isinstance(value, int | float)
            and np.isfinite(value)
        }
        if row["model"] in own:
            prefix = "" if row["model"] == "tree" else f"{row['model']}_"
            metrics |= {f"{prefix}{name}": value for name, value in measures.items()}
        else:
            baselines.setdefault(str(row["model"]), {}).update(measures)
    model = PackingAnalyzeModel(packing_settings).fit(solo, pairs)
    simulated = bool(_flags(solo).any() or _flags(pairs).any())
    dataset = profile_dataset(solo, pairs)
    example = solo[list(FEATURES)].head(_EXAMPLE_ROWS).astype("float64").reset_index(drop=True)
    local = model.explain_local(example.iloc[0].tolist())
    if model.pairwise is not None:
        local["pair"] = model.explain_pair(example.iloc[0].tolist(), example.iloc[-1].tolist())
    trained = TrainedModel(
        kind="packing",
        document=model.to_data(),
        dataset=dataset,
        params=asdict(packing_settings),
        metrics=metrics,
        baselines=baselines,
        card=CardFacts(
            kind="packing",
            data=dataset.source,
            training_window="all measured configurations",
            test_window="the configurations left out in turn",
            split="leave one configuration out (loo), leave one model out (leave_model_out)",
            metrics=metrics,
            baselines=baselines,
            rows={
                "solo_profiles": len(solo),
                "of_these_in_no_pair": model.training["without_pairs"],
                "measured_pairs": len(pairs),
            },
            simulated=simulated,
        ),
        example=example,
        explained={"": model.explain_global(), **model.explain_pairs()},
        local=local,
        tags={
            "simulated_profiles": str(simulated).lower(),
            **({} if cluster is None else {"cluster": cluster}),
        },
    )
    return register_model(trained, tracking_uri, seed)


def train_throughput(
    *,
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    train_until: datetime | None = None,
    seed: int = 0,
    settings: ThroughputSettings | None = None,
    progress: Progress = silent,
) -> TrainReport:
    """Train and register the Throughput Predict Model: jobs and GPUs submitted per bin, in one version.

    Raises BadInputError when the history is too short, NotFoundError when the lake lacks it,
    ServiceUnavailableError when MLflow does not answer.
    """
    base = settings or ThroughputSettings()
    chosen = replace(base, boosting=replace(base.boosting, seed=seed))
    data = read_training_throughput(lake_uri, cluster, train_until)

    def fit() -> FittedSeries:
        models = {series: ThroughputPredictModel(chosen).fit(data.table, series) for series in SERIES}
        forecasts = ThroughputForecasts({series: model.scorer for series, model in models.items()})
        recent = data.table.iloc[-EXAMPLE_BINS:].reset_index(drop=True)
        jobs = models["submitted_gpu_jobs"]
        return FittedSeries(
            forecasts.to_data(),
            {**asdict(chosen), "bin_s": int(data.table["bin_s"].iloc[0])},
            _throughput_example(recent),
            {series: model.explain_global() for series, model in models.items()},
            jobs.explain_local(jobs.features_of(recent).iloc[-1]),
            {"bins": len(data.table)},
            {},
            _blend_notes(forecasts),
        )

    return train_series(
        "throughput",
        data,
        lambda: _throughput_metrics(data, chosen),
        fit,
        cluster=cluster,
        tracking_uri=tracking_uri,
        seed=seed,
        progress=progress,
    )


def train_duration(
    *,
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    train_until: datetime | None = None,
    seed: int = 0,
    max_jobs: int = MAX_JOBS,
    settings: DurationSettings | None = None,
    progress: Progress = silent,
) -> TrainReport:
    """Train and register the Workload Estimate Model from jobs submitted, and run times known, by
    `train_until`.

    Raises BadInputError when too few jobs ended, NotFoundError when the lake lacks the cluster,
    ServiceUnavailableError when MLflow does not answer.
    """
    base = settings or DurationSettings()
    duration_settings = replace(
        base,
        log_boosting=replace(base.log_boosting, seed=seed),
        mean_boosting=replace(base.mean_boosting, seed=seed),
    )
    data = read_training_jobs(lake_uri, cluster, train_until, max_jobs=max_jobs)
    model, rows = _measured_duration(data, duration_settings, progress)
    metrics, baselines, unconstrained = _duration_metrics(rows)
    model.learn_all(progress)
    progress(0, None, "logging")
    card = log_card("duration", data, metrics, baselines, {"jobs": len(data.table)})
    pairs = pairs_sentence(model.scorer.training["pairs"])
    trained = TrainedModel(
        kind="duration",
        document=model.to_data(),
        dataset=data.dataset,
        params={**asdict(duration_settings), "max_jobs": max_jobs},
        metrics=metrics | {f"before_monotone/{name}": value for name, value in unconstrained.items()},
        baselines=baselines,
        card=replace(
            card,
            notes=(*card.notes, *([pairs] if pairs else [])),
            monotone=model.scorer.training["monotone"],
            unconstrained=unconstrained,
            levels=level_rows(model.scorer.training["levels"]),
        ),
        example=_duration_example(data.table),
        explained={"": model.explain_global()},
        local=model.explain_local(data.table.iloc[-1]),
        tags=log_tags(data, cluster),
    )
    return register_model(trained, tracking_uri, seed)


def _blend_notes(forecasts: ThroughputForecasts) -> tuple[str, ...]:
    """How far each series' forecasts lean on naive ones, for the card."""
    return tuple(
        f"Forecasts of {series.replace('_', ' ')} are {scorer.blend.sentence()}, as the newest "
        f"{scorer.blend.busy.bins + scorer.blend.silent.bins} bins of the history chose."
        for series, scorer in forecasts.scorers.items()
    )


def _throughput_metrics(
    data: TrainingTable, settings: ThroughputSettings
) -> tuple[Metrics, dict[str, Metrics]]:
    table, tail_days = data.table, max(1, round(data.tail_days))
    rows = evaluate_throughput(
        table, test_days=tail_days, leads=(f"g{settings.lead_bins}",), settings=settings
    )
    metrics: Metrics = {}
    baselines: dict[str, Metrics] = {}
    for row in rows:
        # A young cluster has no same hour of last week to be measured by.
        if row["mae"] is not None and np.isfinite(row["mae"]):
            target = metrics if row["model"] == "ebm" else baselines.setdefault(str(row["model"]), {})
            target[f"{row['series']}_mae"] = float(row["mae"])
    return metrics, baselines


def _measured_duration(
    data: TrainingTable, settings: DurationSettings, progress: Progress
) -> tuple[WorkloadEstimateModel, list[Row]]:
    """The model, learned from what came before the test window, and what it said in the window."""
    has_duration = data.table["duration_s"].notna()
    # A job that ran past the end of the window has no run time that a model of that day could be judged by.
    ended = pd.to_datetime(data.table["end_time"], utc=True).fillna(
        data.table["submit_time"] + pd.to_timedelta(data.table["duration_s"], unit="s")
    )
    judged = data.table[has_duration & (ended <= data.until)]
    submitted = pd.to_datetime(judged["submit_time"], utc=True)
    train_days = (
        0.0
        if judged.empty
        else BusyDays(submitted.dt.date.unique()).between(submitted.iloc[0].to_pydatetime(), data.tail_start)
    )
    test = DurationTest(judged, train_days)
    model, _ = test.measure(settings, progress, log=data.table, known_until=data.until)
    return model, test.rows()


def _duration_metrics(rows: Iterable[Row]) -> tuple[Metrics, dict[str, Metrics], Metrics]:
    """On the test window: the model's metrics, its rivals', and its own before the monotone constraints."""
    metrics: Metrics = {}
    free: Metrics = {}
    baselines: dict[str, Metrics] = {}
    for row in rows:
        measures = {
            name: float(value)
            for name, value in row.items()
            if name in DURATION_METRICS and value is not None and np.isfinite(value)
        }
        if row["model"] == "ebm":
            metrics = measures | {"test_jobs": float(row["jobs"])}
        elif row["model"] == "ebm_unconstrained":
            free = measures
        else:
            baselines[str(row["model"])] = measures
    return metrics, baselines, free


def _throughput_example(recent: pd.DataFrame) -> pd.DataFrame:
    starts = pd.to_datetime(recent["bin_start"], utc=True).astype("datetime64[s, UTC]").astype("int64")
    # Only the longest run of bins without a gap can be served.
    steps = np.flatnonzero(np.diff(starts) != int(recent["bin_s"].iloc[0]))
    first = int(steps[-1]) + 1 if steps.size else 0
    counts = {series: recent[series].astype("float64") for series in SERIES}
    return pd.DataFrame({"bin_start_s": starts, **counts}).iloc[first:].reset_index(drop=True)


def _duration_example(table: pd.DataFrame) -> pd.DataFrame:
    jobs = pd.DataFrame(job_mappings(table.tail(_EXAMPLE_ROWS)))
    columns: dict[str, Any] = {}
    for name, (kind, required) in DURATION_FRAME.inputs.items():
        values = jobs.get(name, pd.Series([None] * len(jobs)))
        if required or values.notna().all():
            kinds: dict[str, Any] = {"string": "str", "long": "int64", "double": "float64"}
            columns[name] = values.astype(kinds[kind])
    return pd.DataFrame(columns)


def _flags(table: pd.DataFrame) -> "pd.Series[bool]":
    if "simulated" not in table.columns:
        raise BadInputError(
            "A profile table lacks the column 'simulated'.",
            remedy="Read it with profiler_jobs.profile_table, which says where it was measured.",
        )
    return table["simulated"].astype(bool)
