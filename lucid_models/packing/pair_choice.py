"""Which pairs of features an additive model shall learn a joint shape of: few, so that it stays readable.

A first model without pairs is boosted on a sample. FAST (Lou et al., KDD 2013) then ranks the pairs of its
most important features by how much each explains of what is left, in blocks of time that the first model did
not learn from.
"""

import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lucid_models.boosting import BoostedModel, BoostingSettings, boost, sampled_rows

SAMPLE_ROWS = 20_000
_FIRST_ROUNDS = 400
_CANDIDATES = 20
# No feature takes part in more pairs than this: FAST alone would name one strong feature in all of them.
_MOST_PER_FEATURE = 4
_BINS = 16

Pair = tuple[int, int]


def choose_pairs(
    features: NDArray[np.float64],
    target: NDArray[np.float64],
    feature_names: Sequence[str],
    blocks: NDArray[np.intp],
    settings: BoostingSettings,
    most: int,
    excluded: Collection[str] = (),
    first: BoostedModel | None = None,
) -> tuple[Pair, ...]:
    """At most `most` pairs of feature positions, the strongest first; none with a feature in `excluded`.

    Shapes as in `boost`. `first`: a model without pairs of the whole table, if there is one already.
    """
    from interpret.utils import measure_interactions

    if most < 1 or len(feature_names) < 2:
        return ()
    rows = sampled_rows(blocks, SAMPLE_ROWS, settings.seed)
    matrix, values = features[rows], target[rows]
    if first is None:
        quick = replace(
            settings, bags=2, max_rounds=min(settings.max_rounds, _FIRST_ROUNDS), sample_rows=None
        )
        first = boost(matrix, values, feature_names, blocks[rows], quick)
        held_out = first.held_out_scores
    else:
        held_out = first.held_out_scores[rows]
    importance = first.scorer.importances()
    allowed = [
        term.features[0]
        for term in (first.scorer.terms[i] for i in np.argsort(-importance, kind="stable"))
        if feature_names[term.features[0]] not in excluded
    ][:_CANDIDATES]
    candidates = [(one, other) for i, one in enumerate(allowed) for other in allowed[i + 1 :]]
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
            feature_names=list(feature_names),
            feature_types=["continuous"] * len(feature_names),
            objective="rmse",
            max_interaction_bins=_BINS,
            min_samples_leaf=settings.min_samples_leaf,
        )
    used: Counter[int] = Counter()
    batch: list[Pair] = []
    for (one, other), strength in ranked:
        if len(batch) < most and strength > 0 and max(used[one], used[other]) < _MOST_PER_FEATURE:
            batch.append((int(one), int(other)))
            used.update((one, other))
    return tuple(batch)
