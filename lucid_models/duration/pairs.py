"""Whether the log head takes pairs of features: if the jobs that ended last gain by them.

Pairs learn habits more closely, and habits change: what a pair gains all over the history, which is what bags
hold out, it may lose tomorrow. So a head without pairs and one with them are learned from the jobs that ended
before, and the newest ones judge.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.boosting import BoostedModel, BoostingSettings, affordable, boost, sampled_rows

# What a head of the duration model is learned from, and how it is boosted.


Floats = NDArray[np.float64]

# Below so many jobs shapes are coarse, as they hold little: smoothing them by random rounds takes most of the
# time and helps no longer.
_FEW_JOBS = 2_000
_FEW_BINS = 64
_HOUR_S = 3_600.0


@dataclass(frozen=True)
class TaughtJobs:
    """What is learned from, by submission: features (jobs, names), log run times, ends (Unix s), and how much
    each job counts (`crowd_weights`; None: all the same).
    """

    rows: Floats
    logarithm: Floats
    end_s: Floats
    names: tuple[str, ...]
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.logarithm)

    def blocks(self, count: int) -> NDArray[np.intp]:
        """The block of time of each job, of `count` with as many jobs each."""
        return np.arange(len(self), dtype=np.intp) * count // max(len(self), 1)

    def of(self, rows: NDArray[np.intp]) -> "TaughtJobs":
        """Some of the jobs."""
        weights = None if self.weights is None else self.weights[rows]
        return TaughtJobs(self.rows[rows], self.logarithm[rows], self.end_s[rows], self.names, weights)

    def with_features(self, features: NDArray[np.intp]) -> "TaughtJobs":
        """The same jobs, with some of their features."""
        names = tuple(self.names[feature] for feature in features)
        return TaughtJobs(self.rows[:, features], self.logarithm, self.end_s, names, self.weights)

    def split_by_end(self, share: float) -> tuple["TaughtJobs", "TaughtJobs"]:
        """The share of the jobs that ended first, and those that ended later; each by submission."""
        in_order = np.argsort(self.end_s, kind="stable")
        edge = int(share * len(self))
        return self.of(np.sort(in_order[:edge])), self.of(np.sort(in_order[edge:]))


def crowd_weights(
    owners: Sequence[str], virtual_clusters: Sequence[str], submit_s: Floats, until_s: float
) -> Floats:
    """How much each job counts, shape (jobs,): n^-1/2 where its owner submitted n jobs in the same hour of
    Unix time, by `until_s`.

    Jobs of one script are submitted in crowds, run alike and tell little more than one of them: without
    weights shapes learn the few scripts of the training days. Where a job's owner is unknown (""), its
    virtual cluster stands for it.
    """
    hours = (submit_s // _HOUR_S).tolist()
    whose = (
        (owner, "") if owner else ("", home) for owner, home in zip(owners, virtual_clusters, strict=True)
    )
    crowds = list(zip(whose, hours, strict=True))
    sizes = Counter(
        crowd for crowd, is_known in zip(crowds, (submit_s <= until_s).tolist(), strict=True) if is_known
    )
    weights: Floats = np.array([max(sizes[crowd], 1) for crowd in crowds], dtype=np.float64) ** -0.5
    return weights


@dataclass(frozen=True)
class HeadSettings:
    """How the head is boosted: at most `pairs` pairs of features, none of `unpaired`, in `blocks` of time."""

    boosting: BoostingSettings
    pairs: int
    blocks: int
    unpaired: tuple[str, ...]

    def boosting_of(self, jobs: TaughtJobs) -> BoostingSettings:
        """The settings that a table of this size is boosted with."""
        boosting = affordable(self.boosting, *jobs.rows.shape)
        if len(jobs) >= _FEW_JOBS:
            return boosting
        return replace(boosting, max_bins=min(boosting.max_bins, _FEW_BINS), smoothing_rounds=0)


# Which pairs of features an additive model shall learn a joint shape of: few, so that it stays readable.
#
# A first model without pairs is boosted on a sample. FAST (Lou et al., KDD 2013) then ranks the pairs of its
# most important features by how much each explains of what is left, in blocks of time that the first model
# did not learn from.


_SAMPLE_ROWS = 20_000
_JOBS_PER_PAIR = 250
_CANDIDATES = 20
# No feature takes part in more pairs than this: FAST alone would name one strong feature in all of them.
_MOST_PER_FEATURE = 4
_BINS = 16

Pair = tuple[int, int]


def choose_pairs(
    jobs: TaughtJobs, settings: HeadSettings, boosting: BoostingSettings, first: BoostedModel
) -> tuple[Pair, ...]:
    """As many pairs of feature positions as the settings and a table of this size allow, the strongest first.

    `first`: a model without pairs of all the jobs.
    """
    from interpret.utils import measure_interactions

    most = min(settings.pairs, len(jobs) // _JOBS_PER_PAIR)
    if most < 1 or len(jobs.names) < 2:
        return ()
    blocks = jobs.blocks(settings.blocks)
    rows = sampled_rows(blocks, _SAMPLE_ROWS, boosting.seed)
    matrix, values = jobs.rows[rows], jobs.logarithm[rows]
    held_out = first.held_out_scores[rows]
    importance = first.scorer.importances()
    allowed = [
        term.features[0]
        for term in (first.scorer.terms[i] for i in np.argsort(-importance, kind="stable"))
        if jobs.names[term.features[0]] not in settings.unpaired
    ][:_CANDIDATES]
    candidates = list(combinations(allowed, 2))
    if not candidates:
        return ()
    with warnings.catch_warnings():
        # Missing values are meant to be there, as in `boost`.
        warnings.filterwarnings("ignore", message="Missing values detected")
        ranked = measure_interactions(
            matrix,
            values,
            interactions=candidates,
            init_score=held_out,
            feature_names=list(jobs.names),
            feature_types=["continuous"] * len(jobs.names),
            objective="rmse",
            max_interaction_bins=_BINS,
            min_samples_leaf=boosting.min_samples_leaf,
        )
    used: Counter[int] = Counter()
    batch: list[Pair] = []
    for (one, other), strength in ranked:
        if len(batch) < most and strength > 0 and max(used[one], used[other]) < _MOST_PER_FEATURE:
            batch.append((int(one), int(other)))
            used.update((one, other))
    return tuple(batch)


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
