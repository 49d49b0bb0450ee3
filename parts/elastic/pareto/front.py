"""Pareto fronts: which points are dominated, and how much space a front covers. All is minimised."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Point = Sequence[float]


def covers(front: Sequence[Point], other: Point, tolerance: float = 0.0) -> bool:
    """Whether some point of the front is nowhere worse than `other` (weak dominance, or attainment)."""
    return any(all(a <= b * (1 + tolerance) for a, b in zip(point, other, strict=True)) for point in front)


def front_positions(points: Sequence[Point]) -> list[int]:
    """Return the points that no other dominates, by the first value; of equal points the first."""
    positions: list[int] = []
    for position in sorted(range(len(points)), key=lambda i: (*points[i], i)):
        # With two objectives the last one found is the best in the second of all before.
        rivals = positions[-1:] if len(points[position]) == 2 else positions
        if not any(
            all(a <= b for a, b in zip(points[kept], points[position], strict=True)) for kept in rivals
        ):
            positions.append(position)
    return positions


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Return the volume that points dominate up to `reference`, for two objectives or more.

    By slices along the last objective (HSO, While et al. 2006): exact, and quick for the few hundred points
    of a front.
    """
    inside = [tuple(point) for point in points if all(a < b for a, b in zip(point, reference, strict=True))]
    if not inside:
        return 0.0
    if len(reference) == 1:
        return float(reference[0] - min(point[0] for point in inside))
    levels = sorted({point[-1] for point in inside})
    volume = 0.0
    for level, above in zip(levels, [*levels[1:], reference[-1]], strict=True):
        below = [point[:-1] for point in inside if point[-1] <= level]
        volume += (above - level) * hypervolume(
            [below[i] for i in front_positions(below)] if len(reference) > 2 else below, reference[:-1]
        )
    return volume
