"""All sightings of waiting jobs as one table of features, with how long each job went on waiting."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.queue_log import SITE_NAMES, QueueLog
from lucid_models.groups import Codes, Floats, joint_codes
from parts.waits.model.features import GROUPS, WaitFeatures
from parts.waits.model.queue_moment import queue_at


@dataclass(frozen=True)
class WaitTable:
    """One row a waiting job and moment, in the order of moments; arrays of shape (rows,).

    - `matrix`: the features, shape (rows, features); `moment`: which one, from 0; `moments_s`: their times.
    - `start_s`: when the job started (NaN: not yet in this log); `withdrawn_s`: when one that never started
      was given up (NaN: never).
    - `job`: its place in the log; `partition` (code), `gpus`: what it is reported by.
    - `alike`: how many jobs like it waited at the same moment: they share most of what is learned from them.
    """

    features: WaitFeatures
    matrix: Floats
    moment: Codes
    moments_s: Floats
    start_s: Floats
    withdrawn_s: Floats
    job: Codes
    partition: Codes
    gpus: Floats
    alike: Floats

    @classmethod
    def of(cls, log: QueueLog) -> "WaitTable":
        """Of a log's moments; the features of each are made of what was known then."""
        features = WaitFeatures(tuple(name for name in SITE_NAMES if name in log.seen))
        columns: dict[str, list[NDArray[Any]]] = {
            name: [] for name in ("matrix", "job", "partition", "gpus", "alike", "moment")
        }
        for number, moment_s in enumerate(log.moments_s):
            queue = queue_at(log, float(moment_s))
            waiting = queue.waiting
            same = joint_codes([waiting[fact] for fact in GROUPS["alike"]], waiting["job"].size)
            columns["matrix"].append(features.matrix(queue))
            columns["alike"].append(np.bincount(same)[same].astype(np.float64))
            columns["moment"].append(np.full(waiting["job"].size, number))
            for name in ("job", "partition", "gpus"):
                columns[name].append(waiting[name])
        table = {name: np.concatenate(parts) for name, parts in columns.items()}
        start_s, end_s = (log.jobs[name][table["job"]] for name in ("start_s", "end_s"))
        return cls(
            features=features,
            moments_s=log.moments_s,
            start_s=start_s,
            withdrawn_s=np.where(np.isnan(start_s), end_s, np.nan),
            **table,
        )

    def known_at_s(self, moment: int) -> float:
        """When the moment numbered `moment` was; beyond the last one, until when the log tells of starts."""
        if moment < self.moments_s.size:
            return float(self.moments_s[moment])
        return float(max(self.moments_s[-1], np.nanmax(self.start_s, initial=-np.inf)))

    def waits(self, known_at_s: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Logarithm (base 10) of a second more than each wait, as known at a moment, and whether it is over.

        Of a job that had not started by then, or was withdrawn, it is the wait so far: a lower bound.
        """
        is_over = self.start_s <= known_at_s
        until_s = np.where(is_over, self.start_s, np.fmin(self.withdrawn_s, known_at_s))
        return np.log10(np.maximum(until_s - self.moments_s[self.moment], 0.0) + 1.0), is_over
