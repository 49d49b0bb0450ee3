"""Which pairs of features an additive model shall learn a joint shape of: few, so that it stays readable.

A first model without pairs is boosted on a sample. FAST (Lou et al., KDD 2013) then ranks the pairs of its
most important features by how much each explains of what is left, in blocks of time that the first model did
not learn from.
"""

import warnings
from collections import Counter
from itertools import combinations

import numpy as np

from lucid_models.boosting import BoostedModel, BoostingSettings, sampled_rows
from lucid_models.duration.taught_jobs import HeadSettings, TaughtJobs

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
