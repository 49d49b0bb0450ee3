"""What a black box on the same features knows that the duration model does not, in words.

On which jobs it is the better one, and whether shapes of single features, pairs of features or more of them
at once make it so: trees that may ask one, two or eight questions in a row say that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.model_quality import black_boxes
from lucid_models.evaluation.measures import Floats
from lucid_models.explanation.axes import feature_words

# A lead of less is not worth an explanation.
LEAST_LEAD = 0.02
# By the depth of trees that have it, what the lead is made of.
_MADE_OF = {
    1: "shapes of single features",
    2: "pairs of features",
    8: "three and more features at once",
}
_GROUPS_PER_SPLIT = 2
_FEATURES = 3
_LN_10 = float(np.log(10.0))


@dataclass(frozen=True)
class TaughtTable:
    """What a black box learns from and is tested on: features (jobs, names) and log run times (s)."""

    rows: Floats
    logarithm: Floats
    test_rows: Floats
    test_logarithm: Floats
    names: Sequence[str]


@dataclass(frozen=True)
class JobGroup:
    """Test jobs that have something in common, in words such as `of new users`; `inside` (jobs,) tells
    which. Groups of one `split` do not overlap.
    """

    split: str
    words: str
    inside: NDArray[np.bool_]


def black_box_lead(ours: Floats, theirs: Floats, groups: Sequence[JobGroup], table: TaughtTable) -> list[str]:
    """Sentences; one if the black box (LightGBM) is not ahead by LEAST_LEAD of the model's error or more.

    `ours` and `theirs` are absolute errors of log10 run time of the same test jobs, shape (jobs,).
    """
    lead = float((ours - theirs).mean())
    if lead <= LEAST_LEAD * float(ours.mean()):
        return [f"LightGBM on the same features is not ahead by more than {LEAST_LEAD:.0%}."]
    off_by = f"{theirs.mean():.4f} of log10, the model by {ours.mean():.4f}"
    return [
        f"LightGBM on the same features is off by {off_by}: {lead / ours.mean():.1%} less.",
        *_where(ours - theirs, groups),
        _by_depth(float(ours.mean()), _errors_by_depth(table)),
        _by_feature(table),
    ]


def _where(gains: Floats, groups: Sequence[JobGroup]) -> list[str]:
    """Of each split the groups that hold most of the lead, where it is more than their share of the jobs."""
    sentences = []
    for split in dict.fromkeys(group.split for group in groups):
        shares = [
            (float(gains[group.inside].sum() / gains.sum()), float(group.inside.mean()), group.words)
            for group in groups
            if group.split == split
        ]
        telling = sorted(share for share in shares if share[0] > share[1])[::-1][:_GROUPS_PER_SPLIT]
        if telling and len(shares) > 1:
            parts = [f"{of_lead:.0%} on jobs {words} ({jobs:.0%} of all)" for of_lead, jobs, words in telling]
            sentences.append(f"Of the lead {' and '.join(parts)}.")
    return sentences


def _errors_by_depth(table: TaughtTable) -> dict[int, float]:
    """Mean absolute error of log10 run time of trees that ask at most so many questions in a row."""
    errors = {}
    for depth in _MADE_OF:
        trees = black_boxes.fit_regressor(
            "lightgbm", table.rows, table.logarithm, loss="l1", most_depth=depth
        )
        errors[depth] = float(np.abs(trees.predict(table.test_rows) - table.test_logarithm).mean()) / _LN_10
    return errors


def _by_depth(ours: float, errors: Mapping[int, float]) -> str:
    """What the lead is made of: the first depth that has most of what the best one gains."""
    measured = ", ".join(f"{error:.4f} at depth {depth}" for depth, error in errors.items())
    best = min(errors.values())
    if best >= ours:
        return f"Trees of no depth tried reach it ({measured}): it is of how they are grown."
    shallow = next(depth for depth, error in errors.items() if ours - error >= 0.5 * (ours - best))
    return f"It is mostly of {_MADE_OF[shallow]}: trees are off by {measured}."


def _by_feature(table: TaughtTable) -> str:
    """The features by which the trees' gain comes."""
    trees = black_boxes.fit_regressor("lightgbm", table.rows, table.logarithm, loss="l1")
    gains = trees.gains()
    strongest = np.argsort(-gains, kind="stable")[:_FEATURES]
    parts = [f"{feature_words(table.names[at])} ({gains[at] / gains.sum():.0%})" for at in strongest]
    return f"Its gain comes by {', '.join(parts)}."
