"""Whether the log head takes pairs of features: if the jobs that ended last gain by them.

Pairs learn habits more closely, and habits change: what a pair gains all over the history, which is what bags
hold out, it may lose tomorrow. So a head without pairs and one with them are learned from the jobs that ended
before, and the newest ones judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lucid_models.boosting import BoostingSettings, boost
from lucid_models.duration.pair_choice import Pair, choose_pairs
from lucid_models.duration.taught_jobs import Floats, HeadSettings, TaughtJobs

_LN_10 = float(np.log(10.0))
# A head without pairs is the simpler one, and follows more easily: pairs must lower its error by this share.
_LEAST_GAIN = 0.005
# A trial asks which of several heads is best, not how good it can get: that costs a quarter.
_TRIAL_BAGS = 2
_TRIAL_ROUNDS = 400
_TRIAL_SMOOTHING_ROUNDS = 100
_TRIAL_ROWS = 40_000


@dataclass(frozen=True)
class TriedPairs:
    """How many pairs did best (0: none are taken), and which these are.

    `errors`: mean absolute error of log run time of `jobs` held-out jobs by number of pairs; `scores`: what
    the head that did best says of these jobs.
    """

    best: int = 0
    pairs: tuple[Pair, ...] = ()
    errors: Mapping[int, float] = field(default_factory=dict)
    jobs: int = 0
    scores: Floats = field(default_factory=lambda: np.empty(0))

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON; `gain`: of the pairs, if they are taken, in mean absolute error of log10."""
        errors = {number: error / _LN_10 for number, error in self.errors.items()}
        gain = errors[0] - errors[self.best] if errors else 0.0
        return {
            "best": self.best,
            "held_out_jobs": self.jobs,
            "mae_log10_by_pairs": {str(number): round(error, 6) for number, error in errors.items()},
            "gain": round(gain, 6),
        }


def try_pairs(earlier: TaughtJobs, later: TaughtJobs, settings: HeadSettings) -> TriedPairs:
    """Whether pairs lower the error of `later`, by heads learned from `earlier`, which ended before."""
    boosting = _quick(settings.boosting_of(earlier))
    blocks = earlier.blocks(settings.blocks)
    plain = boost(earlier.rows, earlier.logarithm, earlier.names, blocks, boosting, earlier.weights)
    strongest = choose_pairs(earlier, settings, boosting, plain)
    said = {0: plain.scorer.score(later.rows)}
    if strongest:
        with_pairs = replace(boosting, pairs=strongest)
        paired = boost(earlier.rows, earlier.logarithm, earlier.names, blocks, with_pairs, earlier.weights)
        said[len(strongest)] = paired.scorer.score(later.rows)
    errors = {number: float(np.abs(score - later.logarithm).mean()) for number, score in said.items()}
    all_pairs = len(strongest)
    best = all_pairs if errors[all_pairs] <= (1.0 - _LEAST_GAIN) * errors[0] else 0
    return TriedPairs(best, strongest[:best], errors, len(later), said[best])


def pairs_sentence(record: Mapping[str, Any]) -> str:
    """What `TriedPairs.to_data` says, for people; empty where nothing was tried."""
    errors = {int(number): error for number, error in record.get("mae_log10_by_pairs", {}).items()}
    if len(errors) < 2:
        return ""
    tried = " and ".join(f"{error:.4f} with {number or 'none'}" for number, error in errors.items())
    return (
        f"The estimate takes {'pairs' if record['best'] else 'no pairs'} of features together: the error "
        f"(log10) of the newest {record['held_out_jobs']:,} jobs by a model of those that ended before was "
        f"{tried}."
    )


def _quick(boosting: BoostingSettings) -> BoostingSettings:
    """The same settings at a fraction of the cost."""
    return replace(
        boosting,
        bags=min(boosting.bags, _TRIAL_BAGS),
        max_rounds=min(boosting.max_rounds, _TRIAL_ROUNDS),
        smoothing_rounds=min(boosting.smoothing_rounds, _TRIAL_SMOOTHING_ROUNDS),
        sample_rows=min(boosting.sample_rows or _TRIAL_ROWS, _TRIAL_ROWS),
    )
