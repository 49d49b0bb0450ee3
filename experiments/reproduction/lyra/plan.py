"""Which replays an evaluation needs: every compared scheme on every window, studies on one or two."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.reproduction.lyra.replays import LyraRun
from experiments.reproduction.lyra.schemes import (
    BASELINE,
    BUSY,
    BUSY_FORTNIGHT,
    BY_KEY,
    COMPARED,
    ELASTIC,
    IMPERFECT,
    RESAMPLED,
    RESAMPLES,
    SJF,
    VARIED,
    WINDOWS,
    Scheme,
)
from experiments.reproduction.lyra.windows import LyraWindow

STUDIED_WINDOWS = 2  # of the windows, for what is varied one thing at a time
# A quick evaluation is of one window: no ranges, no resampled traces, no curves but for some ends.
QUICK_STUDIES = ("basic_loss20", "basic_wrong60", "loan_checkpoint80")
QUICK_BUSY = (BASELINE, SJF, "basic")


@dataclass(frozen=True)
class EvaluationPlan:
    """The windows that tables average over, the busy one, the resampled ones, and all runs."""

    windows: tuple[LyraWindow, ...]
    busy: LyraWindow
    resamples: tuple[LyraWindow, ...]
    runs: tuple[LyraRun, ...]


def full_plan() -> EvaluationPlan:
    """Return the plan of the page."""
    shares = [LyraRun(WINDOWS[0], scheme) for scheme in (*ELASTIC, *IMPERFECT)]
    return _plan(WINDOWS, BUSY_FORTNIGHT, RESAMPLES, _each(WINDOWS[:STUDIED_WINDOWS], VARIED) + shares)


def quick_plan() -> EvaluationPlan:
    """Return a plan of a few minutes: the compared schemes on the comparison's fortnight alone."""
    first = WINDOWS[:1]
    studies = _each(first, [BY_KEY[key] for key in QUICK_STUDIES])
    busy = [BY_KEY[key] for key in QUICK_BUSY]
    return _plan(first, BUSY_FORTNIGHT, (), studies, busy=busy)


def _plan(
    windows: Sequence[LyraWindow],
    busy_window: LyraWindow,
    resamples: Sequence[LyraWindow],
    studies: Sequence[LyraRun],
    *,
    busy: Sequence[Scheme] = BUSY,
) -> EvaluationPlan:
    compared = _each(windows, COMPARED) + _each([busy_window], busy) + _each(resamples, RESAMPLED)
    return EvaluationPlan(tuple(windows), busy_window, tuple(resamples), (*compared, *studies))


def _each(windows: Sequence[LyraWindow], schemes: Sequence[Scheme]) -> list[LyraRun]:
    return [LyraRun(window, scheme) for window in windows for scheme in schemes]
