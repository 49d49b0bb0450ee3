"""Which jobs a job's naive estimate looks at: those of its user and name, of its size, or what else did best.

The naive estimate needs no training, so that the whole history judges it: each job by what had ended when it
was submitted. Even a log that is too short to choose levels by what they add to one another tells this.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from lucid_models.duration.features import DurationFeatureSettings, DurationFeatureState
from lucid_models.duration.job_replay import replay
from lucid_models.duration.level_search import LevelChoice
from lucid_models.duration.levels import ALL, NAIVE, PARTS, Level, hierarchy, is_coarser
from lucid_models.duration.tables import job_stream

# More of the newest jobs cost time and say the same.
_MOST_JOBS = 4_000
_MOST_PARTS = 3


def best_naive_level(
    jobs: pd.DataFrame, choice: LevelChoice, settings: DurationFeatureSettings
) -> tuple[str, ...]:
    """The parts of the level whose naive estimate of log run time is the nearest to the truth, on average.

    `jobs` have run times and are in the order of submission. Candidates are the chosen levels and what up to
    three of their parts make together; of two that are as good, the one of more parts is taken, which falls
    back on the other.
    """
    newest = jobs.tail(_MOST_JOBS).reset_index(drop=True)
    candidates = [replace(level, naive=True, last_runs=False, flights=False) for level in _candidates(choice)]
    state = DurationFeatureState(candidates, (), settings, choice.buckets)
    stream = job_stream(newest, state)
    truth = np.log(np.maximum(stream.duration_s, 1.0))
    rows = replay(state, stream)
    estimates = {
        level.parts: rows[:, state.names.index(f"{level.name}:{NAIVE}")]
        for level in candidates
        if level.name != ALL
    }
    usual = float(np.median(truth))
    errors = {
        parts: round(float(np.abs(np.nan_to_num(estimate, nan=usual) - truth).mean()), 9)
        for parts, estimate in estimates.items()
    }
    return min(errors, key=lambda parts: (errors[parts], -len(parts)), default=())


def _candidates(choice: LevelChoice) -> tuple[Level, ...]:
    chosen = [level.parts for level in choice.levels]
    alone = sorted((parts[0] for parts in chosen if len(parts) == 1), key=PARTS.index)
    return hierarchy([*chosen, *(joined for joined in _joined(alone) if joined not in chosen)])


def _joined(parts: list[str]) -> Iterator[tuple[str, ...]]:
    """Two and more of the parts, none of which tells another (a name its family)."""
    for number in range(2, _MOST_PARTS + 1):
        for joined in combinations(parts, number):
            if not any(is_coarser((one,), (other,)) for one in joined for other in joined):
                yield joined
