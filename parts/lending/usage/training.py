"""The load of inference servers in, a registered version of the inference load model out."""

from dataclasses import asdict, replace
from datetime import datetime

import pandas as pd

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.training_data import TrainingTable, read_training_series
from lucid_models.training_log import (
    TrainedModel,
    TrainReport,
    log_card,
    log_tags,
    measures_by_model,
    register_model,
)
from parts.lending.load.series import InferenceSeries, read_inference_series
from parts.lending.usage.evaluation import OURS, evaluate_inference_load
from parts.lending.usage.features import WINDOW_BINS
from parts.lending.usage.fitting import LEAST_BINS, LoadSettings
from parts.lending.usage.model import InferenceLoadModel

_EXAMPLE_BINS = 300


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
    load_settings = replace(base, boosting=replace(base.boosting, seed=seed))
    data = read_training_series(lake_uri, cluster, train_until, "inference_load")
    series = ended_bins(read_inference_series(data.table), data.until.timestamp())
    progress(0, 3, "validation fit")
    rows = evaluate_inference_load(series, _tail_start_s(series, data), load_settings)
    metrics, baselines = measures_by_model(rows, OURS, ("model", "member", "bins"))
    progress(1, 3, "final fit")
    model = InferenceLoadModel(load_settings).fit(series)
    progress(2, 3, "logging")
    counted = {"bins": series.usage.size, "of_these_not_measured_and_held": int(series.gap.sum())}
    trained = TrainedModel(
        kind=model.kind,
        document=model.to_data(),
        dataset=data.dataset,
        params={**asdict(load_settings), "quantiles": list(load_settings.quantiles)},
        metrics=metrics,
        baselines=baselines,
        card=log_card(model.kind, data, metrics, baselines, counted),
        example=_example(series),
        explained={"": model.explain_global()},
        local=model.explain_local(model.features_of(series).iloc[-1]),
        tags={**log_tags(data, cluster), "member": model.scorer.member},
    )
    report = register_model(trained, tracking_uri, seed)
    progress(3, 3, "registered")
    return report


def ended_bins(series: InferenceSeries, until_s: float) -> InferenceSeries:
    """The bins that had ended by `until_s`; raises BadInputError for fewer than can be learned from."""
    ended = int((series.times_s + series.bin_s <= until_s).sum())
    if ended < LEAST_BINS:
        raise BadInputError(
            f"{ended} bins of inference load had ended; {LEAST_BINS} are the least to learn from.",
            remedy="Ingest more of it, or train until a later time.",
        )
    return series.first(ended)


def _tail_start_s(series: InferenceSeries, data: TrainingTable) -> float:
    """Where the validation tail begins, or the last fifth of a history that is not longer than that."""
    tail_s = data.tail_start.timestamp()
    if tail_s - series.start_s < (LEAST_BINS + WINDOW_BINS) * series.bin_s:
        return float(series.times_s[series.usage.size * 4 // 5])
    return tail_s


def _example(series: InferenceSeries) -> pd.DataFrame:
    recent = slice(-_EXAMPLE_BINS, None)
    return pd.DataFrame(
        {"bin_start_s": series.times_s[recent].astype("int64"), "usage": series.usage[recent]}
    )
