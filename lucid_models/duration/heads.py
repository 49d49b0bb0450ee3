"""The two heads of the duration model, learned from the jobs of a log."""

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.progress import Progress
from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.bin_finder import bin_of
from lucid_models.boosting import BoostedModel, BoostingSettings, affordable, boost, sampled_rows
from lucid_models.duration.job_columns import FACTS
from lucid_models.duration.levels import NAIVE, learned_features
from lucid_models.duration.scorer import MAX_DURATION_S
from lucid_models.monotone import ConstrainedScorer, constrain

Floats = NDArray[np.float64]
Pair = tuple[int, int]

# Below so many jobs shapes are coarse, as they hold little: smoothing them by random rounds takes most of the
# time and helps no longer.
_FEW_JOBS = 2_000
_FEW_BINS = 64
_HOUR_S = 3_600.0
_SAMPLE_ROWS = 20_000
_JOBS_PER_PAIR = 250
_CANDIDATES = 20
# No feature takes part in more pairs than this: FAST alone would name one strong feature in all of them.
_MOST_PER_FEATURE = 4
_BINS = 16
_LN_10 = float(np.log(10.0))
# A head without pairs is the simpler one, and follows more easily: pairs must lower its error by this share.
_LEAST_GAIN = 0.005
# A trial asks which of several heads is best, not how good it can get: that costs a quarter.
_TRIAL_BAGS = 2
_TRIAL_ROUNDS = 400
_TRIAL_SMOOTHING_ROUNDS = 100
_TRIAL_ROWS = 40_000
# Of log run time: the naive estimate is read to 1.6 %.
_STEP = 1.0 / 32.0
_CUTS = np.arange(0.0, math.log(MAX_DURATION_S) + _STEP, _STEP)
# Weights of the shape functions that are tried; the rest is the naive estimate's.
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_EARLIER_SHARE = 0.75
# The naive estimate's prior weighs as much as so many held-out jobs.
_TRUSTED_JOBS = 150


@dataclass(frozen=True)
class TrainingJobs:
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

    def of(self, rows: NDArray[np.intp]) -> "TrainingJobs":
        """Some of the jobs."""
        weights = None if self.weights is None else self.weights[rows]
        return TrainingJobs(self.rows[rows], self.logarithm[rows], self.end_s[rows], self.names, weights)

    def with_features(self, features: NDArray[np.intp]) -> "TrainingJobs":
        """The same jobs, with some of their features."""
        names = tuple(self.names[feature] for feature in features)
        return TrainingJobs(self.rows[:, features], self.logarithm, self.end_s, names, self.weights)

    def split_by_end(self, share: float) -> tuple["TrainingJobs", "TrainingJobs"]:
        """The share of the jobs that ended first, and those that ended later; each by submission."""
        in_order = np.argsort(self.end_s, kind="stable")
        edge = int(share * len(self))
        return self.of(np.sort(in_order[:edge])), self.of(np.sort(in_order[edge:]))


def crowd_weights(
    owners: Sequence[str], virtual_clusters: Sequence[str], submit_s: Floats, until_s: float
) -> Floats:
    """How much each job counts, shape (jobs,): n^-1/2 where its owner submitted n jobs in the same hour of
    Unix time, by `until_s`.

    Jobs of one script are submitted in crowds, run alike and say little more than one of them: without
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
    # n^-1/2: between counting every job (a crowd of hundreds is the loss) and every crowd once (a hundred
    # runs then say no more of a script than one does).
    weights: Floats = np.array([max(sizes[crowd], 1) for crowd in crowds], dtype=np.float64) ** -0.5
    return weights


@dataclass(frozen=True)
class HeadSettings:
    """How the head is boosted: at most `pairs` pairs of features, none of `unpaired`, in `blocks` of time."""

    boosting: BoostingSettings
    pairs: int
    blocks: int
    unpaired: tuple[str, ...]

    def boosting_of(self, jobs: TrainingJobs) -> BoostingSettings:
        """The settings that a table of this size is boosted with."""
        boosting = affordable(self.boosting, *jobs.rows.shape)
        if len(jobs) >= _FEW_JOBS:
            return boosting
        return replace(boosting, max_bins=min(boosting.max_bins, _FEW_BINS), smoothing_rounds=0)


def choose_pairs(
    jobs: TrainingJobs, settings: HeadSettings, boosting: BoostingSettings, first: BoostedModel
) -> tuple[Pair, ...]:
    """As many pairs of feature positions as the settings and a table of this size allow, the strongest first:
    few, so that the model stays readable. FAST (Lou et al., KDD 2013) ranks them.

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
            # What is left to explain, by bags that did not see the row: of what the first model has fitted
            # to its own noise a pair would seem to explain the rest.
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


def try_pairs(earlier: TrainingJobs, later: TrainingJobs, settings: HeadSettings) -> TriedPairs:
    """Whether pairs lower the error of `later`, by heads learned from `earlier`, which ended before.

    Pairs learn habits more closely, and habits change: what a pair gains all over the history, which is what
    bags hold out, it may lose tomorrow. So the newest jobs judge.
    """
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


@dataclass(frozen=True)
class LearnedShare:
    """The weight of the shape functions, and how it was chosen: mean absolute errors of log run time by share
    of _SHARES on `jobs` held-out jobs (none: not tried).
    """

    share: float
    errors: tuple[float, ...] = ()
    jobs: int = 0

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        errors = {f"{share:g}": round(error, 6) for share, error in zip(_SHARES, self.errors, strict=False)}
        return {"learned_share": self.share, "held_out_jobs": self.jobs, "mae_log_by_share": errors}


@dataclass(frozen=True)
class LogHead:
    """The head, the scores of the jobs learned from by bags that did not learn from them, and how it was
    made.
    """

    scorer: AdditiveScorer
    held_out_scores: Floats
    boosting: BoostingSettings
    learned: LearnedShare
    tried: TriedPairs


def learn_log_head(jobs: TrainingJobs, settings: HeadSettings, chosen: LogHead | None = None) -> LogHead:
    """Learn shape functions of log run time, and how far the head leans on the naive estimate instead; raises
    BadInputError as `boost` does.

    The naive estimate of a job (`naive`: half the decayed mean of log run time, half the fast moving one, of
    the level that `level_search` takes) needs no training, follows run times wherever they go and is hard to
    beat on a few hundred jobs, too few for shapes that hold tomorrow. The weight of what is learned is chosen
    by the jobs that ended last, estimated by a head of those that ended before. All of it is one additive
    model: the naive estimate is the shape function of its feature, from which no other is learned (large logs
    would lose by it: Philly 3 %).

    Shape functions are of the `learned_features`. Without the feature `naive` they stand alone. `chosen`: a
    head of earlier jobs; its pairs and its share are kept.
    """
    places = learned_features(jobs.names)
    is_naive = [name.endswith(f":{NAIVE}") for name in jobs.names]
    tried, later = TriedPairs(), jobs
    if chosen is not None:
        tried = chosen.tried
    elif settings.pairs or any(is_naive):
        earlier, later = jobs.split_by_end(_EARLIER_SHARE)
        tried = try_pairs(earlier.with_features(places), later.with_features(places), settings)
    shown = jobs.with_features(places)
    boosting = replace(settings.boosting_of(shown), pairs=tried.pairs)
    boosted = boost(
        shown.rows, shown.logarithm, shown.names, shown.blocks(settings.blocks), boosting, shown.weights
    )
    scorer, held_out = boosted.scorer.among(jobs.names, places), boosted.held_out_scores
    pairs = tuple((int(places[one]), int(places[other])) for one, other in boosting.pairs)
    boosting = replace(boosting, pairs=pairs)
    if not any(is_naive):
        return LogHead(scorer, held_out, boosting, LearnedShare(1.0), tried)
    naive = _NaiveEstimate(is_naive.index(True), jobs)
    learned = (
        _learned_share(tried.scores, naive.of(later.rows), later.logarithm)
        if chosen is None
        else chosen.learned
    )
    return LogHead(
        naive.blended_with(scorer, learned.share),
        learned.share * held_out + (1.0 - learned.share) * naive.of(jobs.rows),
        boosting,
        learned,
        tried,
    )


def _learned_share(shapes: Floats, alone: Floats, truth: Floats) -> LearnedShare:
    """The share that does best on held-out jobs, of which the shape functions and the naive estimate say
    these logarithms, drawn to the latter as far as these jobs are few.
    """
    errors = tuple(float(np.abs(share * shapes + (1.0 - share) * alone - truth).mean()) for share in _SHARES)
    best = _SHARES[int(np.argmin(errors))]
    # A share that wins on a few jobs wins by chance. Shrinking by n / (n + k) is the weight that n
    # observations have beside a prior worth k of them (Bühlmann's credibility), and zero, the naive estimate,
    # is the prior.
    return LearnedShare(best * truth.size / (truth.size + _TRUSTED_JOBS), errors, truth.size)


class _NaiveEstimate:
    """The naive estimate as a shape function; where it is unknown, the median of the jobs learned from."""

    def __init__(self, feature: int, jobs: TrainingJobs) -> None:
        self.feature, self._names = feature, jobs.names
        self._usual = float(np.median(jobs.logarithm))
        # By bin of _CUTS: the middle of each, less the usual.
        middles = np.array([self._usual, _CUTS[0] - 0.5 * _STEP, *(_CUTS + 0.5 * _STEP), self._usual])
        self._scores = middles - self._usual
        bins = bin_of(jobs.rows[:, feature], _CUTS)
        self._weights = np.bincount(bins, minlength=middles.size).astype(np.float64)

    def of(self, rows: Floats) -> Floats:
        """The estimate of log run time of each row."""
        estimates: Floats = self._usual + self._scores[bin_of(rows[:, self.feature], _CUTS)]
        return estimates

    def blended_with(self, shapes: AdditiveScorer, share: float) -> AdditiveScorer:
        """A share of shape functions, and the estimate for the rest, as one model."""
        terms = [
            replace(
                term,
                scores=share * term.scores,
                spread=None if term.spread is None else share * term.spread,
            )
            for term in shapes.terms
        ]
        rest = 1.0 - share
        # The band of a term is how far bags disagree; this one is not learned, so none of them does.
        alike = np.zeros_like(self._scores)
        terms.append(Term((self.feature,), (_CUTS,), rest * self._scores, self._weights, alike))
        intercept = share * shapes.intercept + rest * self._usual
        return AdditiveScorer(self._names, terms, intercept, shapes.link)


@dataclass(frozen=True)
class Heads:
    """The log head, held to the monotone constraints and before, and the mean head (in units of `scale_s`,
    the mean run time), with the log run times that they learned from.
    """

    log: LogHead
    held: ConstrainedScorer
    held_out_scores: Floats  # of the log head as it is held, of the jobs learned from
    mean: AdditiveScorer
    mean_boosting: BoostingSettings
    scale_s: float
    logarithm: Floats

    def record(self) -> dict[str, Any]:
        """How they were made, for a model's record of its training."""
        return {
            "rows": len(self.logarithm),
            "log_boosting": self.log.boosting.to_data(),
            "learned": self.log.learned.to_data(),
            "pairs": self.log.tried.to_data(),
            "mean_boosting": self.mean_boosting.to_data(),
            "monotone": dict(self.held.directions),
        }


def learn_heads(
    jobs: TrainingJobs,
    settings: HeadSettings,
    mean_settings: BoostingSettings,
    monotone: Mapping[str, str],
    progress: Progress,
    chosen: LogHead | None = None,
) -> Heads:
    """Learn from the jobs; `chosen`: a log head of earlier ones; its pairs and share of the naive estimate
    are kept. Raises BadInputError as `boost` does.
    """
    progress(0, 2, "boosting the log head")
    log = learn_log_head(jobs, settings, chosen)
    progress(1, 2, "boosting the mean head")
    duration = np.exp(jobs.logarithm)
    scale_s = float(duration.mean())
    places = learned_features(jobs.names)
    shown = jobs.with_features(places)
    boosting = affordable(mean_settings, *shown.rows.shape)
    mean = boost(shown.rows, duration / scale_s, shown.names, shown.blocks(settings.blocks), boosting).scorer
    progress(2, 2, "boosting done")
    held = constrain(log.scorer, monotone, FACTS)
    return Heads(
        log,
        held,
        log.held_out_scores + held.moved(jobs.rows),
        mean.among(jobs.names, places),
        boosting,
        scale_s,
        jobs.logarithm,
    )
