"""What Lucid's authors published as code, rebuilt as rivals: their features, losses and default settings.

Facts from the artifact of the paper (github.com/S-Lab-System-Group/Lucid): the throughput predictor
(simulation/predictor) and the workload estimator (simulation/estimator). Table 7's black boxes read the very
same columns with their libraries' default settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.model_quality.black_boxes import BlackBox
from lucid_models.series.windows import DAY_S
from lucid_models.throughput.model import binned_series
from lucid_models.throughput.scorer import SERIES

Floats = NDArray[np.float64]

HOUR_S = 3_600
THROUGHPUT_LEARNING_RATE, THROUGHPUT_INTERACTIONS = 0.1, 10
THROUGHPUT_BAGS = 14  # the library's default
DURATION_LEARNING_RATE = 0.04
# The estimator's twenty pairs and more bags take minutes; without pairs it orders jobs better, not worse.
DURATION_BAGS, DURATION_ROUNDS = 2, 5_000
_RAW_IDS = ("user", "virtual_cluster", "name")
_RAW_NUMBERS = ("gpus", "cpus", "gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib")


def newest_input_bins(bin_s: int) -> int | None:
    """How many bins before the forecast one their newest input lies; None where an hour has too few bins.

    Their weighted sum around "an hour ago" reaches one bin closer: five bins of ten minutes.
    """
    bins = HOUR_S // bin_s
    return bins - 1 if bins >= 2 else None


def throughput_features(table: pd.DataFrame) -> Floats:
    """Their 25 features of every row of a throughput table, shape (rows, 25); what is missing counts as 0.

    Month, day, hour, minute, weekday, day of the year, week; of both series the values an hour, three hours
    and a day ago, the same softened over three bins, mean, median and deviation of an hour that ended an hour
    ago.
    """
    time = pd.to_datetime(table["bin_start"], utc=True).dt
    columns = [
        time.month,
        time.day,
        time.hour,
        time.minute,
        time.day_of_week,
        time.day_of_year,
        time.isocalendar().week,
    ]
    known = [np.asarray(column, dtype=np.float64) for column in columns]
    for name in SERIES:
        data = binned_series(table, name)
        known += [column[data.position] for column in _series_features(data.counts, data.bin_s)]
    return np.nan_to_num(np.stack(known, axis=1))


def fit_throughput(rows: Floats, target: Floats) -> BlackBox:
    """Their model: an EBM with squared error, random bags and ten pairs, otherwise the library's defaults."""
    from interpret.glassbox import ExplainableBoostingRegressor

    model = ExplainableBoostingRegressor(
        learning_rate=THROUGHPUT_LEARNING_RATE,
        interactions=THROUGHPUT_INTERACTIONS,
        outer_bags=THROUGHPUT_BAGS,
        n_jobs=1,
    )
    return BlackBox("ebm", model.fit(rows, target))


@dataclass(frozen=True)
class RawColumns:
    """Jobs as their estimator sees them: ids as numbers, sizes, parts of the submission time.

    `kinds` says of each column whether it is an id ("nominal") or a number ("continuous").
    """

    train: Floats
    test: Floats
    kinds: tuple[str, ...]


def raw_columns(train: pd.DataFrame, test: pd.DataFrame) -> RawColumns:
    """The columns that the log knows; ids are numbered as they appear in training, new ones are -1."""
    parts: list[tuple[Floats, Floats, str]] = []
    for name in _RAW_IDS:
        if name in train.columns and train[name].notna().any():
            before, after = (_texts(jobs, name) for jobs in (train, test))
            numbers = {text: float(number) for number, text in enumerate(dict.fromkeys(before))}
            coded = [np.array([numbers.get(text, -1.0) for text in side]) for side in (before, after)]
            parts.append((coded[0], coded[1], "nominal"))
    told = [name for name in _RAW_NUMBERS if name in train.columns and train[name].notna().any()]
    parts += [(_numbers(train, name), _numbers(test, name), "continuous") for name in told]
    parts += [
        (_time_part(train, part), _time_part(test, part), "continuous")
        for part in ("month", "day", "hour", "day_of_week")
    ]
    return RawColumns(
        np.stack([before for before, _, _ in parts], axis=1),
        np.stack([after for _, after, _ in parts], axis=1),
        tuple(kind for _, _, kind in parts),
    )


def fit_duration(columns: RawColumns, seconds: Floats, *, seed: int = 0) -> BlackBox:
    """Their estimator: an EBM on raw ids and seconds, squared error; it may well predict below zero."""
    from interpret.glassbox import ExplainableBoostingRegressor

    model: Any = ExplainableBoostingRegressor(
        feature_types=list(columns.kinds),
        learning_rate=DURATION_LEARNING_RATE,
        interactions=0,
        outer_bags=DURATION_BAGS,
        max_rounds=DURATION_ROUNDS,
        n_jobs=1,
        random_state=seed,
    )
    return BlackBox("ebm", model.fit(columns.train, seconds))


def _series_features(counts: Floats, bin_s: int) -> list[Floats]:
    hour, three_hours, day = HOUR_S // bin_s, 3 * HOUR_S // bin_s, DAY_S // bin_s
    ago = [_before(counts, bins) for bins in (hour, three_hours, day)]
    soft = [
        0.5 * _before(counts, bins) + 0.25 * (_before(counts, bins + 1) + _before(counts, bins - 1))
        for bins in (hour, three_hours, day)
    ]
    # With pandas, as in their code: its rounding moves the trees' splits, and their errors by 3 %.
    recent = pd.Series(_before(counts, hour)).rolling(hour)
    means = [column.to_numpy(dtype=np.float64) for column in (recent.mean(), recent.median(), recent.std())]
    return [*ago, *soft, *means]


def _before(values: Floats, bins: int) -> Floats:
    result = np.full(values.size, np.nan)
    result[bins:] = values[: max(0, values.size - bins)]
    return result


def _texts(jobs: pd.DataFrame, column: str) -> Sequence[str]:
    return jobs[column].astype(object).where(jobs[column].notna(), "").astype(str).tolist()


def _numbers(jobs: pd.DataFrame, column: str) -> Floats:
    numbers = pd.to_numeric(jobs[column], errors="coerce").astype("Float64")
    values: Floats = np.nan_to_num(numbers.to_numpy(dtype=np.float64, na_value=np.nan), nan=0.0)
    return values


def _time_part(jobs: pd.DataFrame, part: str) -> Floats:
    return np.asarray(getattr(pd.to_datetime(jobs["submit_time"], utc=True).dt, part), dtype=np.float64)
