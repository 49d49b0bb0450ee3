"""What an operator may prefer: a metric and how it is summed up over jobs (PCS, section 3.2)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError, UnknownNameError
from parts.elastic.active_job import ActiveJob
from simulator.results.metrics import mean, percentile
from simulator.results.prediction_metrics import prediction_error_pct, unfairness

Floats = NDArray[np.float64]

METRICS = ("JCT", "unfairness", "Pred_err")
UNITS = {"JCT": "s", "unfairness": "of the fair time", "Pred_err": "%"}
AVERAGE = "avg"
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")


@dataclass(frozen=True)
class Objective:
    """A metric's measure, to be as small as possible.

    `metric` is JCT (completion time, s), unfairness (time beyond the fair one, as a share of it) or Pred_err
    (error of what was predicted, per cent of it); `measure` is avg, or a percentile such as p99 or p99.9.
    """

    metric: str
    measure: str = AVERAGE

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise UnknownNameError("metric", self.metric, METRICS)
        if self.measure != AVERAGE and not _PERCENTILE.fullmatch(self.measure):
            raise UnknownNameError("measure", self.measure, (AVERAGE, "a percentile such as p99"))

    def __str__(self) -> str:
        return f"{self.metric}:{self.measure}"

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """Read `METRIC:MEASURE`, or a metric alone: its average."""
        metric, _, measure = text.partition(":")
        return cls(metric.strip(), measure.strip() or AVERAGE)

    @property
    def title(self) -> str:
        """Return the objective with its unit."""
        return f"{self.measure} {self.metric} ({UNITS[self.metric]})"

    def of(self, values: Floats) -> float:
        """Sum up a metric's values, shape (jobs,); percentiles by linear interpolation."""
        return mean(values) if self.measure == AVERAGE else percentile(values, float(self.measure[1:]))


# What every evaluation tells besides what was asked for.
STANDARD = tuple(
    Objective(metric, measure) for metric in METRICS for measure in (AVERAGE, "p50", "p90", "p99")
)


def preference_of(stated: Sequence[Objective | str | tuple[str, str]]) -> tuple[Objective, ...]:
    """Read a preference: two or more objectives, as `("JCT", "avg")` or `"JCT:avg"`.

    A metric may come with several measures. Raises UnknownNameError, and BadInputError for one objective or
    the same twice.
    """
    objectives = []
    for item in stated:
        if isinstance(item, Objective):
            objectives.append(item)
        elif isinstance(item, str):
            objectives.append(Objective.parse(item))
        else:
            objectives.append(Objective(*item))
    if len(objectives) < 2 or len(set(objectives)) < len(objectives):
        raise BadInputError(
            f"The preference is {', '.join(map(str, objectives)) or 'empty'}.",
            remedy="State two or more different objectives, as in JCT:avg Pred_err:p99.",
        )
    return tuple(objectives)


def metric_values(ended: Sequence[ActiveJob]) -> dict[str, Floats]:
    """Return each metric's values, one a job that has ended; those that are not finite are left out."""
    submit, end, predicted, fair = (
        np.array(column, dtype=np.float64)
        for column in zip(
            *(
                (job.submit_time_s, job.end_time_s, job.predicted_end_time_s, job.fair_duration_s)
                for job in ended
            ),
            strict=True,
        )
    )
    jct = end - submit
    values = {
        "JCT": jct,
        "unfairness": unfairness(jct, fair),
        "Pred_err": prediction_error_pct(predicted - submit, jct),
    }
    return {name: found[np.isfinite(found)] for name, found in values.items()}


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
