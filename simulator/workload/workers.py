"""The workers of an elastic training job: how many it runs on, where they may be, and how fast they make it.

Lyra (section 2.2) counts a job's demand in workers, each on one server: a gang of `least` base workers, and
flexible ones up to `most`, which come and go while the job runs.
"""

from dataclasses import dataclass
from math import isfinite

from foundation.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Workers:
    """What a job needs in workers of `gpus_each` GPUs: `least` to run at all, `most` that it can use.

    `loanable`: it may run on servers on loan. `heterogeneous`: it may run on own servers and on loaned ones
    at once. `checkpoints`: it keeps its progress when it is preempted. `loss` is the share of a further
    worker that scaling costs (0: linear). `speed_ups` is a tuned job's curve in its place: the speed on
    `least`, `least + 1`, ..., `most` workers, as a multiple of that on `least` (so the first is 1).
    """

    gpus_each: int
    least: int
    most: int
    loanable: bool = False
    heterogeneous: bool = False
    checkpoints: bool = False
    loss: float = 0.0
    speed_ups: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not (self.gpus_each >= 1 and 1 <= self.least <= self.most):
            raise BadInputError(
                f"A job has {self.least} to {self.most} workers of {self.gpus_each} GPUs.",
                remedy="Use one worker of one GPU at least, and no more at least than at most.",
            )
        if not 0 <= self.loss < 1:
            raise BadInputError(f"The loss by scaling is {self.loss!r}.", remedy="Use 0 or more, below 1.")
        curve = self.speed_ups
        if curve is not None and (
            len(curve) != self.most - self.least + 1
            or curve[0] != 1
            or not all(isfinite(speed) and speed > 0 for speed in curve)
        ):
            raise BadInputError(
                f"The speed-ups from {self.least} to {self.most} workers are {curve!r}.",
                remedy="Give one a number of workers, each above 0, the first 1.",
            )

    @property
    def elastic(self) -> bool:
        """Whether the number of its workers may change."""
        return self.most > self.least

    @property
    def gpus(self) -> int:
        """The GPUs of all its workers, off loaned servers."""
        return self.most * self.gpus_each

    @property
    def base_gpus(self) -> int:
        """The GPUs of its base workers, off loaned servers."""
        return self.least * self.gpus_each

    def rate(self, workers: float) -> float:
        """Return the work done a second on so many workers, in worker-seconds.

        `least` workers do `least`. Between two whole numbers of workers a tuned job's curve is linear.
        """
        more = workers - self.least
        curve = self.speed_ups
        if curve is None:
            return self.least + (1.0 - self.loss) * more
        below = min(max(int(more), 0), len(curve) - 1)
        above = min(below + 1, len(curve) - 1)
        return self.least * (curve[below] + (more - below) * (curve[above] - curve[below]))
