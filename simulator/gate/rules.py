"""What a challenger must show: the gate's objective, margins and limits, with names, units and defaults.

A limit on a figure that should be low is `max(reference * (1 + margin_pct / 100), reference + floor)`: the
relative margin counts on a busy cluster, the absolute floor on a nearly idle one, where three seconds more
would otherwise look like a catastrophe.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from foundation.errors import BadInputError, UnknownNameError

# name -> the quantile of the job table's column, or None for the mean
OBJECTIVES: dict[str, tuple[str, float | None]] = {
    "mean_jct_s": ("jct_s", None),
    "mean_queuing_delay_s": ("queuing_delay_s", None),
    "p99_queuing_delay_s": ("queuing_delay_s", 0.99),
    "p999_queuing_delay_s": ("queuing_delay_s", 0.999),
}
# The same of prediction errors (per cent), for policies whose completion times are predicted at submission.
PREDICTABILITY: dict[str, tuple[str, float | None]] = {
    "mean_pred_err_pct": ("pred_err_pct", None),
    "p50_pred_err_pct": ("pred_err_pct", 0.5),
    "p90_pred_err_pct": ("pred_err_pct", 0.9),
    "p99_pred_err_pct": ("pred_err_pct", 0.99),
}
FIGURES = {**OBJECTIVES, **PREDICTABILITY}
ANCHOR = "fifo"  # every cluster can run it: reference of a first release, lower bar of every later one
INTERVALS = ("bca", "percentile")
PREDICTED_BY = ("estimated", "true")
UNPROVEN = ("refuse", "publish_harmless")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """Settings of the gate. docs/gate.md says why the defaults are what they are."""

    objective: str = "mean_jct_s"
    margin_pct: float = 2.0
    """Non-inferiority: the upper bound of the objective's change may be this much of the reference."""
    margin_floor_s: float = 10.0
    """... or at most this many seconds, whichever is more."""
    fifo_margin_pct: float = 5.0
    """The same against FIFO. It is wider, because FIFO does not measure jobs: on an idle cluster, where no
    order can gain anything, Lucid's profiler costs a job up to its time limit (200 s)."""
    fifo_margin_floor_s: float = 300.0
    margin_points: float = 1.0
    """In place of the seconds where the objective is a prediction error, in percentage points."""
    jct_price_pct: float = 0.0
    """What a clear gain in predictability may cost, as the upper bound of the change of mean JCT. The
    operator's preference; 0: no more than the margin."""
    foretold_jobs: int = 1_000
    """So many jobs of the window, drawn at random, have their ends predicted: a simulation each."""
    foretold_by: Literal["estimated", "true"] = "estimated"
    """By the release's estimates of run times, as its users are told, or by the true ones: what is uncertain
    then is only when a job gets its GPUs."""
    confidence_pct: float = 95.0
    resamples: int = 2_000
    seed: int = 0
    interval: Literal["bca", "percentile"] = "bca"
    min_blocks: int = 2
    """Fewer blocks (day x virtual cluster) give no interval, and without one nothing is approved."""

    unproven: Literal["refuse", "publish_harmless"] = "refuse"
    """What follows where the window proves nothing, because next to nothing queues in it: "refuse" waits for
    a window that does, "publish_harmless" lets a release go live that is shown to do no harm."""
    unproven_queuing_pct: float = 0.1
    """A window proves nothing when the mean queuing delay under FIFO is at most this share of FIFO's mean
    JCT. No order of the queue can gain more than that: a twentieth of the smallest margin."""

    p999_margin_pct: float = 50.0
    """Any order by size trades the tail for the mean: on a loaded week of Philly, QSSF's P99.9 is 24 % above
    FIFO's while its mean JCT is 85 % below."""
    p999_floor_s: float = 1_800.0
    starvation_wait_s: float = 86_400.0
    """A job that waits longer than this is counted as starved."""
    starved_margin_pct: float = 25.0
    starved_floor_pct: float = 0.1
    """Of all jobs (at least one job)."""
    longest_wait_margin_pct: float = 100.0
    """Wide, because it hangs on one job; P99.9 and the number of starved jobs are the finer measures."""
    longest_wait_floor_s: float = 86_400.0
    fairness_margin_pct: float = 25.0
    fairness_floor: float = 1.0
    """In units of slowdown (JCT over run time)."""
    fairness_min_jobs: int = 20
    """Users and virtual clusters with fewer jobs in the window say too little to be judged."""
    slowdown_bound_s: float = 600.0
    """Run times below this count as this much in a slowdown (bounded slowdown, Feitelson et al. 1997)."""
    utilisation_margin_pct: float = 5.0
    """Of the reference's delivered work; less depends on what happens to run when the window ends."""
    naive_margin_pct: float = 5.0
    """A model's error may be this much above a naive baseline's, and not clearly above it at all."""
    wake_ups_per_day_limit: float = 3.0
    """Of a release whose nodes sleep. With 20 of 420 nodes as a buffer Philly's wake 1.9 times a day, without
    one 60 times."""
    nodes_short_limit_pct: float = 0.1
    """Node-minutes that demand lacks on the window's counts of nodes, of all that it had."""
    added_queuing_limit_s: float = 60.0
    """What waiting for boots may add to the mean queuing delay."""
    coverage_margin_points: float = 10.0
    """By how much fewer bins than it says a quantile of the forecast may hold in."""
    inference_short_limit_pct: float = 2.0
    """Of a release with servers on loan: five-minute steps in which inference lacks servers that are lent. On
    a public load (ServeGen m-small, days 11 to 14) a headroom of 2 % lacks some in 1.4 % of steps with the
    forecast's quantile 0.98, in 14.5 % with the newest finished bin alone."""
    loan_preemptions_per_day_limit: float = 50.0
    """Jobs that taking servers back preempts. Lyra's rule preempts 5 to 40 a day on Philly (26,066 jobs)."""
    loan_preemption_ratio_limit_pct: float = 5.0
    """The same, of all submissions: Lyra's rule comes to 0.3 to 2 % there, lending blindly to 21 %."""
    loan_group_margin_pct: float = 10.0
    """By how much longer the jobs of any virtual cluster may wait with loans than without, on average."""
    loan_group_floor_s: float = 60.0
    decision_latency_limit_ms: float = 10.0
    """The paper's 3 ms (Lucid section 4.7), and room for a machine a third as fast."""
    decision_jobs: int = 2_048

    def __post_init__(self) -> None:
        if self.objective not in FIGURES:
            raise UnknownNameError("objective", self.objective, FIGURES)
        if self.foretold_by not in PREDICTED_BY:
            raise UnknownNameError("run times to predict by", self.foretold_by, PREDICTED_BY)
        if self.unproven not in UNPROVEN:
            raise UnknownNameError("answer to a window that proves nothing", self.unproven, UNPROVEN)
        if self.interval not in INTERVALS:
            raise UnknownNameError("interval", self.interval, INTERVALS)
        for name, low, high in _RANGES:
            value = getattr(self, name)
            whole = name in _WHOLE
            right_type = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            if not right_type or not math.isfinite(value) or not low <= value <= high:
                kind = "a whole number" if whole else "a number"
                raise BadInputError(
                    f"The gate's {name} is {value!r}.", remedy=f"Use {kind} from {low:g} to {high:g}."
                )

    @property
    def judges_predictions(self) -> bool:
        """Whether completion times have to be predicted to judge."""
        return self.objective in PREDICTABILITY

    def objective_against(self, reference: str) -> str:
        """The figure that counts against a policy: no policy is more predictable than FIFO."""
        return "mean_jct_s" if reference == ANCHOR and self.judges_predictions else self.objective

    def margin(self, reference: str, name: str) -> tuple[float, float]:
        """A figure's margin against a policy: per cent, and seconds or percentage points."""
        if name in PREDICTABILITY:
            return self.margin_pct, self.margin_points
        if reference == ANCHOR:
            return self.fifo_margin_pct, self.fifo_margin_floor_s
        return self.margin_pct, self.margin_floor_s

    def to_dict(self) -> dict[str, Any]:
        """Every setting by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "GateRules":
        """Rules from names and values; raises UnknownNameError for a name that is no setting."""
        known = {field.name for field in fields(cls)}
        for name in settings:
            if name not in known:
                raise UnknownNameError("gate setting", name, known)
        return cls(**settings)


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("margin_pct", 0, 100),
    ("margin_floor_s", 0, 1e9),
    ("fifo_margin_pct", 0, 100),
    ("fifo_margin_floor_s", 0, 1e9),
    ("margin_points", 0, 100),
    ("jct_price_pct", 0, 10_000),
    ("foretold_jobs", 1, 1_000_000),
    ("confidence_pct", 50, 99.99),
    ("resamples", 100, 1_000_000),
    ("seed", 0, 2**32 - 1),
    ("min_blocks", 2, 1_000),
    ("unproven_queuing_pct", 0, 100),
    ("p999_margin_pct", 0, 1_000),
    ("p999_floor_s", 0, 1e9),
    ("starvation_wait_s", 1, 1e9),
    ("starved_margin_pct", 0, 1_000),
    ("starved_floor_pct", 0, 100),
    ("longest_wait_margin_pct", 0, 1_000),
    ("longest_wait_floor_s", 0, 1e9),
    ("fairness_margin_pct", 0, 1_000),
    ("fairness_floor", 0, 1e6),
    ("fairness_min_jobs", 1, 1_000_000),
    ("slowdown_bound_s", 1, 1e6),
    ("utilisation_margin_pct", 0, 100),
    ("naive_margin_pct", 0, 1_000),
    ("wake_ups_per_day_limit", 0, 1e6),
    ("nodes_short_limit_pct", 0, 100),
    ("added_queuing_limit_s", 0, 1e9),
    ("coverage_margin_points", 0, 100),
    ("inference_short_limit_pct", 0, 100),
    ("loan_preemptions_per_day_limit", 0, 1e9),
    ("loan_preemption_ratio_limit_pct", 0, 1e6),
    ("loan_group_margin_pct", 0, 1_000),
    ("loan_group_floor_s", 0, 1e9),
    ("decision_latency_limit_ms", 0.001, 1e6),
    ("decision_jobs", 1, 1_000_000),
)
_WHOLE = {"foretold_jobs", "resamples", "seed", "min_blocks", "fairness_min_jobs", "decision_jobs"}
