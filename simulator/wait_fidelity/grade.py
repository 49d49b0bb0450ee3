"""The grade of a replay: how far the waits that it gives are those that the log holds.

Every verdict, what-if and plan compares two replays. What they promise is the difference between two replays'
waits, so it is worth as much as one of them, that of the order that the cluster follows today, is like what
was logged. Three things are compared, over jobs of which the log has the start:

- the sum of all waiting (its mean, too): by as much as it is off, a promised gain may be off;
- the share of jobs with a wait within a factor of two: single waits;
- Kendall's tau-b of the waits: whether it is the same jobs that wait.

A wait of less than FLOOR_S counts as FLOOR_S wherever one is divided by another, or ranked: a scheduler looks
at its queue every half minute or so (Slurm's `sched_interval` is 60 s, `bf_interval` 30 s), so that 2 s and
40 s are the same wait. The worst of the three grades is the grade.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from foundation.human_times import human_duration
from simulator.wait_fidelity.explain import Cause, ReplayedSite, causes_of
from simulator.wait_fidelity.grades import GRADES
from simulator.wait_fidelity.logged_jobs import Floats, LoggedJobs

FLOOR_S = 60.0
MIN_JOBS = 30
GROUPS_SHOWN = 16


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a grade asks for at least."""

    sum_within: float  # the larger sum of waiting over the smaller
    within_x2_pct: float
    kendall_tau: float


# A: within 10 % in the sum, an error that moves a promised gain by a tenth of itself. B: a quarter. C: a
# factor of two, and half of the jobs within a factor of two: forecasts of single waits by models that see the
# queue reach 40 %, so a replay that does worse says less about a job than they do.
THRESHOLDS = {"A": Threshold(1.1, 90.0, 0.9), "B": Threshold(1.25, 75.0, 0.7), "C": Threshold(2.0, 50.0, 0.4)}
RULE = (
    "Waits of a replay of the site's order beside those of the log. A: their sum within 10 %, 90 % of jobs "
    "within a factor of 2, Kendall's tau 0.9 or more. B: 25 %, 75 %, 0.7. C: a factor of 2, 50 %, 0.4. D: "
    "less; do not believe what follows. The worst of the three counts. A wait under 1 min counts as 1 min, "
    "and tau only where jobs wait 1 min or more on average."
)


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """Waits of some jobs, in s; `p999` hangs on single jobs where there are fewer than a thousand."""

    mean: float
    p50: float
    p90: float
    p999: float
    sum: float


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """A virtual cluster (or `all`): its jobs, as logged and as replayed."""

    group: str
    jobs: int
    logged: WaitFigures
    replayed: WaitFigures
    within_x2_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitGrade:
    """The grade of a replay, None where there is nothing to compare; then `why` says why.

    `waits` has all jobs first, then the virtual clusters with most jobs. `explains` are the causes of the
    difference, those that explain most first. `not_modelled` are settings of the declared site that the
    replay leaves out.
    """

    grade: str | None
    why: str
    order: str
    jobs: int = 0
    jobs_without_start: int = 0
    waits: tuple[WaitGroup, ...] = ()
    within_x2_pct: float | None = None
    kendall_tau: float | None = None
    sum_ratio: float | None = None
    explains: tuple[Cause, ...] = ()
    not_modelled: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The grade in a sentence or three."""
        if self.grade is None:
            return f"Not graded: {self.why}"
        most = f" {self.explains[0].sentence}" if self.explains and self.grade != "A" else ""
        return f"Grade {self.grade}: {self.why}{most}"

    def to_data(self) -> dict[str, Any]:
        """The grade as JSON has it, with its rule and its sentence."""
        data = asdict(self)
        for name in ("waits", "explains", "not_modelled"):
            data[name] = list(data[name])
        return {**data, "rule": RULE, "sentence": self.sentence}


def not_graded(why: str, order: str = "") -> WaitGrade:
    """There is nothing to compare; `why` is a sentence."""
    return WaitGrade(grade=None, why=why, order=order)


def grade_waits(
    logged: LoggedJobs,
    first_start_s: Floats,
    site: ReplayedSite,
    *,
    counted: NDArray[np.bool_] | None = None,
    not_modelled: Sequence[str] = (),
) -> WaitGrade:
    """Grade a replay of the site's order. `first_start_s` (s, NaN: never) has its start of each logged job.

    `counted`: the jobs that count (default: all; those of a warm-up do not). Raises BadInputError when the
    arrays do not fit together.
    """
    if len(first_start_s) != len(logged) or (counted is not None and len(counted) != len(logged)):
        raise BadInputError(f"{len(first_start_s)} replayed starts for {len(logged)} logged jobs.")
    chosen = np.ones(len(logged), dtype=bool) if counted is None else counted
    known = chosen & np.isfinite(logged.wait_s) & np.isfinite(first_start_s)
    jobs, without = int(known.sum()), int((chosen & ~np.isfinite(logged.start_s)).sum())
    if not np.isfinite(logged.start_s[chosen]).any():
        return not_graded("the log does not say when jobs started.", site.order)
    if jobs < MIN_JOBS:
        return not_graded(f"the log has the starts of {jobs} jobs, fewer than {MIN_JOBS}.", site.order)
    ours = logged.those(known)
    logged_s = ours.wait_s
    # A job that was held is replayed from its submission on; what counts is its wait since it might start.
    replayed_s = np.maximum(first_start_s[known] - ours.ready_s, 0.0)
    within, tau = _within_x2_pct(logged_s, replayed_s), _kendall_tau(logged_s, replayed_s)
    ratio = float(_floored(replayed_s.mean()) / _floored(logged_s.mean()))
    return WaitGrade(
        grade=_grade(ratio, within, tau),
        why=_in_words(logged_s, replayed_s, within, tau, site.order),
        order=site.order,
        jobs=jobs,
        jobs_without_start=without,
        waits=_groups(ours.virtual_cluster, logged_s, replayed_s),
        within_x2_pct=within,
        kendall_tau=tau,
        sum_ratio=ratio,
        explains=causes_of(logged, known, first_start_s, site),
        not_modelled=tuple(not_modelled),
    )


def _grade(ratio: float, within_x2_pct: float, tau: float | None) -> str:
    for grade, asked in THRESHOLDS.items():
        if (
            max(ratio, 1.0 / ratio) <= asked.sum_within
            and within_x2_pct >= asked.within_x2_pct
            and (tau is None or tau >= asked.kendall_tau)
        ):
            return grade
    return GRADES[-1]


def _in_words(logged_s: Floats, replayed_s: Floats, within: float, tau: float | None, order: str) -> str:
    tau_text = "hardly any job waits" if tau is None else f"Kendall's tau of waits {tau:.2f}"
    return (
        f"under {order} the replayed jobs wait {human_duration(float(replayed_s.mean()))} on average, in the "
        f"log {human_duration(float(logged_s.mean()))}; {within:.0f} % of waits are within a factor of 2, "
        f"{tau_text}."
    )


def _floored(waits_s: Any) -> Any:
    return np.maximum(waits_s, FLOOR_S)


def _within_x2_pct(logged_s: Floats, replayed_s: Floats) -> float:
    ratio = _floored(replayed_s) / _floored(logged_s)
    return float(100.0 * ((ratio <= 2.0) & (ratio >= 0.5)).mean())


def _kendall_tau(logged_s: Floats, replayed_s: Floats) -> float | None:
    """Tau-b of waits; None where next to nothing waits, 0 where only one of the two has any order."""
    from scipy.stats import kendalltau

    if max(logged_s.mean(), replayed_s.mean()) < FLOOR_S:
        return None
    tau = float(kendalltau(_floored(logged_s), _floored(replayed_s))[0])
    return tau if np.isfinite(tau) else 0.0


def _groups(names: NDArray[np.object_], logged_s: Floats, replayed_s: Floats) -> tuple[WaitGroup, ...]:
    groups = [_group("all", logged_s, replayed_s)]
    clusters, codes = np.unique(names.astype(str), return_inverse=True)
    sizes = np.bincount(codes, minlength=len(clusters))
    if len(clusters) > 1:
        for index in np.argsort(-sizes, kind="stable")[:GROUPS_SHOWN]:
            mine = codes == index
            groups.append(_group(str(clusters[index]), logged_s[mine], replayed_s[mine]))
    return tuple(groups)


def _group(name: str, logged_s: Floats, replayed_s: Floats) -> WaitGroup:
    within = _within_x2_pct(logged_s, replayed_s)
    return WaitGroup(name, len(logged_s), _figures(logged_s), _figures(replayed_s), within)


def _figures(waits_s: Floats) -> WaitFigures:
    p50, p90, p999 = (
        float(np.quantile(waits_s, share, method="inverted_cdf")) for share in (0.5, 0.9, 0.999)
    )
    return WaitFigures(float(waits_s.mean()), p50, p90, p999, float(waits_s.sum()))
