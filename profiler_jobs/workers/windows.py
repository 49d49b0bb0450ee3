"""What completion times say about a window: how fast each worker trained, and how much of it all trained.

Times are seconds on `time.monotonic()`'s clock, which all processes of a machine share. A worker notes when
it began to train (a *stretch*, from resuming to pausing) and when each step was complete. Step k holds the
interval between the completions of its predecessor and its own; on a GPU, where steps are queued ahead, this
is the time that it kept the device, and nothing has to wait for it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from foundation.errors import BadInputError
from profiler_jobs.workers.host_speed import Probe

# An interval is a stall when it is this many times the stretch's median, and longer than any time slice by
# which processes share a device or a processor.
STALL_FACTOR = 10.0
STALL_MIN_S = 0.5

Span = tuple[float, float]


@dataclass(frozen=True)
class TrainedStretch:
    """One stretch of training: when it began, and when each of its steps was complete, in order.

    `probes` are of the core that it ran on, where it was bound to one.
    """

    begin_s: float
    completions_s: tuple[float, ...]
    probes: tuple[Probe, ...] = ()

    def __post_init__(self) -> None:
        times = (self.begin_s, *self.completions_s)
        if any(later < earlier for earlier, later in pairwise(times)):
            raise BadInputError(
                "A worker's completion times go backwards.", remedy="Check the machine's monotonic clock."
            )

    def steps_at(self, time_s: float) -> float:
        """Return how many steps were done by then, the one in progress counted by its share of time."""
        done = bisect_right(self.completions_s, time_s)
        if done == len(self.completions_s):
            return float(done)
        began_s = self.completions_s[done - 1] if done else self.begin_s
        if time_s <= began_s:
            return float(done)
        return done + (time_s - began_s) / (self.completions_s[done] - began_s)

    def rate(self, begin_s: float, end_s: float) -> float:
        """Return steps a second in [begin_s, end_s).

        Steps that cross an edge count by the share of their time that lies inside, so the rate is exact for
        steps of any length, also when fewer than two, or none, begin and end in the window. Time in which the
        worker did not train counts: what stalled, came late or ended early is slow, and `overlap` shows it.
        """
        return (self.steps_at(end_s) - self.steps_at(begin_s)) / (end_s - begin_s)

    def whole_steps(self, begin_s: float, end_s: float) -> int:
        """Return how many steps began and ended in the window."""
        starts = (self.begin_s, *self.completions_s[:-1])
        return max(0, bisect_right(self.completions_s, end_s) - bisect_left(starts, begin_s))

    def busy_spans(self) -> list[Span]:
        """Return the times of training, in order and apart from each other.

        Of a stall (see STALL_FACTOR) the last part counts, as long as the stretch's median step.
        """
        if not self.completions_s:
            return []
        starts = (self.begin_s, *self.completions_s[:-1])
        typical_s = median(end - start for start, end in zip(starts, self.completions_s, strict=True))
        limit_s = max(STALL_FACTOR * typical_s, STALL_MIN_S)
        spans: list[Span] = []
        for start, end in zip(starts, self.completions_s, strict=True):
            if end - start > limit_s:
                spans.append((end - typical_s, end))
            elif spans and spans[-1][1] == start:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        return spans


def overlap(stretches: Sequence[TrainedStretch], begin_s: float, end_s: float) -> float:
    """Return the share of [begin_s, end_s) in which every one of them trained, in [0, 1]."""
    common: list[Span] = [(begin_s, end_s)]
    for stretch in stretches:
        common = _intersection(common, stretch.busy_spans())
    together_s = sum(end - start for start, end in common)
    return min(1.0, max(0.0, together_s / (end_s - begin_s)))


def _intersection(first: Sequence[Span], second: Sequence[Span]) -> list[Span]:
    shared: list[Span] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            shared.append((start, end))
        if first[i][1] <= second[j][1]:
            i += 1
        else:
            j += 1
    return shared
