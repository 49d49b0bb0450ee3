"""How every forecaster of a series is trained: measured, fitted again on all of it, logged, registered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from foundation.progress import Progress
from lucid_models.series.windows import Floats
from lucid_models.training_data import TrainingTable
from lucid_models.training_log import Metrics, TrainedModel, TrainReport, log_card, log_tags, register_model

EXAMPLE_BINS = 300


@dataclass(frozen=True)
class FittedSeries:
    """A fitted model with what is logged of it: `rows` counts what it learned from, `notes` are of its card;
    the others as in TrainedModel.
    """

    document: Mapping[str, Any]
    params: Mapping[str, Any]
    example: pd.DataFrame
    explained: Mapping[str, Mapping[str, Any]]
    local: Mapping[str, Any]
    rows: Mapping[str, int]
    tags: Mapping[str, str]
    notes: tuple[str, ...] = ()


def train_series(
    kind: str,
    data: TrainingTable,
    measure: Callable[[], tuple[Metrics, Mapping[str, Metrics]]],
    fit: Callable[[], FittedSeries],
    *,
    cluster: str,
    tracking_uri: str,
    seed: int,
    progress: Progress,
) -> TrainReport:
    """Register a model of `kind`: `measure` fits on what comes before the validation tail and returns the
    metrics on the tail, the model's and its rivals'; `fit` learns from all of `data`.

    Raises ServiceUnavailableError when MLflow does not answer.
    """
    progress(0, 3, "validation fit")
    metrics, baselines = measure()
    progress(1, 3, "final fit")
    fitted = fit()
    progress(2, 3, "logging")
    card = log_card(kind, data, metrics, baselines, fitted.rows)
    trained = TrainedModel(
        kind=kind,
        document=fitted.document,
        dataset=data.dataset,
        params=fitted.params,
        metrics=metrics,
        baselines=baselines,
        card=replace(card, notes=(*card.notes, *fitted.notes)),
        example=fitted.example,
        explained=fitted.explained,
        local=fitted.local,
        tags={**log_tags(data, cluster), **fitted.tags},
    )
    report = register_model(trained, tracking_uri, seed)
    progress(3, 3, "registered")
    return report


def ended_bins(times_s: Floats, bin_s: float, data: TrainingTable, least: int, what: str) -> int:
    """How many bins of `what` had ended when the training's data ends; raises BadInputError below `least`."""
    ended = int((times_s + bin_s <= data.until.timestamp()).sum())
    if ended < least:
        raise BadInputError(
            f"{ended} bins of {what} had ended; {least} are the least to learn from.",
            remedy="Ingest more of it, or train until a later time.",
        )
    return ended


def example_bins(times_s: Floats, name: str, values: Floats) -> pd.DataFrame:
    """The newest bins as a table that the model can be asked with."""
    recent = slice(-EXAMPLE_BINS, None)
    return pd.DataFrame({"bin_start_s": times_s[recent].astype(np.int64), name: values[recent]})
