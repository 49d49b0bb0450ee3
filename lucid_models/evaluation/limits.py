"""Measures advice on time limits: a log replayed in the order of time, each job advised from what was known.

A run time is known when its job ends. The advice is given at a job's start (the last moment at which its
owner can lower the limit of a waiting job) or at its submission.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lucid_models.evaluation.measures import Row
from lucid_models.limits.advisor import GPU_JOBS, LimitAdvisor, LimitSettings
from lucid_models.limits.limit_table import Floats, LimitTable

Moment = Literal["start", "submission"]
ADVISED, STARTED, ENDED = 2, 1, 0  # of equal times an end is known to the advice, a start too


def advised_limits(table: LimitTable, moment: Moment, settings: LimitSettings) -> Floats:
    """The limit that each job is advised, in s, shape (jobs,), from what was known at the moment of it."""
    advisor = LimitAdvisor(settings)
    advised_s = table.limit_s.copy()
    starts, runs = table.start_s.tolist(), table.run_s.tolist()
    for kind, row, at_s in job_events(table, moment):
        job = table.jobs[row]
        if kind == ADVISED:
            advice = advisor.advise(job, at_s)
            advisor.note(job, advice)
            advised_s[row] = advice.limit_s
        elif kind == STARTED:
            advisor.started(job, starts[row])
        else:
            advisor.ended(job, runs[row])
    return advised_s


def job_events(table: LimitTable, moment: Moment) -> Iterator[tuple[int, int, float]]:
    """What happens to which job, and when, in the order of time."""
    advised_at_s = table.start_s if moment == "start" else table.submit_s
    times = np.concatenate([table.end_s, table.start_s, advised_at_s])
    jobs = len(table.jobs)
    kinds = np.repeat([ENDED, STARTED, ADVISED], jobs)
    rows = np.tile(np.arange(jobs), 3)
    order = np.lexsort((rows, kinds, times))
    yield from zip(kinds[order].tolist(), rows[order].tolist(), times[order].tolist(), strict=True)


def measured_by_group(table: LimitTable, advised_s: Floats, judged: NDArray[np.bool_]) -> list[Row]:
    """A row a group of the judged jobs, shape (jobs,): all, and those with GPUs unless all have them; none
    where no job is judged.

    `ratio_before`, `ratio_after`: median of limit / run time as asked and as advised; `killed_pct`: jobs that
    run into an advised limit, `used_up_pct` those of them that had used up their own; `lowered_pct`: jobs
    with a shorter limit; `limit_time_pct`: advised limits summed, of those asked for.
    """
    groups = {"all": judged}
    if not table.has_gpus[judged].all():
        groups[GPU_JOBS] = judged & table.has_gpus
    return [
        {"group": group} | _measured(table, advised_s, is_in)
        for group, is_in in groups.items()
        if is_in.any()
    ]


def _measured(table: LimitTable, advised_s: Floats, is_in: NDArray[np.bool_]) -> Row:
    asked_s, run_s, limit_s = table.limit_s[is_in], table.run_s[is_in], advised_s[is_in]
    lowered = limit_s < asked_s
    killed = lowered & (run_s >= limit_s)
    ran_s = np.clip(run_s, 1.0, asked_s)
    return {
        "jobs": int(is_in.sum()),
        "ratio_before": float(np.median(asked_s / ran_s)),
        "ratio_after": float(np.median(limit_s / ran_s)),
        "killed_pct": 100 * float(killed.mean()),
        "used_up_pct": 100 * float((killed & (run_s >= asked_s)).mean()),
        "lowered_pct": 100 * float(lowered.mean()),
        "limit_time_pct": 100 * float(limit_s.sum() / asked_s.sum()),
    }
