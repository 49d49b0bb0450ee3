"""The throughput model beside rivals that must be trained too, series by series and lead by lead."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from foundation.progress import Progress, silent
from lucid_models.evaluation.measures import Row
from lucid_models.evaluation.throughput import LEADS, SERIES, TEST_DAYS, ThroughputTest, measured_tests
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings

# Adds rivals to a test of one series at one lead.
ThroughputRivals = Callable[[ThroughputTest, ThroughputPredictModel], None]


@dataclass(frozen=True)
class ThroughputComparison:
    """`rows` for a table; `forecasts[series, lead]`: bin_start, truth, a column a model; test bins only."""

    rows: list[Row] = field(default_factory=list)
    forecasts: dict[tuple[str, str], pd.DataFrame] = field(default_factory=dict)


def compare_throughput(
    table: pd.DataFrame,
    *,
    test_days: int = TEST_DAYS,
    leads: tuple[str, ...] = LEADS,
    series: tuple[str, ...] = tuple(SERIES),
    rivals: ThroughputRivals | None = None,
    settings: ThroughputSettings | None = None,
    progress: Progress = silent,
) -> ThroughputComparison:
    """Every model on the last `test_days` days of a throughput table, by series and lead.

    As `evaluate_throughput`; `rivals` adds others to each test.
    """
    comparison = ThroughputComparison()
    for test, model in measured_tests(
        table, test_days=test_days, leads=leads, series=series, settings=settings, progress=progress
    ):
        if rivals is not None:
            rivals(test, model)
        comparison.rows.extend(test.result())
        comparison.forecasts[test.series, test.lead] = test.forecasts
    return comparison
