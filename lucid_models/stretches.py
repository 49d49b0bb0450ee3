"""The part of a log that is learned from when it is silent for years: two logs in one, or a job with a wrong
year. Nothing tells what a cluster did in between, and what came before says little of what came after.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from cluster_logs.throughput import LONGEST_SILENCE_S
from foundation.errors import BadInputError


@dataclass(frozen=True)
class LogStretch:
    """Rows of a table, and what is to be said of the others."""

    rows: slice
    remarks: tuple[str, ...] = ()

    @property
    def is_newest(self) -> bool:
        """Whether nothing comes after it."""
        return self.rows.stop is None


def newest_stretch(times: "pd.Series[pd.Timestamp]", least: int, what: str) -> LogStretch:
    """The newest rows without a silence of more than a year among them, of which there are `least`.

    `times`: ascending instants, one a row; `what` the rows are called. A log without such a silence is one
    stretch, however short. Raises BadInputError when there are silences and no stretch is long enough.
    """
    silences = np.flatnonzero(times.diff().dt.total_seconds().to_numpy() > LONGEST_SILENCE_S)
    if not silences.size:
        return LogStretch(slice(None))
    edges = [0, *silences.tolist(), len(times)]
    stretches = list(pairwise(edges))
    silence_remark = _silences(times, silences.tolist())
    for first, last in reversed(stretches):
        if last - first >= least:
            here = f"{times.iloc[first]:%Y-%m-%d} to {times.iloc[last - 1]:%Y-%m-%d}"
            remark = f"{silence_remark} Learned from {here}: {last - first:,} of {len(times):,} {what}."
            return LogStretch(slice(first, None if last == len(times) else last), (remark,))
    longest = max(last - first for first, last in stretches)
    raise BadInputError(
        f"{silence_remark} No stretch without such a silence is long enough to learn from: the longest has "
        f"{longest:,} {what}, and {least:,} are needed.",
        remedy="Check the dates beside the silence, and ingest a longer log.",
    )


def _silences(times: "pd.Series[pd.Timestamp]", places: Sequence[int]) -> str:
    first = places[0]
    more = f", and {len(places) - 1} times more" if len(places) > 1 else ""
    before, after = times.iloc[first - 1], times.iloc[first]
    return f"The log is silent for more than a year: from {before:%Y-%m-%d} to {after:%Y-%m-%d}{more}."
