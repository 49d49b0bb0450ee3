"""Inference load in, a registered version of the inference load model out, and a forecast of it explained."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from cluster_logs.lake import Lake
from foundation.progress import Progress, silent
from lucid_models.series.training import FittedSeries, ended_bins, example_bins, train_series
from lucid_models.training_data import TrainingTable, read_training_series
from lucid_models.training_log import Metrics, TrainReport, measures_by_model
from parts.lending.load.series import InferenceSeries, read_inference_series
from parts.lending.usage.evaluation import OURS, evaluate_inference_load
from parts.lending.usage.features import WINDOW_BINS
from parts.lending.usage.fitting import LEAST_BINS, LoadSettings
from parts.lending.usage.model import InferenceLoadModel
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel, refuse_jobs
from pipeline.training.model_steps import LearnedFrom, ModelSteps, TrainingTask


def train_inference_load(
    *,
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    train_until: datetime | None = None,
    seed: int = 0,
    settings: LoadSettings | None = None,
    progress: Progress = silent,
) -> TrainReport:
    """Train and register the Inference Load Model of a cluster's table `inference_load`.

    Raises BadInputError when the history is too short, NotFoundError when the lake has no inference load,
    ServiceUnavailableError when MLflow does not answer.
    """
    base = settings or LoadSettings()
    chosen = replace(base, boosting=replace(base.boosting, seed=seed))
    data = read_training_series(lake_uri, cluster, train_until, "inference_load")
    series = read_inference_series(data.table)
    series = series.first(ended_bins(series.times_s, series.bin_s, data, LEAST_BINS, "inference load"))

    def measure() -> tuple[Metrics, Mapping[str, Metrics]]:
        rows = evaluate_inference_load(series, _tail_start_s(series, data), chosen)
        return measures_by_model(rows, OURS, ("model", "member", "bins"))

    def fit() -> FittedSeries:
        model = InferenceLoadModel(chosen).fit(series)
        return FittedSeries(
            model.to_data(),
            asdict(chosen),
            example_bins(series.times_s, "usage", series.usage),
            {"": model.explain_global()},
            model.explain_local(model.features_of(series).iloc[-1]),
            {"bins": series.usage.size, "of_these_not_measured_and_held": int(series.gap.sum())},
            {"member": model.scorer.member},
        )

    return train_series(
        InferenceLoadModel.kind,
        data,
        measure,
        fit,
        cluster=cluster,
        tracking_uri=tracking_uri,
        seed=seed,
        progress=progress,
    )


def _tail_start_s(series: InferenceSeries, data: TrainingTable) -> float:
    """Where the validation tail begins, or the last fifth of a history that is not longer than that."""
    tail_s = data.tail_start.timestamp()
    if tail_s - series.start_s < (LEAST_BINS + WINDOW_BINS) * series.bin_s:
        return float(series.times_s[series.usage.size * 4 // 5])
    return tail_s


def _train(task: TrainingTask, *, utc_offset_hours: float = 0.0) -> object:
    settings = LoadSettings(utc_offset_s=round(utc_offset_hours * 3_600))
    return train_inference_load(**task.of_lake, settings=settings)


def _explain(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    """The forecast at the end of the lake's newest bin."""
    refuse_jobs(model, job_ids, forecasts="the usage of servers", explained="bin is")
    fitted = model.parts[""]
    series = read_inference_series(
        lake.read_series("inference_load", cluster), bin_s=fitted.scorer.features.bin_s
    )
    known_at = datetime.fromtimestamp(series.last_bin_start_s + series.bin_s, UTC)
    local = fitted.explain_local(fitted.features_of(series).iloc[-1])
    return [ExplainedPrediction("usage of the inference servers", "", known_at, local)]


# Below two days the model is a moving average.
STEPS = ModelSteps(_explain, _train, LearnedFrom("inference_load", "inference load", 1))
