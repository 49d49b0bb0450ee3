"""The run-time statistics of one key (a user, a size, a user x name, ...), updated when its jobs start and
end.
"""

import math
from typing import Any

import numpy as np

from lucid_models.model_format import MAX_ITEMS, Fields

# Times that are not known yet, on disk (JSON has no NaN).
NEVER_S = -1e15
# So many of a key's last run times are kept; their median is deaf to a crash or a hang among them.
RECENT = 5
_MOST = 1e15
# Column -> the range that a saved value may lie in.
_COLUMNS = {
    "count": (0.0, 1e12),
    "weight": (0.0, 1e12),
    "log_sum": (0.0, _MOST),
    "square_sum": (0.0, _MOST),
    "raw_sum": (0.0, 1e18),
    "soft_mean": (0.0, 50.0),
    "time_s": (-_MOST, _MOST),
    "submit_s": (-_MOST, _MOST),
    "earlier_submit_s": (-_MOST, _MOST),
}


class KeyStatistics:
    """Time-decayed sums as of `time_s`, the last run times (logarithms, newest last), the last submissions,
    the running jobs.
    """

    __slots__ = (*_COLUMNS, "recent", "running", "submit_id")

    def __init__(self) -> None:
        self.count = 0
        self.weight = self.log_sum = self.square_sum = self.raw_sum = 0.0
        self.soft_mean = 0.0
        self.recent: list[float] = []
        self.time_s = self.submit_s = self.earlier_submit_s = NEVER_S
        self.submit_id = ""
        self.running: dict[str, float] = {}

    def submitted(self, job_id: str, time_s: float) -> None:
        """A job of this key was submitted."""
        if job_id != self.submit_id:
            self.earlier_submit_s, self.submit_s, self.submit_id = self.submit_s, time_s, job_id

    def ended(
        self,
        job_id: str,
        time_s: float,
        duration_s: float,
        logarithm: float,
        half_life_s: float,
        soft_weight: float,
    ) -> None:
        """A job of this key ended: decay what is known to `time_s` and add its run time."""
        if self.count:
            elapsed = time_s - self.time_s
            decay = math.exp2(-elapsed / half_life_s) if elapsed > 0 else 1.0
            self.weight = self.weight * decay + 1.0
            self.log_sum = self.log_sum * decay + logarithm
            self.square_sum = self.square_sum * decay + logarithm * logarithm
            self.raw_sum = self.raw_sum * decay + duration_s
            self.soft_mean += soft_weight * (logarithm - self.soft_mean)
        else:
            self.weight, self.log_sum, self.square_sum = 1.0, logarithm, logarithm * logarithm
            self.raw_sum = duration_s
            self.soft_mean = logarithm
        self.recent.append(logarithm)
        if len(self.recent) > RECENT:
            del self.recent[0]
        self.count += 1
        self.time_s = max(self.time_s, time_s)
        self.running.pop(job_id, None)

    @property
    def last(self) -> float:
        """The last run time (logarithm); only after a job ended."""
        return self.recent[-1]

    def last_two(self) -> float:
        """Mean of the last two run times (logarithms); only after a job ended."""
        return 0.5 * (self.recent[-1] + self.recent[-min(2, len(self.recent))])

    def median(self) -> float:
        """Median of the last RECENT run times (logarithms); only after a job ended."""
        ordered = sorted(self.recent)
        middle, odd = divmod(len(ordered), 2)
        return ordered[middle] if odd else 0.5 * (ordered[middle - 1] + ordered[middle])

    def spread(self) -> float:
        """Standard deviation of log run time; NaN below two jobs."""
        if self.count < 2:
            return math.nan
        mean = self.log_sum / self.weight
        return math.sqrt(max(self.square_sum / self.weight - mean * mean, 0.0))

    def flight(self, job_id: str, time_s: float) -> tuple[float, float, float]:
        """log(1 + running jobs), log(1 + age of the oldest) and log(1 + time since another job's
        submission).
        """
        running = len(self.running)
        oldest = math.nan
        if running:
            # Starts are observed in the order of time, so the first is the oldest.
            oldest = math.log1p(max(time_s - next(iter(self.running.values())), 0.0))
        since = self.earlier_submit_s if self.submit_id == job_id else self.submit_s
        gap = math.log1p(max(time_s - since, 0.0)) if since > NEVER_S else math.nan
        return math.log1p(running), oldest, gap

    def latest_s(self) -> float:
        """When the key was last heard of."""
        return max(self.time_s, self.submit_s)

    def copy(self) -> "KeyStatistics":
        """An independent copy."""
        twin = KeyStatistics()
        for name in (*_COLUMNS, "submit_id"):
            setattr(twin, name, getattr(self, name))
        twin.recent = list(self.recent)
        twin.running = dict(self.running)
        return twin


LevelTable = dict[str, KeyStatistics]


def forget_oldest(table: LevelTable, most: int) -> list[str]:
    """Drop the least recently updated keys beyond `most`, and return them; a key with running jobs stays."""
    if len(table) <= most:
        return []
    ranked = sorted(table, key=lambda key: (not table[key].running, -table[key].latest_s(), key))
    dropped = [key for key in ranked[most:] if not table[key].running]
    for key in dropped:
        del table[key]
    return dropped


def write_level(table: LevelTable) -> dict[str, Any]:
    """A level's table as columns, in the order of keys."""
    keys = sorted(table)
    return {
        "keys": keys,
        "submit_id": [table[key].submit_id for key in keys],
        "recent": [logarithm for key in keys for logarithm in table[key].recent],
        **{name: [getattr(table[key], name) for key in keys] for name in _COLUMNS},
    }


def read_level(fields: Fields, most: int) -> LevelTable:
    """Read what `write_level` wrote; raises CorruptModelError."""
    keys = fields.texts("keys", unique=True)
    submit_ids = fields.texts("submit_id")
    columns = {name: fields.numbers(name, *bounds).tolist() for name, bounds in _COLUMNS.items()}
    for name, size in (("submit_id", len(submit_ids)), *((name, len(columns[name])) for name in _COLUMNS)):
        if size != len(keys):
            raise fields.fail(name, f"has {size} entries for {len(keys)} keys")
    kept = np.minimum(np.array(columns["count"]), RECENT).astype(np.intp)
    recent = fields.numbers("recent", 0.0, 50.0, most=RECENT * MAX_ITEMS).tolist()
    if len(recent) != kept.sum():
        raise fields.fail("recent", f"has {len(recent)} entries, the counts ask for {kept.sum()}")
    ends = np.cumsum(kept).tolist()
    table: LevelTable = {}
    for position, key in enumerate(keys):
        statistics = KeyStatistics()
        for name in _COLUMNS:
            setattr(statistics, name, columns[name][position])
        statistics.count = int(statistics.count)
        statistics.submit_id = submit_ids[position]
        statistics.recent = recent[ends[position] - int(kept[position]) : ends[position]]
        if statistics.count < 0 or (statistics.count and not statistics.weight >= 0.5):
            raise fields.fail("count", f"and weight of the key {key!r} contradict each other")
        table[key] = statistics
    return table
