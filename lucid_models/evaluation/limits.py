"""Measures advice on time limits: a log replayed in the order of time, each job advised from what was known.

A run time is known when its job ends. The advice is given at a job's start (the last moment at which its
owner can lower the limit of a waiting job) or at its submission.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.evaluation.measures import Row
from lucid_models.limits.advisor import LimitAdvisor, LimitSettings
from lucid_models.limits.limit_groups import GPU_JOBS
from lucid_models.limits.limit_table import Floats, LimitTable
from lucid_models.limits.written_limits import written_limit_above

Moment = Literal["start", "submission"]
MOMENTS: tuple[Moment, ...] = ("start", "submission")
RISKS = (0.005, 0.01, 0.02, 0.05)
DAY_S = 86_400.0
ADVISED, STARTED, ENDED = 2, 1, 0  # of equal times an end is known to the advice, a start too
# What a rival says of the run times of an owner's last jobs, newest last, in s.
Rule = Callable[[NDArray[np.float64]], float]
RIVALS: Mapping[str, Rule] = {
    "longest of the last 10 x 1": lambda runs: float(runs[-10:].max()),
    "longest of the last 10 x 2": lambda runs: 2.0 * float(runs[-10:].max()),
    "longest of the last 50 x 2": lambda runs: 2.0 * float(runs[-50:].max()),
    "P99 of the same limit": lambda runs: float(np.quantile(runs[-200:], 0.99)),
}
RIVALS_BY_LIMIT = ("P99 of the same limit",)
_LEAST_RUNS = 10


def evaluate_limits(
    table: LimitTable,
    train_days: float,
    risks: tuple[float, ...] = RISKS,
    settings: LimitSettings | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """A row a model and group of jobs, of the jobs submitted after the first `train_days`.

    `ratio_before`, `ratio_after`: median of limit / run time as asked and as advised; `killed_pct`: jobs that
    run into an advised limit, `used_up_pct` those of them that had used up their own; `lowered_pct`: jobs
    with a shorter limit; `limit_time_pct`: advised limits summed, of those asked for. Raises BadInputError
    where no job is left to judge.
    """
    judged = table.submit_s >= table.submit_s[0] + train_days * DAY_S
    if not judged.any():
        raise BadInputError(
            f"No job was submitted after the first {train_days:g} days.", remedy="Give fewer --train-days."
        )
    chosen = settings or LimitSettings()
    ours = [(replace(chosen, risk=risk), moment) for moment in MOMENTS for risk in risks]
    plans: list[tuple[Row, Callable[[], Floats]]] = [
        *(
            (
                {"model": f"ours, risk {100 * one.risk:g} %", "said_at": moment, "risk": one.risk},
                partial(advised_limits, table, moment, one),
            )
            for one, moment in ours
        ),
        *(
            ({"model": name, "said_at": "start", "risk": None}, partial(_rival_limits, table, name))
            for name in RIVALS
        ),
    ]
    rows: list[Row] = []
    for number, (plan, advise) in enumerate(plans):
        progress(number, len(plans), plan["model"])
        rows += [plan | row for row in _by_group(table, advise(), judged)]
    return rows


def measure_advice(table: LimitTable, judged: NDArray[np.bool_], settings: LimitSettings) -> list[Row]:
    """A row a group of jobs, as of `evaluate_limits`, of advice given at the start of the judged jobs.

    `judged`: shape (jobs,); the others are learned from only. No row where none is judged.
    """
    return _by_group(table, advised_limits(table, "start", settings), judged)


def advised_limits(table: LimitTable, moment: Moment, settings: LimitSettings) -> Floats:
    """The limit that each job is advised, in s, shape (jobs,), from what was known at the moment of it."""
    advisor = LimitAdvisor(settings)
    advised_s = table.limit_s.copy()
    starts, runs = table.start_s.tolist(), table.run_s.tolist()
    for kind, row, at_s in _events(table, moment):
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


def _rival_limits(table: LimitTable, name: str) -> Floats:
    """What a rule says of the last jobs of the same owner, at each job's start."""
    by_limit = name in RIVALS_BY_LIMIT
    ended: dict[object, deque[float]] = defaultdict(lambda: deque(maxlen=200))
    advised_s, runs = table.limit_s.copy(), table.run_s.tolist()
    for kind, row, _ in _events(table, "start"):
        job = table.jobs[row]
        own = ended[job.owner, job.group, job.limit_s if by_limit else None]
        if kind == ENDED:
            own.append(runs[row])
        elif kind == ADVISED and len(own) >= _LEAST_RUNS:
            advised_s[row] = min(written_limit_above(RIVALS[name](np.array(own))), job.limit_s)
    return advised_s


def _events(table: LimitTable, moment: Moment) -> Iterator[tuple[int, int, float]]:
    """What happens to which job, and when, in the order of time."""
    advised_at_s = table.start_s if moment == "start" else table.submit_s
    times = np.concatenate([table.end_s, table.start_s, advised_at_s])
    jobs = len(table.jobs)
    kinds = np.repeat([ENDED, STARTED, ADVISED], jobs)
    rows = np.tile(np.arange(jobs), 3)
    order = np.lexsort((rows, kinds, times))
    yield from zip(kinds[order].tolist(), rows[order].tolist(), times[order].tolist(), strict=True)


def _by_group(table: LimitTable, advised_s: Floats, judged: NDArray[np.bool_]) -> list[Row]:
    groups = (("all", judged), (GPU_JOBS, judged & table.has_gpus))
    return [{"group": group} | _measured(table, advised_s, is_in) for group, is_in in groups if is_in.any()]


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
