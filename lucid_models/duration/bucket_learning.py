"""Finds the buckets of the names of past jobs: Levenshtein distance and affinity propagation, as in Lucid.

Learning reads names alone, never run times. Affinity propagation costs the square of the number of names, so
it sees at most `most_at_once` families, the most frequent first; every other family goes to the nearest
exemplar, and those that are near none are learned from in the next round. With up to `most_at_once` families
this is affinity propagation itself.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from lucid_models.duration.name_buckets import LONGEST, MOST_EXEMPLARS, UNNAMED, NameBuckets, name_family

MOST_DISTANCE = 0.5  # the share of the longer name's letters that may differ
_ROUNDS = 4
_DAMPING, _ITERATIONS = 0.9, 400  # of the propagation
# A sample's buckets are at most this many times as fine as its own affinity propagation would make them.
FINEST = 4.0


def learn_buckets(names: Iterable[str], *, most_at_once: int = 1_000) -> NameBuckets:
    """Buckets of the names of past jobs (an entry a job or a name); their order does not matter."""
    frequency = Counter(name_family(name)[:LONGEST] for name in names if name and name != UNNAMED)
    to_cover = sorted(frequency, key=lambda family: (-frequency[family], family))
    exemplars: list[str] = []
    for _ in range(_ROUNDS):
        if not to_cover or len(exemplars) >= MOST_EXEMPLARS:
            break
        batch_exemplars = affinity_exemplars(to_cover[:most_at_once], stand_for=len(to_cover))
        exemplars += batch_exemplars[: MOST_EXEMPLARS - len(exemplars)]
        to_cover = _far_from_all(to_cover[most_at_once:], batch_exemplars)
    return NameBuckets(exemplars, MOST_DISTANCE)


def affinity_exemplars(families: Sequence[str], *, stand_for: int | None = None) -> list[str]:
    """Exemplars of distinct names by affinity propagation (Frey and Dueck, 2007), in the order of `families`.

    The preference is the median similarity. When the names are a sample that stands for `stand_for` names, it
    is weighed down in proportion (up to FINEST): each of them then speaks for so many, and the buckets come
    out as fine as those of all names would. A name that is near none of the exemplars found becomes one.
    """
    from sklearn.cluster import AffinityPropagation
    from sklearn.exceptions import ConvergenceWarning

    if len(families) <= 2:
        return list(families)
    similarity = -cdist(families, families, scorer=Levenshtein.normalized_distance, workers=1).astype(
        np.float64
    )
    others = similarity[~np.eye(len(families), dtype=np.bool_)]
    weight = min(max((stand_for or 0) / len(families), 1.0), FINEST)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clustering = AffinityPropagation(
            affinity="precomputed",
            preference=float(np.median(others)) / weight,
            damping=_DAMPING,
            max_iter=_ITERATIONS,
            random_state=0,
        ).fit(similarity)
    exemplars = [families[i] for i in sorted(np.ravel(clustering.cluster_centers_indices_).tolist())]
    return [*exemplars, *_far_from_all(families, exemplars)]


def _far_from_all(families: Sequence[str], exemplars: Sequence[str]) -> list[str]:
    """The families that no exemplar is near to."""
    if not exemplars:
        return list(families)
    far: list[str] = []
    for first in range(0, len(families), 4_096):
        chunk = families[first : first + 4_096]
        nearest = cdist(
            chunk, exemplars, scorer=Levenshtein.normalized_distance, score_cutoff=MOST_DISTANCE, workers=1
        ).min(axis=1)
        far += [
            family
            for family, distance in zip(chunk, nearest.tolist(), strict=True)
            if distance > MOST_DISTANCE
        ]
    return far
