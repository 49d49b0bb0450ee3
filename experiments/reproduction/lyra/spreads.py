"""A measure over windows: its mean, and the lowest and highest, so that no single draw decides."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.reproduction.lyra.outcomes import Floats, LyraOutcome
from experiments.reproduction.lyra.replays import LyraRun
from experiments.reproduction.lyra.windows import LyraWindow

# The outcomes of one window by scheme; a scheme that was not replayed there is missing.
ByScheme = Mapping[str, LyraOutcome]
Measure = Callable[[ByScheme], float]


@dataclass(frozen=True)
class Spread:
    """A measure on several windows, in their order."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over windows."""
        return float(np.mean(self.values))

    @property
    def low(self) -> float:
        """The lowest of any window."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The highest of any window."""
        return max(self.values)


def by_window(outcomes: Mapping[LyraRun, LyraOutcome]) -> dict[LyraWindow, dict[str, LyraOutcome]]:
    """Return the outcomes by window, and there by scheme."""
    sorted_out: dict[LyraWindow, dict[str, LyraOutcome]] = {}
    for run, outcome in outcomes.items():
        sorted_out.setdefault(run.window, {})[run.scheme.key] = outcome
    return sorted_out


def spread(measure: Measure, windows: Iterable[ByScheme]) -> Spread | None:
    """Return a measure over the windows whose schemes it needs were all replayed; None: there is none.

    A measure that a window cannot answer (a ratio to nothing) leaves that window out.
    """
    values = tuple(value for outcomes in windows if (value := _answer(measure, outcomes)) is not None)
    return Spread(values) if values else None


def answering_all(measures: Iterable[Measure], windows: Sequence[ByScheme]) -> Sequence[ByScheme]:
    """Return the windows to compare several measures on: those that answer all of them that any window
    answers; all windows where none does.
    """
    asked = [one for one in measures if spread(one, windows) is not None]
    shared = [each for each in windows if all(_answer(one, each) is not None for one in asked)]
    return shared or windows


def _answer(measure: Measure, outcomes: ByScheme) -> float | None:
    try:
        value = float(measure(outcomes))
    except (KeyError, ZeroDivisionError):
        return None
    return value if np.isfinite(value) else None


def queuing(key: str, percent: float | None = None) -> Measure:
    """Return the measure: queuing (s) under a scheme, its mean or a percentile."""
    return lambda outcomes: _of(outcomes[key].queuing_s, percent)


def jct(key: str, percent: float | None = None) -> Measure:
    """Return the measure: completion time (s) under a scheme, its mean or a percentile."""
    return lambda outcomes: _of(outcomes[key].jct_s, percent)


def figure(key: str, name: str, factor: float = 1.0) -> Measure:
    """Return the measure: one of `LyraOutcome.figures` under a scheme, times a factor."""
    return lambda outcomes: factor * outcomes[key].figures[name]


def ratio(above: Measure, below: Measure) -> Measure:
    """Return how many times larger one measure is than another in the same window."""
    return lambda outcomes: above(outcomes) / below(outcomes)


def more_pct(above: Measure, below: Measure) -> Measure:
    """Return by how many percent one measure is larger than another in the same window."""
    return lambda outcomes: 100 * (above(outcomes) / below(outcomes) - 1)


def _of(values: Floats, percent: float | None) -> float:
    return float(np.mean(values)) if percent is None else float(np.percentile(values, percent))
