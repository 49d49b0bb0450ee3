"""QSSF's estimate of every job of a log: rolling and trees' estimates mixed (Helios, section 4.2.2)."""

import numpy as np
import pandas as pd

from foundation.progress import Progress, silent
from lucid_models.evaluation.rival_estimates import Floats
from lucid_models.qssf.rolling import rolling_estimates_s
from lucid_models.qssf.rules import PUBLISHED, QssfRules
from lucid_models.qssf.trees import TreeUpdates, tree_estimates_s


def qssf_estimates_s(
    jobs: pd.DataFrame,
    rules: QssfRules = PUBLISHED,
    updates: TreeUpdates | None = None,
    *,
    progress: Progress = silent,
) -> Floats:
    """Return the estimated run time (s) of every job, shape (jobs,), at least 1 s.

    `jobs` are a job table's rows in order of submission, history first. Nothing that was not known at a job's
    submission is in its estimate. Before the trees' first fit the rolling estimate stands alone.
    """
    rolling = rolling_estimates_s(jobs, rules)
    if rules.rolling_weight == 1.0:
        return rolling
    return mixed_s(rolling, tree_estimates_s(jobs, updates, progress=progress), rules)


def mixed_s(rolling_s: Floats, trees_s: Floats, rules: QssfRules) -> Floats:
    """Mix two estimates of the same jobs by the rules; at least 1 s. Trees that say NaN say nothing."""
    alone = np.isnan(trees_s) | ((trees_s <= 0.0) & (not rules.trees_may_be_negative))
    mixed = rules.rolling_weight * rolling_s + (1.0 - rules.rolling_weight) * trees_s
    return np.maximum(np.where(alone, rolling_s, mixed), 1.0)
