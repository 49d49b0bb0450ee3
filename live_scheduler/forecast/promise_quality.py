"""How well promises held: Pred_err of jobs that ended, by whose order, release and virtual cluster."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from live_scheduler.forecast.promises import Promise, read_promises
from live_scheduler.memory.journal import Happening, JobEvent

# Promises are made before their jobs end; nobody's takes longer than this to show how it held.
LONGEST_S = 35 * 86_400.0


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """A promise and when its job ended (Unix s)."""

    promise: Promise
    end_s: float

    @property
    def error_pct(self) -> float:
        """Pred_err, in percent of the promised JCT."""
        return self.promise.error_pct(self.end_s)


@dataclass(frozen=True, slots=True)
class PromiseErrors:
    """Pred_err over some jobs, in percent (average, median, 99th percentile by linear interpolation).

    `by_promise` and `by_p90` are the shares that had ended by the promised moment, and by that of nine plays
    in ten. `late` jobs were promised something long after their submission, and do not count.
    """

    jobs: int
    mean_pct: float
    median_pct: float
    p99_pct: float
    by_promise: float
    by_p90: float
    late: int = 0


class Group(NamedTuple):
    """Whose promises: `virtual_cluster` is empty for all of them."""

    policy: str
    release_version: int | None
    virtual_cluster: str


def promise_errors(kept: Iterable[KeptPromise]) -> PromiseErrors | None:
    """Sum up how promises held; None without one that counts."""
    every = list(kept)
    counted = [each for each in every if not each.promise.late]
    if not counted:
        return None
    errors = np.array([each.error_pct for each in counted])
    return PromiseErrors(
        len(counted),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.percentile(errors, 99)),
        float(np.mean([each.end_s <= each.promise.end_s for each in counted])),
        float(np.mean([each.end_s <= each.promise.end_p90_s for each in counted])),
        len(every) - len(counted),
    )


def by_policy_and_release(
    kept: Iterable[KeptPromise], *, virtual_clusters: bool
) -> Iterator[tuple[Group, PromiseErrors]]:
    """Yield how promises held, by whose order and which release, and in each virtual cluster if asked."""
    groups: dict[tuple[str, int, str], list[KeptPromise]] = {}
    for each in kept:
        told = each.promise
        key = (told.policy, told.version or 0, told.virtual_cluster if virtual_clusters else "")
        groups.setdefault(key, []).append(each)
    for (policy, version, virtual_cluster), group in sorted(groups.items()):
        found = promise_errors(group)
        if found is not None:
            yield Group(policy, version or None, virtual_cluster), found


def kept_promises(
    path: Path, events: Iterable[JobEvent], start_s: float = -math.inf, end_s: float = math.inf
) -> list[KeptPromise]:
    """Return the promises of a file whose jobs ended in [start_s, end_s), by the journal's events.

    In the order of the ends. A job that was stopped and queued again ends with its last run.
    """
    waiting: dict[str, list[Promise]] = {}
    for promise in dict.fromkeys(read_promises(path, start_s - LONGEST_S)):
        waiting.setdefault(promise.job_id, []).append(promise)
    found = []
    for event in sorted(events, key=lambda event: event.at_s):
        if event.happening is not Happening.ENDED or event.job_id not in waiting:
            continue
        told = [each for each in waiting[event.job_id] if each.at_s <= event.at_s]
        if told:
            waiting[event.job_id] = [each for each in waiting[event.job_id] if each.at_s > event.at_s]
            if start_s <= event.at_s < end_s:
                found.append(KeptPromise(told[-1], event.at_s))
    return found
