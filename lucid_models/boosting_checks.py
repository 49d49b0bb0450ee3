"""What boosting refuses: tables that cannot be learned from, and models that did not converge."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError

MAX_TARGET = 1e15
# A prediction of a training row lies within the targets, widened by so many times their width.
_LEEWAY = 10.0


def check_table(
    matrix: NDArray[Any],
    target: NDArray[np.float64],
    feature_names: Sequence[str],
    blocks: NDArray[np.intp],
    weights: NDArray[np.float64] | None,
    pairs: Sequence[tuple[int, int]],
    objective: str,
    domain: str,
) -> None:
    """Refuse a training table that cannot be learned from; arguments as in `boosting.boost`.

    `domain`: the targets that the objective is defined for ("any", "not negative", "positive").
    """
    for pair in pairs:
        if len(set(pair)) != 2 or not all(0 <= position < len(feature_names) for position in pair):
            raise BadInputError(
                f"The pair of features {pair} does not name two of {len(feature_names)} features.",
                remedy="Give two positions, counted from 0.",
            )
    shapes = {"target": target.shape, "blocks": np.shape(blocks)}
    if weights is not None:
        shapes["weights"] = np.shape(weights)
    if matrix.ndim != 2 or not matrix.size or matrix.shape[1] != len(feature_names):
        raise BadInputError(
            f"Features of shape {matrix.shape} do not fit {len(feature_names)} names.",
            remedy="Give a matrix of rows x features with at least one row.",
        )
    for name, shape in shapes.items():
        if shape != matrix.shape[:1]:
            raise BadInputError(
                f"{name} has shape {shape} for {len(matrix)} rows of features.",
                remedy="Give one value a row.",
            )
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(target) <= MAX_TARGET)
        if domain == "positive":
            wrong |= target <= 0
        elif domain == "not negative":
            wrong |= target < 0
    if wrong.any():
        row = int(np.argmax(wrong))
        kind = "finite" if domain == "any" else domain
        raise BadInputError(
            f"{int(wrong.sum())} of {len(target)} targets cannot be learned with {objective}: row "
            f"{row} holds {float(target[row])!r}.",
            remedy=f"Give targets that are {kind} and at most {MAX_TARGET:g}; leave unknown ones out.",
        )
    if weights is not None and not ((weights > 0) & np.isfinite(weights)).all():
        row = int(np.argmin((weights > 0) & np.isfinite(weights)))
        raise BadInputError(
            f"The weight of row {row} is {float(weights[row])!r}.", remedy="Give finite weights above zero."
        )


def check_scores(scores: NDArray[np.float64], target: NDArray[np.float64], link: str) -> None:
    """Refuse scores of training rows that are not finite, or far outside of the targets."""
    if not np.isfinite(scores).all():
        raise diverged("to infinite scores")
    if link == "log":
        positive = target[target > 0]
        # Without any positive target every score says "next to nothing".
        low, high = (np.log(positive.min()), np.log(positive.max())) if positive.size else (-np.inf, 0.0)
        low = low if positive.size == target.size else -np.inf
    else:
        low, high = float(target.min()), float(target.max())
    room = _LEEWAY * max(high - low, 1.0, abs(high) * 1e-6) if np.isfinite(low) else 10 * _LEEWAY
    if scores.min() < low - room or scores.max() > high + room:
        scores_text = f"to scores from {scores.min():.3g} to {scores.max():.3g}"
        raise diverged(f"{scores_text} for targets from {low:.3g} to {high:.3g}")


class DivergedError(BadInputError):
    """A training did not converge."""


def diverged(how: str) -> DivergedError:
    """The error of a training that did not converge."""
    return DivergedError(
        f"Training diverged {how}.", remedy="Scale the target, lower the learning rate or change the loss."
    )
