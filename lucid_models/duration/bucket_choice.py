"""Whether buckets of names help on a log: tried on its own history, later jobs held back.

The newest jobs of the training table are replayed twice, with and without the levels of name buckets; buckets
come from the names of the earlier part only, so that the later part holds new names as the future will.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lucid_models.boosting import BoostingSettings, boost
from lucid_models.duration.bucket_learning import learn_buckets
from lucid_models.duration.features import DurationFeatureSettings, DurationFeatureState
from lucid_models.duration.job_keys import name_family
from lucid_models.duration.job_replay import replay
from lucid_models.duration.name_buckets import NameBuckets
from lucid_models.duration.tables import choose_facts, choose_levels, job_stream

TRIAL_JOBS = 20_000
LEAST_JOBS = 1_000
_LEARNED_SHARE = 0.7
_TRIAL_ROUNDS = 300
_LEAST_FAMILIES = 20
# By how much the mean absolute error of log run time must fall for buckets to be kept.
_LEAST_GAIN = 0.002


@dataclass(frozen=True)
class BucketChoice:
    """The buckets to use (None: they do not help, or there is nothing to bucket) and what was measured."""

    buckets: NameBuckets | None
    record: dict[str, Any]


def choose_buckets(
    jobs: pd.DataFrame, settings: DurationFeatureSettings, boosting: BoostingSettings
) -> BucketChoice:
    """Buckets of the names of `jobs` (in the order of submission, known at the time of training)."""
    if "name" not in choose_levels(jobs):
        return BucketChoice(None, {"kept": False, "why": "no names"})
    if len(jobs) < LEAST_JOBS:
        return BucketChoice(None, {"kept": False, "why": f"{len(jobs)} jobs are too few to try"})
    names = jobs["name"].dropna().astype(str)
    families = {name_family(name) for name in names.unique()}
    if len(families) < _LEAST_FAMILIES:
        return BucketChoice(None, {"kept": False, "why": f"{len(families)} families of names"})
    trial = jobs.iloc[-TRIAL_JOBS:].reset_index(drop=True)
    cut = int(_LEARNED_SHARE * len(trial))
    buckets = learn_buckets(trial["name"].iloc[:cut].dropna().astype(str))
    if len(buckets.exemplars) >= len(families):
        return BucketChoice(None, {"kept": False, "why": "no two names are similar"})
    small = replace(boosting, bags=2, max_rounds=min(boosting.max_rounds, _TRIAL_ROUNDS), sample_rows=None)
    plain = _trial_error(trial, cut, settings, small, None)
    bucketed = _trial_error(trial, cut, settings, small, buckets)
    gain = 1.0 - bucketed / plain if plain > 0 else 0.0
    record = {"mae_without": plain, "mae_with": bucketed, "kept": gain >= _LEAST_GAIN}
    return BucketChoice(learn_buckets(names) if record["kept"] else None, record)


def _trial_error(
    trial: pd.DataFrame,
    cut: int,
    settings: DurationFeatureSettings,
    boosting: BoostingSettings,
    buckets: NameBuckets | None,
) -> float:
    """Mean absolute error of log run time on the jobs from `cut` on, learned from those before it."""
    state = DurationFeatureState(
        choose_levels(trial, buckets=buckets is not None), choose_facts(trial), settings, buckets
    )
    stream = job_stream(trial, state)
    known = ~np.isnan(stream.duration_s)
    features = replay(state, stream, scored=known)
    target = np.log(np.maximum(stream.duration_s[known], 1.0))
    cut_s = stream.submit_s[cut]
    # A job that was still running at the cut is neither learned from nor judged by.
    learned = (stream.end_s <= cut_s)[known]
    judged = (stream.submit_s >= cut_s)[known]
    if learned.sum() < 2 or not judged.any():
        return 0.0
    blocks: NDArray[np.intp] = np.arange(int(learned.sum())) * 10 // int(learned.sum())
    model = boost(features[learned], target[learned], state.names, blocks, boosting)
    return float(np.abs(model.scorer.score(features[judged]) - target[judged]).mean())
