"""Advice on time limits beside simple rules: a log replayed in the order of time, at several risks."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.evaluation.limits import (
    ADVISED,
    ENDED,
    Moment,
    advised_limits,
    job_events,
    measured_by_group,
)
from lucid_models.evaluation.measures import Row
from lucid_models.limits.advisor import LimitSettings, written_limit_above
from lucid_models.limits.limit_table import Floats, LimitTable
from lucid_models.series.windows import DAY_S

MOMENTS: tuple[Moment, ...] = ("start", "submission")
RISKS = (0.005, 0.01, 0.02, 0.05)
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

    Figures are those of `measured_by_group`. Raises BadInputError where no job is left to judge.
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
        rows += [plan | row for row in measured_by_group(table, advise(), judged)]
    return rows


def _rival_limits(table: LimitTable, name: str) -> Floats:
    """What a rule says of the last jobs of the same owner, at each job's start."""
    by_limit = name in RIVALS_BY_LIMIT
    ended: dict[object, deque[float]] = defaultdict(lambda: deque(maxlen=200))
    advised_s, runs = table.limit_s.copy(), table.run_s.tolist()
    for kind, row, _ in job_events(table, "start"):
        job = table.jobs[row]
        own = ended[job.owner, job.group, job.limit_s if by_limit else None]
        if kind == ENDED:
            own.append(runs[row])
        elif kind == ADVISED and len(own) >= _LEAST_RUNS:
            advised_s[row] = min(written_limit_above(RIVALS[name](np.array(own))), job.limit_s)
    return advised_s
