"""Says in words why a bin is forecast as it is, with NumPy and the standard library alone.

A forecast is the present level times a sum of effects, so it splits exactly into what a bin of this level
usually brings and what the last hours, the pattern of the days and weeks, and the calendar add to that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lucid_models.amounts import listed_moves
from lucid_models.series.windows import WEEKDAYS
from lucid_models.throughput.blend import weights_in_words
from lucid_models.throughput.features import LEVEL

UNITS = {"submitted_gpu_jobs": "jobs", "submitted_gpus": "GPUs"}
_GROUPS = ("the last hours", "the pattern of the last days and weeks", "the hour and the weekday")


@dataclass(frozen=True)
class ForecastAccount:
    """A forecast as an account, in the series' unit (`unit`): `usual` plus all `parts` is `forecast`, unless
    the effects sum to less than nothing (`floored`).

    `level`: geometric mean of 1 + count (features.py); `recent`: weighted mean count of about the
    last hour; `days`, `weeks`: mean count at this time on the last days and in the last weeks; None: unknown.
    `weights`: what blend.PARTS weigh in it.
    """

    forecast: float
    unit: str
    hour: float
    day_of_week: int
    bin_s: int
    level: float
    usual: float
    parts: Mapping[str, float]
    floored: bool
    recent: float | None
    days: float | None
    weeks: float | None
    weights: tuple[float, float, float] = (1.0, 0.0, 0.0)

    def sentence(self) -> str:
        """The forecast, what it rests on, and what each part adds; the printed numbers add up."""
        total = round(self.forecast)
        unit = self.unit.removesuffix("s") if total == 1 else self.unit
        text = f"{total} {unit} in {WEEKDAYS[self.day_of_week]} {self._interval()}"
        known = [
            words
            for value, words in (
                (self.recent, "the last hour averaged about {} a bin"),
                (self.weeks, f"{WEEKDAYS[self.day_of_week]}s at this time usually bring {{}}"),
                (self.days if self.weeks is None else None, "this time of day brought {} on the last days"),
            )
            if value is not None
            for words in [words.format(_count(value))]
        ]
        text = f"{text}: {' and '.join(known)}." if known else f"{text}: no history is known."
        added = {name: round(value) for name, value in self.parts.items() if round(value)}
        rest = total - sum(added.values())
        leaning = "" if self.weights[0] == 1.0 else f" The forecast is {weights_in_words(self.weights)}."
        if self.floored or rest < 0:
            return f"{text}{leaning}"
        moves = listed_moves(added, singular=(_GROUPS[1],))
        return (
            f"{text} At the present level a bin brings {rest}" + (f"; {moves}." if moves else ".") + leaning
        )

    def _interval(self) -> str:
        start = round(self.hour * 60)
        end = start + self.bin_s // 60
        return "-".join(f"{minute // 60 % 24:02d}:{minute % 60:02d}" for minute in (start, end))


def account_for_forecast(
    series: str,
    bin_s: int,
    forecast: float,
    level: float,
    intercept: float,
    contributions: Mapping[str, float],
    row: Mapping[str, float],
    weights: tuple[float, float, float] = (1.0, 0.0, 0.0),
) -> ForecastAccount:
    """`contributions`: the multiple of the level that each term adds, by its name; `row`: the feature values,
    by name.
    """
    parts = dict.fromkeys(_GROUPS, 0.0)
    usual = level * intercept
    for name, value in contributions.items():
        group = _group(name)
        if group is None:
            usual += level * value
        else:
            parts[group] += level * value
    return ForecastAccount(
        forecast=forecast,
        unit=UNITS[series],
        hour=row["hour"],
        day_of_week=int(row["day_of_week"]) % 7,
        bin_s=bin_s,
        level=level,
        usual=usual,
        parts=parts,
        floored=not math.isclose(forecast, usual + sum(parts.values()), rel_tol=1e-6, abs_tol=1e-6),
        recent=_count_of(row, f"log_soft_mean_{max(3_600 // bin_s, 2)}_bins", level),
        days=_count_of(row, "log_same_time_last_days", level),
        weeks=_count_of(row, "log_same_time_last_weeks", level),
        weights=weights,
    )


def _group(term: str) -> str | None:
    """Which part of a forecast a term belongs to; None: the level's own."""
    if term == LEVEL:
        return None
    if term in ("hour", "day_of_week"):
        return _GROUPS[2]
    return _GROUPS[1] if "_days" in term or "_weeks" in term else _GROUPS[0]


def _count_of(row: Mapping[str, float], name: str, level: float) -> float | None:
    """The mean count that a feature stands for."""
    value = row.get(name, math.nan)
    return None if math.isnan(value) else max(level * math.exp(value) - 1.0, 0.0)


def _count(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:.0f}"
