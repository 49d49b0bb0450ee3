"""The two heads of the duration model, learned from the jobs of a log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from foundation.progress import Progress
from lucid_models.additive_scorer import AdditiveScorer, Term
from lucid_models.bin_finder import bin_of
from lucid_models.boosting import BoostingSettings, affordable, boost
from lucid_models.duration.job_columns import FACTS
from lucid_models.duration.levels import NAIVE, learned_features
from lucid_models.duration.pairs import Floats, HeadSettings, TaughtJobs, TriedPairs, try_pairs
from lucid_models.duration.scorer import MAX_DURATION_S
from lucid_models.monotone import ConstrainedScorer, constrain

# Learns the log head: shape functions of log run time, and how far it leans on the naive estimate instead.
#
# The naive estimate of a job (`naive`: half the decayed mean of log run time, half the fast moving one, of
# the level that `level_search` takes) needs no training, follows run times wherever they go and is hard to
# beat on a few hundred jobs, whose shapes hold less of tomorrow. The weight of what was learned is chosen by
# the jobs that ended last, estimated by a head of those that ended before, and is the larger the more jobs
# say so. All of it is one additive model: the naive estimate is the shape function of its feature, from
# which no other is learned (large logs would lose by it: Philly 3 %).


# Of log run time: the naive estimate is read to 1.6 %.
_STEP = 1.0 / 32.0
_CUTS = np.arange(0.0, math.log(MAX_DURATION_S) + _STEP, _STEP)
# Weights of the shape functions that are tried; the rest is the naive estimate's.
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_EARLIER_SHARE = 0.75
# So many held-out jobs speak for a share as loudly as the naive estimate's good name.
_TRUSTED_JOBS = 150


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
    """The head, the scores of the taught jobs by bags that did not learn from them, and how it was made."""

    scorer: AdditiveScorer
    held_out_scores: Floats
    boosting: BoostingSettings
    learned: LearnedShare
    tried: TriedPairs


def learn_log_head(jobs: TaughtJobs, settings: HeadSettings, chosen: LogHead | None = None) -> LogHead:
    """Learn from the jobs; raises BadInputError as `boost` does.

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
    return LearnedShare(best * truth.size / (truth.size + _TRUSTED_JOBS), errors, truth.size)


class _NaiveEstimate:
    """The naive estimate as a shape function; where it is unknown, the median of the jobs taught."""

    def __init__(self, feature: int, jobs: TaughtJobs) -> None:
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
        # It is not learned: no bag says another thing of it.
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
    held_out_scores: Floats  # of the log head as it is held, of the jobs taught
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
    jobs: TaughtJobs,
    settings: HeadSettings,
    mean_settings: BoostingSettings,
    monotone: Mapping[str, str],
    progress: Progress,
    chosen: LogHead | None = None,
) -> Heads:
    """Learn from the jobs; `chosen`: a log head of earlier ones, whose pairs and share of the naive estimate
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
