"""How a task is measured: which windows a run goes through, and what a trustworthy result is.

Lucid measured one 30 s window after 10 warm-up iterations and normalised by a solo speed of another time; a
fifth of its normalised speeds exceed 1. Here the solo windows lie between the colocated ones of the same run,
every repeat is normalised by its own neighbours, and what does not repeat is refused.
"""

from dataclasses import dataclass

from foundation.errors import BadInputError
from profiler_jobs.devices.device import DeviceWindow
from profiler_jobs.profile_table import SPEED_SUSPICIOUS
from profiler_jobs.tasks import MeasurementTask

WARMUP_STEPS_MIN = 10


@dataclass(frozen=True)
class Method:
    """The settings of a measurement; all of them are stored with its rows.

    `repeats` rounds of windows of `window_s` each; `warmup_s` of training before the first. A window in which
    the active configurations trained together for less than `overlap_min` of its time does not count. A
    result is rejected whose mean is less certain than that of three repeats with a coefficient of variation
    of `variation_max`, so that repeats help on a host whose speed changes; a normalised speed above
    `speed_suspicious` is kept and flagged.
    """

    window_s: float = 30.0
    repeats: int = 3
    warmup_s: float = 10.0
    overlap_min: float = 0.95
    variation_max: float = 0.05
    speed_suspicious: float = SPEED_SUSPICIOUS

    def __post_init__(self) -> None:
        for name, low, high in (
            ("window_s", 0.1, 3_600.0),
            ("repeats", 1, 100),
            ("warmup_s", 0.0, 3_600.0),
            ("overlap_min", 0.0, 1.0),
            ("variation_max", 0.0, 1.0),
            ("speed_suspicious", 1.0, 10.0),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadInputError(
                    f"{name} is {value!r}, not in [{low}, {high}].", remedy="Choose a value in this range."
                )

    def windows(self, task: MeasurementTask) -> tuple[DeviceWindow, ...]:
        """Return the windows of a run: alone, or in each repeat the first alone, both, the second alone."""
        if not task.is_pair:
            return (DeviceWindow((0,), self.window_s),) * self.repeats
        first, both, second = (DeviceWindow(active, self.window_s) for active in ((0,), (0, 1), (1,)))
        return (first, both, second) * self.repeats

    def expected_s(self, task: MeasurementTask, *, overhead_s: float) -> float:
        """Return how long the task's run takes, `overhead_s` of it for starting and stopping."""
        warmups = len(task.job_types) * self.warmup_s
        return overhead_s + warmups + sum(window.seconds for window in self.windows(task))
