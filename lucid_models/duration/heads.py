"""The two heads of the duration model, learned from the jobs of a log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from foundation.progress import Progress
from lucid_models.additive_scorer import AdditiveScorer
from lucid_models.boosting import BoostingSettings, affordable, boost
from lucid_models.duration.job_columns import FACTS
from lucid_models.duration.levels import learned_features
from lucid_models.duration.log_head import LogHead, learn_log_head
from lucid_models.duration.taught_jobs import Floats, HeadSettings, TaughtJobs
from lucid_models.monotone import ConstrainedScorer, constrain


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
