"""Rivals of the throughput model: published forecasts, weekly fits, black boxes, the authors' recipes."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.model_quality import authors_recipes, black_boxes
from experiments.model_quality.throughput_comparison import ThroughputRivals
from foundation.errors import BadInputError
from foundation.outside_names import read_regular
from lucid_models.evaluation.measures import cpu_timed, predict_timed
from lucid_models.evaluation.throughput import TEST_DAYS, ThroughputTest, test_start
from lucid_models.series.windows import WEEK_S
from lucid_models.throughput.model import ThroughputPredictModel

PUBLISHED = {"jobs": "pred_gpu_job", "gpus": "pred_gpu_num"}
PUBLISHED_LEAD = "g5"  # the newest input of Lucid's features lies five bins of ten minutes back


def throughput_rivals(
    *, trained: bool = True, published: "PublishedForecasts | None" = None
) -> ThroughputRivals:
    """Return what adds rivals to a test.

    `published`: predictions for the test bins, listed as lucid_published at g5; raises BadInputError where
    they lack some. `trained`: also what must be trained, which takes most of the time.
    """

    def add(test: ThroughputTest, model: ThroughputPredictModel) -> None:
        if published is not None and test.lead == PUBLISHED_LEAD and test.data.bin_s == 600:
            test.add("lucid_published", _aligned(published, test), None, None)
        if trained:
            _add_weekly(test)
            _add_black_boxes(test, model)
            if authors_recipes.newest_input_bins(test.data.bin_s) == test.lead_bins:
                _add_authors_recipes(test)

    return add


@dataclass(frozen=True)
class PublishedForecasts:
    """Forecasts that the Lucid artifact has published, as `read_published` found them.

    `by_time`: columns pred_gpu_job and pred_gpu_num (jobs and GPUs a bin), index time (UTC).
    """

    by_time: pd.DataFrame

    def cover(self, table: pd.DataFrame, test_days: int = TEST_DAYS) -> bool:
        """Whether they hold every test bin of a throughput table."""
        starts = table["bin_start"]
        return bool(starts[starts >= test_start(table, test_days)].isin(self.by_time.index).all())


def read_published(source: Path | str | pd.DataFrame) -> PublishedForecasts:
    """The Lucid artifact's predictions: a table or CSV with the columns time, pred_gpu_job, pred_gpu_num.

    Raises BadInputError for what cannot be read, lacks a column, or has a time twice.
    """
    try:
        table = source if isinstance(source, pd.DataFrame) else pd.read_csv(io.BytesIO(read_regular(source)))
        missing = [name for name in ("time", *PUBLISHED.values()) if name not in table.columns]
        if missing:
            raise BadInputError(
                f"The published predictions lack the columns {', '.join(missing)}.",
                remedy="Give the artifact's file: time, pred_gpu_job, pred_gpu_num.",
            )
        by_time = table.assign(time=pd.to_datetime(table["time"], utc=True)).set_index("time")
        for name in PUBLISHED.values():
            by_time[name] = by_time[name].astype("float64")
    except (OSError, ValueError) as error:
        raise BadInputError(
            f"The published predictions cannot be read: {error}.", remedy="Check --published."
        ) from error
    twice = by_time.index[by_time.index.duplicated()]
    if len(twice):
        raise BadInputError(
            f"The published predictions have {twice[0]} twice.", remedy="Give one row a bin in --published."
        )
    return PublishedForecasts(by_time)


def _add_weekly(test: ThroughputTest) -> None:
    """The model fitted anew before every week of the test, from the bins known when its first forecast is
    made.
    """
    forecast = test.forecasts["ebm"].to_numpy().copy()
    starts = test.table["bin_start"]
    seconds = (test.forecasts["bin_start"] - test.forecasts["bin_start"].min()).dt.total_seconds().to_numpy()
    week = (seconds // WEEK_S).astype(np.intp)
    fit_s = 0.0
    for number in range(1, int(week.max()) + 1):
        inside = week == number
        if not inside.any():
            continue
        first = test.forecasts["bin_start"][inside].min()
        known = starts <= first - pd.Timedelta(seconds=test.lead_bins * test.data.bin_s)
        model, took_s = cpu_timed(
            partial(ThroughputPredictModel(test.settings).fit, test.table[known], test.column, test.lead_bins)
        )
        fit_s += took_s
        forecast[inside] = model.predict(test.table)[test.rows][inside]
    test.add("ebm_weekly", forecast, fit_s, None)


def _add_black_boxes(test: ThroughputTest, model: ThroughputPredictModel) -> None:
    """Black boxes on the model's own features."""
    features, making_s = cpu_timed(lambda: model.features_of(test.table).to_numpy())
    warm_up = max(model.scorer.features.mean_bins, default=0)
    train = ~test.rows & (test.data.position >= warm_up) & ~np.isnan(test.counts)
    if not train.any():
        return
    fits: list[tuple[str, str, str]] = [(name, name, "l1") for name in black_boxes.available()]
    if "lightgbm" in black_boxes.available():
        fits.insert(1, ("lightgbm_l2", "lightgbm", "l2"))
    for name, box, loss in fits:
        # Squared error follows the bursts; the square root tames them.
        root = box in black_boxes.SQUARED_ERROR_ONLY
        target = np.sqrt(test.counts[train]) if root else test.counts[train]
        fitted, fit_s = cpu_timed(partial(black_boxes.fit_regressor, box, features[train], target, loss=loss))
        said, took_ms = predict_timed(partial(fitted.predict, features[test.rows]))
        said = np.maximum(said, 0.0)
        test.add(name, np.square(said) if root else said, making_s + fit_s, took_ms)


def _add_authors_recipes(test: ThroughputTest) -> None:
    """Lucid's own features and losses, refitted, and Table 7's black boxes on the same columns."""
    features, making_s = cpu_timed(lambda: authors_recipes.throughput_features(test.table))
    train = ~test.rows & ~np.isnan(test.counts)
    rows, target = features[train], test.counts[train]
    fits: dict[str, Callable[[], black_boxes.BlackBox]] = {
        "ebm": partial(authors_recipes.fit_throughput, rows, target)
    }
    for name in black_boxes.available():
        fits[name] = partial(black_boxes.fit_with_defaults, name, rows, target)
    for name, fit in fits.items():
        fitted, fit_s = cpu_timed(fit)
        said, took_ms = predict_timed(partial(fitted.predict, features[test.rows]))
        test.add(f"{name}_authors_recipe", said, making_s + fit_s, took_ms)


def _aligned(published: PublishedForecasts, test: ThroughputTest) -> NDArray[np.float64]:
    """The published predictions of the test bins, by time."""
    starts = pd.DatetimeIndex(test.forecasts["bin_start"])
    found = published.by_time[PUBLISHED[test.series]].reindex(starts)
    if found.isna().any():
        raise BadInputError(
            f"The published predictions lack {int(found.isna().sum())} of the {len(found)} test bins "
            f"({starts.min()} to {starts.max()}).",
            remedy="Give predictions of the same days, or choose --test-days to fit them.",
        )
    return found.to_numpy(dtype=np.float64)
