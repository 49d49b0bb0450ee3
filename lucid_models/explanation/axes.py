"""How features read in a picture: their names in words, and their values in the unit that people know.

Models take logarithms of sizes and run times; a picture shows GPUs, hours and jobs.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from foundation.human_times import human_duration
from lucid_models.catalogue import FeatureWords, catalogue
from lucid_models.duration.job_columns import MODEL_FACTS, PLAIN_FACTS
from lucid_models.duration.levels import level_words
from lucid_models.throughput.features import LEVEL

_STATISTICS = {
    "mean": "usual run time",
    "raw_mean": "mean run time",
    "soft_mean": "run time lately",
    "naive": "naive estimate",
    "median": "median run time",
    "last": "last run time",
    "last_two": "last two run times",
    "spread": "spread of run times",
    "log_count": "jobs seen",
    "log_running": "jobs running",
    "log_oldest_age": "age of the oldest running job",
    "log_since_submission": "time since the last submission",
}
_RUN_TIMES = ("mean", "raw_mean", "soft_mean", "naive", "median", "last", "last_two")
_WAITS = ("log_oldest_age", "log_since_submission")
_FACT = {fact.name: fact for fact in MODEL_FACTS}
# Plain features in words.
_FACTS = {
    **{feature: _FACT[fact].words for feature, (fact, _) in PLAIN_FACTS.items()},
    "gpu_mem_mib": _FACT["gpu_mem_mib"].words,
    "amp": "mixed precision",
    "hour": "hour of the day",
    "day_of_week": "day of the week",
    "holiday": "holiday",
}
_SPANS = {feature for feature, (fact, _) in PLAIN_FACTS.items() if _FACT[fact].is_duration}
_RATIO_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_TIME_TICKS = (1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 172_800.0, 864_000.0, 8_640_000.0)
_COUNT_TICKS = (0.0, *(2.0**power for power in range(11)), 1e4, 1e5, 1e6)
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True)
class FeatureAxis:
    """A feature as people read it.

    `value` turns the model's number into the shown one, `number` back; `text` writes a shown value. `limits`
    are the ends of what a value can be (None: open). `ticks` are values worth naming on an axis (empty: any).
    """

    label: str
    value: Callable[[float], float]
    number: Callable[[float], float]
    text: Callable[[float], str]
    limits: tuple[float | None, float | None] = (None, None)
    ticks: tuple[float, ...] = ()


def feature_axis(name: str) -> FeatureAxis:  # noqa: PLR0911
    """How the feature `name` reads."""
    level, _, statistic = name.rpartition(":")
    label = _STATISTICS.get(statistic) or _FACTS.get(name) or _plain_words(statistic.removeprefix("log_"))
    if level:
        label = f"{label} of {level_words(level)}"
    if level and statistic in _RUN_TIMES:
        return FeatureAxis(label, _exp, math.log, human_duration, (1.0, None), _TIME_TICKS)
    if level and statistic == "spread":
        return FeatureAxis(label, _exp, math.log, lambda factor: f"a factor of {factor:.3g}", (1.0, None))
    if statistic in _WAITS or name in _SPANS:
        return FeatureAxis(label, _expm1, math.log1p, human_duration, (0.0, None), _TIME_TICKS)
    if level or name in _FACTS or name == LEVEL:
        if statistic.startswith("log_"):
            return FeatureAxis(label, _expm1, math.log1p, _number, (0.0, None), _COUNT_TICKS)
    elif name.startswith("log_"):  # throughput: a count against the level
        return FeatureAxis(label, _exp, math.log, lambda ratio: f"x {ratio:.3g}", ticks=_RATIO_TICKS)
    own = _own_words(name)
    if own is not None and own.is_log10_s:
        return FeatureAxis(label, _power_of_ten, math.log10, human_duration, (1.0, None), _TIME_TICKS)
    if name == "hour":
        return FeatureAxis(label, float, float, _number, (0.0, 24.0), tuple(map(float, range(0, 25, 3))))
    if name == "day_of_week":
        return FeatureAxis(label, float, float, _weekday, (-0.5, 6.5), tuple(map(float, range(7))))
    if name in ("amp", "holiday"):
        return FeatureAxis(label, float, float, lambda value: "yes" if value > 0.5 else "no", (0.0, 1.0))
    limits = (0.0, 100.0) if name.endswith("_pct") and own is None else (None, None)
    return FeatureAxis(label, float, float, _number, limits)


def feature_words(term: str) -> str:
    """The name of a term (one feature, or two joined by ` x `) in words."""
    return " x ".join(feature_axis(name).label for name in term.split(" x "))


def _own_words(name: str) -> FeatureWords | None:
    """What the catalogue says of a model's own feature, its words filled in."""
    for entry in catalogue().values():
        for own in entry.features:
            match = re.fullmatch(own.pattern, name)
            if match:
                groups = (group.replace("_", " ") for group in match.groups())
                return own._replace(words=own.words.format(*groups))
    return None


def _plain_words(name: str) -> str:
    own = _own_words(name)
    return name.replace("_", " ") if own is None else own.words


def _exp(number: float) -> float:
    return math.exp(min(number, 50.0))


def _power_of_ten(number: float) -> float:
    return math.pow(10.0, min(number, 20.0))


def _expm1(number: float) -> float:
    return math.expm1(min(number, 50.0))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _weekday(value: float) -> str:
    return _WEEKDAYS[int(value) % 7]
