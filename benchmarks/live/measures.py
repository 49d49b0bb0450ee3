"""What a run was worth to its users: figures of one (seed, mode), and beside FIFO."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.stream import StreamJob

Floats = NDArray[np.float64]
# Shorter jobs count as so long in a slowdown: waiting a few seconds for one of two is no injustice.
SLOWDOWN_FROM_S = 10.0
WORST_SHARE = 0.1


@dataclass(frozen=True)
class Times:
    """When jobs were submitted, started and ended (s), each of shape (jobs,), in the stream's order."""

    submit_s: Floats
    start_s: Floats
    end_s: Floats

    @property
    def jct_s(self) -> Floats:
        return self.end_s - self.submit_s


def measures(times: Times, jobs: Sequence[StreamJob]) -> dict[str, float]:
    """Return a run's figures; seconds unless the name says otherwise."""
    jct_s, run_s = times.jct_s, np.array([job.duration_s for job in jobs])
    slowdown = np.maximum(jct_s, SLOWDOWN_FROM_S) / np.maximum(run_s, SLOWDOWN_FROM_S)
    of_users = np.array(list(_by_user(slowdown, jobs).values()))
    return {
        "jobs": float(len(jobs)),
        "mean_jct_s": float(jct_s.mean()),
        "median_jct_s": float(np.median(jct_s)),
        "p95_jct_s": float(np.percentile(jct_s, 95)),
        "max_jct_s": float(jct_s.max()),
        "worst_tenth_jct_s": float(np.sort(jct_s)[-max(1, round(WORST_SHARE * len(jct_s))) :].mean()),
        "mean_queuing_s": float((times.start_s - times.submit_s).mean()),
        "mean_slowdown": float(slowdown.mean()),
        "worst_users_slowdown": float(of_users.max()),
        "jain_index": float(of_users.sum() ** 2 / (len(of_users) * (of_users**2).sum())),
        "makespan_s": float(times.end_s.max() - times.submit_s.min()),
    }


def worst_user_against(times: Times, fifo: Times, jobs: Sequence[StreamJob]) -> tuple[str, float]:
    """Return the user whose mean JCT fares worst beside FIFO, and mean JCT / that under FIFO."""
    now, before = _by_user(times.jct_s, jobs), _by_user(fifo.jct_s, jobs)
    ratios = {user: now[user] / max(before[user], 1e-9) for user in now}
    worst = max(sorted(ratios), key=ratios.__getitem__)
    return worst, ratios[worst]


def change_pct(value: float, reference: float) -> float:
    """Return by how many percent a value lies above a reference."""
    return 100.0 * (value / reference - 1.0) if reference else 0.0


def pooled(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each figure over seeds; of `max_jct_s` the greatest."""
    return {
        name: float(
            max(row[name] for row in rows) if name == "max_jct_s" else np.mean([r[name] for r in rows])
        )
        for name in rows[0]
    }


def _by_user(values: Floats, jobs: Sequence[StreamJob]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for value, job in zip(values.tolist(), jobs, strict=True):
        found.setdefault(job.user, []).append(value)
    return {user: float(np.mean(of_user)) for user, of_user in sorted(found.items())}
