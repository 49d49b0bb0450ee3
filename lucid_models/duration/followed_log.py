"""What the heads of the duration model say of a log's jobs, calibrated by those that started meanwhile: the
scorer at the log's end, and each job's quantiles at its submission.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.duration.calibrated_replay import offsets_at_submissions
from lucid_models.duration.calibration import RunTimeCalibration
from lucid_models.duration.heads import Heads
from lucid_models.duration.job_replay import stream_summary
from lucid_models.duration.replayed_log import ReplayedLog
from lucid_models.duration.residual_hazards import LEVELS
from lucid_models.duration.scorer import MAX_DURATION_S, DurationScorer, ResidualQuantiles

_RESIDUAL_KNOTS = 12
# So many residuals speak for a median as loudly as the head itself.
_TRUSTED_RESIDUALS = 200


@dataclass(frozen=True)
class FollowedLog:
    """A scorer at the end of a log, and of each of its jobs the quantiles of log run time that were said
    and the offsets at its submission, shape (jobs, levels).
    """

    scorer: DurationScorer
    said: NDArray[np.float64]
    offsets: NDArray[np.float64]

    def quantiles(self, jobs: NDArray[np.bool_]) -> pd.DataFrame:
        """As `WorkloadEstimateModel.quantiles_causal`, of some of the jobs."""
        return quantiles_of(self.scorer, self.said[jobs], self.offsets[jobs])

    def before_constraints(self, log: ReplayedLog, taught: NDArray[np.bool_], heads: Heads) -> "FollowedLog":
        """The same before the monotone constraints, with what calibrates the held head."""
        free = replace(heads, held=replace(heads.held, scorer=heads.held.before))
        free = replace(free, held_out_scores=heads.log.held_out_scores)
        residuals, said = _said(log, taught, free)
        return FollowedLog(_scorer(log, free, residuals, self.scorer.calibration), said, self.offsets)


def follow(log: ReplayedLog, taught: NDArray[np.bool_], heads: Heads) -> FollowedLog:
    """Let the calibration live through the log with what the heads, which learned from the jobs `taught`, say
    of its jobs.
    """
    residuals, said = _said(log, taught, heads)
    until_s = log.settings.known_until_s
    offsets, calibration = offsets_at_submissions(RunTimeCalibration(), log.stream, said, until_s=until_s)
    return FollowedLog(_scorer(log, heads, residuals, calibration), said, offsets)


def _said(
    log: ReplayedLog, taught: NDArray[np.bool_], heads: Heads
) -> tuple[ResidualQuantiles, NDArray[np.float64]]:
    """The residuals of the jobs taught, by bags that did not learn from them; and what is said of each job
    that was submitted, shape (jobs, levels), NaN for others.
    """
    residuals = residual_quantiles(heads.held_out_scores, heads.logarithm)
    others = log.submitted & ~taught
    said = np.full((len(taught), len(LEVELS)), np.nan)
    said[taught] = residuals.of(heads.held_out_scores)
    said[others] = residuals.of(heads.held.scorer.score(log.rows_of(others)))
    return residuals, said


def _scorer(
    log: ReplayedLog, heads: Heads, residuals: ResidualQuantiles, calibration: RunTimeCalibration
) -> DurationScorer:
    return DurationScorer(
        log.state,
        heads.held.scorer,
        heads.mean,
        heads.scale_s,
        residuals,
        float(min(2.0 * np.exp(heads.logarithm.max()), MAX_DURATION_S)),
        {
            **stream_summary(log.stream),
            "known_until_s": log.settings.known_until_s,
            "levels": log.levels,
            **heads.record(),
        },
        calibration,
    )


def quantiles_of(
    scorer: DurationScorer, said: NDArray[np.float64], offsets: NDArray[np.float64]
) -> pd.DataFrame:
    """Columns p50_s and p90_s, and the offsets of log run time in them."""
    p50, p90 = scorer.calibrated_seconds(said, offsets)
    return pd.DataFrame(
        {"p50_s": p50, "p90_s": p90, "p50_offset": offsets[:, 0], "p90_offset": offsets[:, 1]}
    )


def residual_quantiles(scores: NDArray[np.float64], logarithm: NDArray[np.float64]) -> ResidualQuantiles:
    """Median and 90th percentile of held-out residuals in groups of jobs with similar scores.

    The median, which moves point estimates, is drawn to zero as far as a group's jobs are few: the head aims
    at medians itself, and those of a few dozen jobs are of their day.
    """
    order = np.argsort(scores, kind="stable")
    groups = min(_RESIDUAL_KNOTS, max(len(order) // 50, 1))
    knots: list[float] = []
    middle: list[float] = []
    upper: list[float] = []
    for group in np.array_split(order, groups):
        residual = logarithm[group] - scores[group]
        knot = float(scores[group].mean())
        if not knots or knot > knots[-1]:
            knots.append(knot)
            trust = len(group) / (len(group) + _TRUSTED_RESIDUALS)
            middle.append(trust * float(np.quantile(residual, 0.5)))
            upper.append(float(np.quantile(residual, 0.9)))
    return ResidualQuantiles(np.array(knots), np.array(middle), np.array(upper))
