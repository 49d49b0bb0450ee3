"""Measures the throughput model beside naive forecasts: the last days of a series, forecast bin by bin.

The split is by time, and every forecast of one lead reads the same history: nothing newer than the lead
allows. Forecasts of different leads are never compared.
"""

import re
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.evaluation import baselines
from lucid_models.evaluation.measures import Floats, Row, compared, cpu_timed, predict_timed
from lucid_models.series.evaluation import mean_error
from lucid_models.throughput.model import (
    BinnedSeries,
    ThroughputPredictModel,
    ThroughputSettings,
    binned_series,
)

SERIES = {"jobs": "submitted_gpu_jobs", "gpus": "submitted_gpus"}
LEADS = ("g5", "g1")
TEST_DAYS = 28


def evaluate_throughput(
    table: pd.DataFrame,
    *,
    test_days: int = TEST_DAYS,
    leads: tuple[str, ...] = LEADS,
    settings: ThroughputSettings | None = None,
) -> list[Row]:
    """The model and what needs no training on the last `test_days` days of a throughput table.

    Rows {series, lead, model, mae, fit_s, predict_ms, bins, worse_by, ...}. `table`: THROUGHPUT_SCHEMA.
    Lead gN: the newest known bin lies N bins before the forecast one. Times are CPU time; `fit_s` includes
    making the features, `predict_ms` is for all test bins from ready features. `worse_by`: how much the error
    exceeds the model's (measures.compared, blocks of days).

    Raises BadInputError for a table that is too short or has other columns, and for an unknown lead.
    """
    tests = measured_tests(table, test_days=test_days, leads=leads, settings=settings)
    return [row for test, _ in tests for row in test.result()]


def measured_tests(
    table: pd.DataFrame,
    *,
    test_days: int,
    leads: tuple[str, ...],
    series: tuple[str, ...] = tuple(SERIES),
    settings: ThroughputSettings | None = None,
    progress: Progress = silent,
) -> Iterator[tuple["ThroughputTest", ThroughputPredictModel]]:
    """Yield the test of each series at each lead, and the model that was fitted for it."""
    work = [(name, lead) for name in series for lead in leads]
    for done, (name, lead) in enumerate(work):
        progress(done, len(work), f"throughput: {name} at lead {lead}")
        test = ThroughputTest(table, name, lead, test_days, settings)
        model = _add_model(test)
        naive = baselines.throughput_baselines(test.data.counts, test.lead_bins, test.data.bin_s)
        for rival, values in naive.items():
            test.add(rival, values[test.data.position][test.rows], 0.0, 0.0)
        yield test, model
    progress(len(work), len(work), "throughput evaluated")


def lead_bins_of(lead: str) -> int:
    """How many bins a lead such as `g5` is; raises BadInputError."""
    found = re.fullmatch(r"g([1-9][0-9]{0,3})", lead)
    if not found:
        raise BadInputError(
            f"The lead {lead!r} is not known.",
            remedy="Write gN: the newest known bin lies N bins before the forecast one, such as g1 or g5.",
        )
    return int(found[1])


class ThroughputTest:
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
        self.rows = (table["bin_start"] >= test_start(table, test_days)).to_numpy()
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
        """The rows before the test bins."""
        return self.table[~self.rows]

    def add(self, name: str, forecast: Floats, fit_s: float | None, predict_ms: float | None) -> None:
        """Take note of what a model says of the test bins."""
        self.forecasts[name] = forecast
        self._costs[name] = (fit_s, predict_ms)

    def result(self) -> list[Row]:
        """Return a row a model."""
        days = self.forecasts["bin_start"].dt.floor("D")
        blocks = np.unique(days, return_inverse=True)[1].astype(np.intp)
        errors = {name: np.abs(self.forecasts[name].to_numpy() - self.truth) for name in self._costs}
        return [
            {
                "series": self.series,
                "lead": self.lead,
                "model": name,
                "mae": mean_error(errors[name]),
                "fit_s": fit_s,
                "predict_ms": predict_ms,
                "bins": int((~np.isnan(errors[name])).sum()),
                **compared(errors[name], errors["ebm"], blocks),
            }
            for name, (fit_s, predict_ms) in self._costs.items()
        ]


def test_start(table: pd.DataFrame, test_days: int) -> pd.Timestamp:
    """Return when the last `test_days` days of a throughput table begin."""
    after_last = table["bin_start"].max() + pd.Timedelta(seconds=int(table["bin_s"].iloc[0]))
    start: pd.Timestamp = after_last - pd.Timedelta(days=test_days)
    return start


def _add_model(test: ThroughputTest) -> ThroughputPredictModel:
    model, fit_s = cpu_timed(
        partial(ThroughputPredictModel(test.settings).fit, test.history, test.column, test.lead_bins)
    )
    features = model.features_of(test.table).to_numpy()[test.rows]
    _, took_ms = predict_timed(partial(model.scorer.predict_rows, features))
    test.add("ebm", model.predict(test.table)[test.rows], fit_s, took_ms)
    return model
