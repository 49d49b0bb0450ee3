"""Measures the throughput model beside its rivals: the last days of a series, forecast bin by bin.

The split is by time, and every forecast of one lead reads the same history: nothing newer than the lead
allows. Forecasts of different leads are never compared.
"""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.ingest import read_throughput_file
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from foundation.regular_files import read_regular
from lucid_models.evaluation import authors_recipes, baselines, black_boxes
from lucid_models.evaluation.measures import Floats, Row, compared, cpu_timed, predict_timed
from lucid_models.throughput.features import WEEK_S
from lucid_models.throughput.model import (
    BinnedSeries,
    ThroughputPredictModel,
    ThroughputSettings,
    binned_series,
)

SERIES = {"jobs": "submitted_gpu_jobs", "gpus": "submitted_gpus"}
LEADS = ("g5", "g1")
PUBLISHED = {"jobs": "pred_gpu_job", "gpus": "pred_gpu_num"}
PUBLISHED_LEAD = "g5"  # the newest input of Lucid's features lies five bins of ten minutes back
TEST_DAYS = 28


@dataclass(frozen=True)
class PublishedForecasts:
    """Forecasts that the Lucid artifact has published, as `read_published` found them.

    `by_time`: columns pred_gpu_job and pred_gpu_num (jobs and GPUs a bin), index time (UTC).
    """

    by_time: pd.DataFrame

    def cover(self, table: pd.DataFrame, test_days: int = TEST_DAYS) -> bool:
        """Whether they hold every test bin of a throughput table."""
        starts = table["bin_start"]
        return bool(starts[starts >= _test_start(table, test_days)].isin(self.by_time.index).all())


@dataclass(frozen=True)
class ThroughputComparison:
    """`rows` for a table; `forecasts[series, lead]`: bin_start, truth, a column a model; test bins only."""

    rows: list[Row] = field(default_factory=list)
    forecasts: dict[tuple[str, str], pd.DataFrame] = field(default_factory=dict)


def evaluate_throughput(
    source: Path | str | pd.DataFrame,
    *,
    test_days: int = TEST_DAYS,
    published: PublishedForecasts | None = None,
    leads: tuple[str, ...] = LEADS,
    rivals: bool = True,
    settings: ThroughputSettings | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """The rows of `compare_throughput`."""
    return compare_throughput(
        source,
        test_days=test_days,
        published=published,
        leads=leads,
        rivals=rivals,
        settings=settings,
        progress=progress,
    ).rows


def compare_throughput(
    source: Path | str | pd.DataFrame,
    *,
    test_days: int = TEST_DAYS,
    published: PublishedForecasts | None = None,
    leads: tuple[str, ...] = LEADS,
    series: tuple[str, ...] = tuple(SERIES),
    rivals: bool = True,
    settings: ThroughputSettings | None = None,
    progress: Progress = silent,
) -> ThroughputComparison:
    """Every model on the last `test_days` days of a throughput table, by series and lead.

    Rows {series, lead, model, mae, fit_s, predict_ms, bins, worse_by, ...}. `source`: a throughput table
    (THROUGHPUT_SCHEMA) or a CSV in Helios's layout, whose times are taken as they are written. Lead gN: the
    newest known bin lies N bins before the forecast one. `published` (read_published): predictions for the
    test bins, listed as lucid_published at g5. `rivals=False` leaves out what must be trained, which takes
    most of the time. Times are CPU time; `fit_s` includes making the features, `predict_ms` is for all test
    bins from ready features. `worse_by`: how much the error exceeds the model's (measures.compared,
    blocks of days).

    Raises BadInputError for a table that is too short or has other columns, for an unknown lead, and when the
    published predictions lack test bins.
    """
    table = source if isinstance(source, pd.DataFrame) else read_throughput_csv(source)
    comparison = ThroughputComparison()
    work = [(name, lead) for name in series for lead in leads]
    for done, (name, lead) in enumerate(work):
        progress(done, len(work), f"throughput: {name} at lead {lead}")
        test = _Test(table, name, lead, test_days, settings)
        model = _add_model(test)
        naive = baselines.throughput_baselines(test.data.counts, test.lead_bins, test.data.bin_s)
        for rival, values in naive.items():
            test.add(rival, values[test.data.position][test.rows], 0.0, 0.0)
        if published is not None and lead == PUBLISHED_LEAD and test.data.bin_s == 600:
            test.add("lucid_published", _aligned(published, test), None, None)
        if rivals:
            _add_weekly(test)
            _add_black_boxes(test, model)
            if authors_recipes.newest_input_bins(test.data.bin_s) == test.lead_bins:
                _add_authors_recipes(test)
        comparison.rows.extend(test.result())
        comparison.forecasts[name, lead] = test.forecasts
    progress(len(work), len(work), "throughput evaluated")
    return comparison


def lead_bins_of(lead: str) -> int:
    """How many bins a lead such as `g5` is; raises BadInputError."""
    found = re.fullmatch(r"g([1-9][0-9]{0,3})", lead)
    if not found:
        raise BadInputError(
            f"The lead {lead!r} is not known.",
            remedy="Write gN: the newest known bin lies N bins before the forecast one, such as g1 or g5.",
        )
    return int(found[1])


def read_throughput_csv(path: Path | str) -> pd.DataFrame:
    """A throughput CSV in Helios's layout; its local times are taken as they are written."""
    return read_throughput_file(str(path), time_zone="UTC")


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


class _Test:
    """One series at one lead: its table, its test bins and what the models said of them."""

    def __init__(
        self,
        table: pd.DataFrame,
        series: str,
        lead: str,
        test_days: int,
        settings: ThroughputSettings | None,
    ) -> None:
        self.table, self.series, self.lead, self.settings = table, series, lead, settings
        self.column, self.lead_bins = SERIES[series], lead_bins_of(lead)
        self.data: BinnedSeries = binned_series(table, self.column)
        self.rows = (table["bin_start"] >= _test_start(table, test_days)).to_numpy()
        if self.rows.all():
            raise BadInputError(
                f"{test_days} test days are all of the table, and nothing is left to learn from.",
                remedy="Choose fewer test days or give a longer table.",
            )
        self.counts = self.data.counts[self.data.position]
        self.truth = self.counts[self.rows]
        starts = pd.to_datetime(table["bin_start"], utc=True)[self.rows].reset_index(drop=True)
        self.forecasts = pd.DataFrame({"bin_start": starts, "truth": self.truth})
        self._costs: dict[str, tuple[float | None, float | None]] = {}

    @property
    def history(self) -> pd.DataFrame:
        return self.table[~self.rows]

    def add(self, name: str, forecast: Floats, fit_s: float | None, predict_ms: float | None) -> None:
        """Take note of what a model says of the test bins."""
        self.forecasts[name] = forecast
        self._costs[name] = (fit_s, predict_ms)

    def result(self) -> list[Row]:
        days = self.forecasts["bin_start"].dt.floor("D")
        blocks = np.unique(days, return_inverse=True)[1].astype(np.intp)
        errors = {name: np.abs(self.forecasts[name].to_numpy() - self.truth) for name in self._costs}
        return [
            {
                "series": self.series,
                "lead": self.lead,
                "model": name,
                "mae": float(np.nanmean(errors[name])) if not np.isnan(errors[name]).all() else None,
                "fit_s": fit_s,
                "predict_ms": predict_ms,
                "bins": int((~np.isnan(errors[name])).sum()),
                **compared(errors[name], errors["ebm"], blocks),
            }
            for name, (fit_s, predict_ms) in self._costs.items()
        ]


def _test_start(table: pd.DataFrame, test_days: int) -> pd.Timestamp:
    after_last = table["bin_start"].max() + pd.Timedelta(seconds=int(table["bin_s"].iloc[0]))
    start: pd.Timestamp = after_last - pd.Timedelta(days=test_days)
    return start


def _add_model(test: _Test) -> ThroughputPredictModel:
    model, fit_s = cpu_timed(
        partial(ThroughputPredictModel(test.settings).fit, test.history, test.column, test.lead_bins)
    )
    features = model.features_of(test.table).to_numpy()[test.rows]
    forecast, took_ms = predict_timed(partial(model.scorer.predict_rows, features))
    test.add("ebm", forecast, fit_s, took_ms)
    return model


def _add_weekly(test: _Test) -> None:
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


def _add_black_boxes(test: _Test, model: ThroughputPredictModel) -> None:
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


def _add_authors_recipes(test: _Test) -> None:
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


def _aligned(published: PublishedForecasts, test: _Test) -> NDArray[np.float64]:
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
