"""The run-time statistics of one key (a user, a size, a user x name, ...), updated when its jobs start and
end.
"""

import math
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
# Places in a key's numbers: the columns that are saved, the running jobs and when the oldest of them started
# (NaN: none runs), the last run times (logarithms, the newest at the end; NaN before there were so many).
COUNT, WEIGHT, LOG_SUM, SQUARE_SUM, RAW_SUM, SOFT_MEAN, TIME, SUBMIT, EARLIER_SUBMIT = range(len(_COLUMNS))
RUNNING, OLDEST_START, FIRST_RECENT = range(len(_COLUMNS), len(_COLUMNS) + 3)
NUMBERS = FIRST_RECENT + RECENT
_NEW_KEY = array("d", [0.0] * TIME + [NEVER_S] * 3 + [0.0, math.nan] + [math.nan] * RECENT)
# What is known of a key of which nothing is.
NOTHING_KNOWN = _NEW_KEY.tobytes()


class KeyStatistics:
    """Time-decayed sums as of a moment, the last run times, the last submissions, the running jobs.

    The `numbers` lie side by side, so that those of many keys are columns at once (`key_columns`).
    """

    __slots__ = ("_running", "numbers", "submit_id")

    def __init__(self) -> None:
        self.numbers = _NEW_KEY[:]
        self.submit_id = ""
        self._running: dict[str, float] = {}  # job -> start (s), in the order in which the starts were told

    @property
    def count(self) -> int:
        """How many jobs ended."""
        return int(self.numbers[COUNT])

    def submitted(self, job_id: str, time_s: float) -> None:
        """A job of this key was submitted."""
        if job_id != self.submit_id:
            numbers = self.numbers
            numbers[EARLIER_SUBMIT], numbers[SUBMIT] = numbers[SUBMIT], time_s
            self.submit_id = job_id

    def started(self, job_id: str, time_s: float) -> None:
        """A job of this key started; one that starts again is the youngest."""
        self._running.pop(job_id, None)
        self._running[job_id] = time_s
        self._note_running()

    def stopped(self, job_id: str) -> None:
        """A job runs no longer, if it did."""
        if self._running.pop(job_id, None) is not None:
            self._note_running()

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
        numbers = self.numbers
        if numbers[COUNT]:
            elapsed = time_s - numbers[TIME]
            decay = math.exp2(-elapsed / half_life_s) if elapsed > 0 else 1.0
            numbers[WEIGHT] = numbers[WEIGHT] * decay + 1.0
            numbers[LOG_SUM] = numbers[LOG_SUM] * decay + logarithm
            numbers[SQUARE_SUM] = numbers[SQUARE_SUM] * decay + logarithm * logarithm
            numbers[RAW_SUM] = numbers[RAW_SUM] * decay + duration_s
            numbers[SOFT_MEAN] += soft_weight * (logarithm - numbers[SOFT_MEAN])
            if elapsed > 0:
                numbers[TIME] = time_s
        else:
            numbers[WEIGHT], numbers[LOG_SUM], numbers[SQUARE_SUM] = 1.0, logarithm, logarithm * logarithm
            numbers[RAW_SUM] = duration_s
            numbers[SOFT_MEAN] = logarithm
            numbers[TIME] = max(NEVER_S, time_s)
        numbers[COUNT] += 1.0
        del numbers[FIRST_RECENT]
        numbers.append(logarithm)
        if self._running:
            self.stopped(job_id)

    def latest_s(self) -> float:
        """When the key was last heard of."""
        return max(self.numbers[TIME], self.numbers[SUBMIT])

    def is_running(self) -> bool:
        """Whether a job of this key runs."""
        return bool(self._running)

    def copy(self) -> "KeyStatistics":
        """An independent copy."""
        twin = KeyStatistics()
        twin.numbers = self.numbers[:]
        twin.submit_id = self.submit_id
        twin._running = dict(self._running)
        return twin

    def _note_running(self) -> None:
        # Starts are observed in the order of time, so the first is the oldest.
        self.numbers[RUNNING] = len(self._running)
        self.numbers[OLDEST_START] = next(iter(self._running.values()), math.nan)


LevelTable = dict[str, KeyStatistics]


def forget_oldest(table: LevelTable, most: int) -> list[str]:
    """Drop the least recently updated keys beyond `most`, and return them; a key with running jobs stays."""
    if len(table) <= most:
        return []
    ranked = sorted(table, key=lambda key: (not table[key].is_running(), -table[key].latest_s(), key))
    dropped = [key for key in ranked[most:] if not table[key].is_running()]
    for key in dropped:
        del table[key]
    return dropped


def numbers_of(statistics: Iterable[KeyStatistics | None]) -> NDArray[np.float64]:
    """The numbers of keys in columns, shape (NUMBERS, keys); None: a key of which nothing is known."""
    rows = b"".join([NOTHING_KNOWN if one is None else one.numbers for one in statistics])
    columns: NDArray[np.float64] = np.frombuffer(rows).reshape(-1, NUMBERS).T
    return columns


def write_level(table: LevelTable) -> dict[str, Any]:
    """A level's table as columns, in the order of keys."""
    keys = sorted(table)
    numbers = numbers_of(table[key] for key in keys)
    recent = numbers[FIRST_RECENT:].T
    columns = {name: numbers[place].tolist() for place, name in enumerate(_COLUMNS)}
    return {
        "keys": keys,
        "submit_id": [table[key].submit_id for key in keys],
        "recent": recent[~np.isnan(recent)].tolist(),
        **columns,
        "count": numbers[COUNT].astype(np.int64).tolist(),
    }


def read_level(fields: Fields, most: int) -> LevelTable:
    """Read what `write_level` wrote; raises CorruptModelError."""
    keys = fields.texts("keys", unique=True)
    submit_ids = fields.texts("submit_id")
    columns = {name: fields.numbers(name, *bounds) for name, bounds in _COLUMNS.items()}
    for name, size in (("submit_id", len(submit_ids)), *((name, len(columns[name])) for name in _COLUMNS)):
        if size != len(keys):
            raise fields.fail(name, f"has {size} entries for {len(keys)} keys")
    columns["count"] = np.floor(columns["count"])
    contradicted = (columns["count"] > 0) & ~(columns["weight"] >= 0.5)
    if contradicted.any():
        key = keys[int(contradicted.argmax())]
        raise fields.fail("count", f"and weight of the key {key!r} contradict each other")
    kept = np.minimum(columns["count"], RECENT).astype(np.intp)
    recent = fields.numbers("recent", 0.0, 50.0, most=RECENT * MAX_ITEMS)
    if len(recent) != kept.sum():
        raise fields.fail("recent", f"has {len(recent)} entries, the counts ask for {kept.sum()}")
    numbers = np.tile(np.array(_NEW_KEY), (len(keys), 1))
    numbers[:, : len(_COLUMNS)] = np.stack(list(columns.values()), axis=1)
    # The newest at the end: a key with fewer run times has none before them.
    numbers[:, FIRST_RECENT:][np.arange(RECENT) >= RECENT - kept[:, None]] = recent
    table: LevelTable = {}
    for key, submit_id, row in zip(keys, submit_ids, numbers, strict=True):
        statistics = table[key] = KeyStatistics()
        statistics.numbers = array("d", row.tobytes())
        statistics.submit_id = submit_id
    return table
