"""How a rule set changes the speeds of two jobs that share their GPUs."""

from typing import TYPE_CHECKING

from simulator.workload.colocation import ColocationModel, MeasuredPairs
from simulator.workload.job import JobProfile

if TYPE_CHECKING:
    import pandas as pd


class PairsInOrder:
    """Measured pairs whose order counts: of two jobs of one type, the one that joins is the first.

    Such a pair has two speeds, and a simulator that looks it up by its types gives the job that joins the
    first of them. `MeasuredPairs` gives both the mean.
    """

    def __init__(self, pairs: "pd.DataFrame") -> None:
        self._pairs = MeasuredPairs(pairs, speed_max=None)
        alike = pairs[pairs["job_type_1"] == pairs["job_type_2"]]
        columns = ("job_type_1", "speed_1", "speed_2")
        self._alike = {
            str(kind): (float(first), float(second))
            for kind, first, second in zip(*(alike[column] for column in columns), strict=True)
        }

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return the speeds of the job that joins and of the one that is there."""
        if first is not None and second is not None and first.job_type == second.job_type:
            alike = self._alike.get(first.job_type or "")
            if alike is not None:
                return alike
        return self._pairs.speeds(first, second)


class RuledSpeeds:
    """A model's speeds, but at most `speed_max`, and 1 for a pair with one of `full_speed_models`.

    A job type's model is its part before the first slash.
    """

    def __init__(
        self,
        model: ColocationModel,
        speed_max: float | None = None,
        full_speed_models: tuple[str, ...] = (),
    ) -> None:
        self._model = model
        self._speed_max = float("inf") if speed_max is None else speed_max
        self._full_speed_models = frozenset(full_speed_models)

    def _runs_at_full_speed(self, profile: JobProfile | None) -> bool:
        kind = None if profile is None else profile.job_type
        return kind is not None and kind.partition("/")[0] in self._full_speed_models

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return both speeds; symmetric where the model is."""
        if self._runs_at_full_speed(first) or self._runs_at_full_speed(second):
            return 1.0, 1.0
        mine, theirs = self._model.speeds(first, second)
        return min(mine, self._speed_max), min(theirs, self._speed_max)
