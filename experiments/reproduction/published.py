"""What Lucid's paper (ASPLOS '23) reports, as data. None of these numbers was measured here.

Source of every constant: Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for Deep
Learning Training Jobs", ASPLOS '23; table, figure or section as named beside it. Times as printed: hours in
Tables 3 to 5, seconds in Tables 2 and 6.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from foundation.errors import UnknownNameError

PAPER = "Lucid (ASPLOS '23)"
TRACES = ("venus", "saturn", "philly")
POLICIES = ("fifo", "sjf", "qssf", "horus", "tiresias", "lucid")


@dataclass(frozen=True)
class TraceFacts:
    """A row of Table 2, with the number of virtual clusters from section 4.1."""

    gpus: int
    jobs: int
    mean_duration_s: float
    virtual_clusters: int
    period: str


TABLE_2: Mapping[str, TraceFacts] = {
    "saturn": TraceFacts(2_080, 101_254, 13_006, 20, "September 2020"),
    "venus": TraceFacts(1_080, 23_859, 5_419, 15, "September 2020"),
    "philly": TraceFacts(864, 12_389, 25_533, 1, "October 2017"),
}

# Table 3: hours, (physical, simulation).
TABLE_3_STATIC_MAKESPAN_H: Mapping[str, tuple[float, float]] = {
    "fifo": (11.56, 11.34),
    "sjf": (11.27, 11.02),
    "tiresias": (9.23, 9.68),
    "lucid": (8.45, 8.17),
}
TABLE_3_CONTINUOUS_JCT_H: Mapping[str, tuple[float, float]] = {
    "fifo": (8.17, 7.97),
    "sjf": (4.59, 4.46),
    "tiresias": (4.03, 4.16),
    "lucid": (3.64, 3.49),
}


def _row(*hours: float) -> Mapping[str, float]:
    return dict(zip(POLICIES, hours, strict=True))


# Table 4: hours by trace and policy.
TABLE_4_JCT_H: Mapping[str, Mapping[str, float]] = {
    "venus": _row(18.57, 5.86, 5.15, 4.41, 4.09, 3.58),
    "saturn": _row(14.21, 2.36, 2.41, 2.13, 1.89, 1.79),
    "philly": _row(36.85, 9.41, 9.03, 10.49, 9.02, 6.84),
}
TABLE_4_QUEUE_H: Mapping[str, Mapping[str, float]] = {
    "venus": _row(15.30, 2.59, 1.88, 1.14, 0.82, 0.25),
    "saturn": _row(12.61, 0.76, 0.80, 0.53, 0.28, 0.16),
    "philly": _row(30.45, 3.01, 2.63, 4.09, 2.62, 0.29),
}
TABLE_4_P999_QUEUE_H: Mapping[str, Mapping[str, float]] = {
    "venus": _row(163.07, 89.47, 352.89, 58.80, 55.39, 26.15),
    "saturn": _row(56.39, 39.20, 137.82, 36.03, 26.62, 19.28),
    "philly": _row(117.55, 101.60, 125.57, 223.47, 98.80, 71.22),
}

# Table 5 (Venus): hours, (average JCT, average queue) of large (> 8 GPUs) and small jobs.
TABLE_5: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "large": {"fifo": (9.96, 6.22), "tiresias": (6.08, 2.34), "lucid": (4.59, 0.86)},
    "small": {"fifo": (19.55, 16.34), "tiresias": (3.75, 0.54), "lucid": (3.46, 0.19)},
}


@dataclass(frozen=True)
class ProfilingLimitRow:
    """A row of Table 6 (Venus): what a T_prof gives."""

    finish_rate_pct: float
    profiling_queue_s: float
    mean_jct_s: float


TABLE_6: Mapping[int, ProfilingLimitRow] = {
    100: ProfilingLimitRow(27.65, 21, 13_087),
    200: ProfilingLimitRow(44.61, 73, 12_886),
    300: ProfilingLimitRow(53.73, 175, 13_160),
    600: ProfilingLimitRow(64.40, 509, 13_270),
}

# Table 7 (Venus, September 2020): MAE of submissions per ten minutes; R2 of run times.
TABLE_7: Mapping[str, Mapping[str, float]] = {
    "throughput_mae": {"rf": 4.607, "lightgbm": 4.491, "xgboost": 5.807, "dnn": 5.132, "lucid": 4.125},
    "duration_r2": {"rf": 0.101, "lightgbm": 0.230, "xgboost": 0.332, "dnn": 0.181, "lucid": 0.413},
}
# Section 4.6: share of configurations that the Packing Analyze Model's tree classifies correctly.
PACKING_ACCURACY = 0.941


@dataclass(frozen=True)
class PublishedClaim:
    """One sentence of the evaluation as a range; `high` None: the paper gives one number or a bound.

    `sense` says what counts as reaching it: at least `low`, or at most `high`. `trace`: where the paper says
    it; None: over its three traces.
    """

    statement: str
    place: str
    unit: Literal["x", "%", "ms", "s", "min"]
    sense: Literal["at least", "at most"]
    low: float
    high: float | None = None
    trace: str | None = None

    @property
    def bound(self) -> float:
        """What must be reached: the range's easier end."""
        return self.low if self.sense == "at least" else (self.low if self.high is None else self.high)

    def text(self) -> str:
        """The range as printed."""
        return self.with_unit(f"{self.low:g}" if self.high is None else f"{self.low:g} to {self.high:g}")

    def with_unit(self, value: str) -> str:
        """A value as text in the claim's unit."""
        return value + {"x": "×", "%": " %", "ms": " ms", "s": " s", "min": " min"}[self.unit]


CLAIMS: Mapping[str, PublishedClaim] = {
    "jct_vs_fifo": PublishedClaim("Lucid cuts FIFO's average JCT", "section 1", "x", "at least", 5.2, 7.9),
    "jct_vs_tiresias": PublishedClaim(
        "Lucid cuts Tiresias's average JCT", "section 1", "x", "at least", 1.1, 1.3
    ),
    "queue_vs_tiresias": PublishedClaim(
        "Lucid cuts Tiresias's average queuing delay", "section 4.3", "x", "at least", 1.8, 9.1
    ),
    "tail_vs_tiresias": PublishedClaim(
        "Lucid cuts Tiresias's P99.9 queuing delay", "section 4.3", "x", "at least", 1.4, 2.1
    ),
    "gpu_utilisation": PublishedClaim(
        "GPU utilisation of active GPUs over Tiresias's", "section 4.3", "%", "at least", 9, 17
    ),
    "gpu_memory": PublishedClaim("GPU memory in use over Tiresias's", "section 4.3", "%", "at least", 7, 24),
    "short_jobs_queued": PublishedClaim(
        "Fewer short jobs (up to 60 s) queue than under Tiresias", "section 4.3", "x", "at least", 4.1, 24.8
    ),
    # The same count under a stricter rule of ours: a policy that decides once a minute, as Tiresias, lets
    # nearly every job wait for its next round.
    "short_jobs_waiting": PublishedClaim(
        "The same, counting only jobs that waited for over a minute",
        "section 4.3; our rule",
        "x",
        "at least",
        4.1,
        24.8,
    ),
    "decision_latency": PublishedClaim(
        "A decision over 2,048 queued jobs, model inference included", "section 4.4", "ms", "at most", 3
    ),
    "training_time": PublishedClaim(
        "Training the Workload Estimate Model", "section 4.4", "min", "at most", 11
    ),
    "without_binder": PublishedClaim(
        "Indolent packing cuts queuing against naive bin packing",
        "section 4.5",
        "x",
        "at least",
        1.4,
        None,
        "venus",
    ),
    "without_sharing": PublishedClaim(
        "Lucid without sharing cuts QSSF's queuing", "section 4.5", "x", "at least", 2.0, None, "venus"
    ),
    "without_estimator": PublishedClaim(
        "The estimator cuts queuing against run-time-agnostic sharing",
        "section 4.5",
        "x",
        "at least",
        2.2,
        None,
        "venus",
    ),
    "space_aware": PublishedClaim(
        "Space-aware profiling cuts the profiler's queuing (up to)", "section 4.5", "x", "at least", 11.6
    ),
    "ended_in_profiling": PublishedClaim(
        "Jobs that end while they are profiled", "section 4.5", "%", "at least", 23.3, 55.4
    ),
    "profiling_queue": PublishedClaim("Queuing delay before profiling", "section 4.5", "s", "at most", 60),
    "mixes_vs_tiresias": PublishedClaim(
        "Lucid cuts Tiresias's queuing under every workload mix",
        "section 4.5",
        "x",
        "at least",
        1.8,
        4.2,
        "venus",
    ),
    "thresholds": PublishedClaim(
        "Spread of average JCT over binder thresholds", "section 4.5", "%", "at most", 3.6, None, "venus"
    ),
    "preemption_overhead": PublishedClaim(
        "Queuing that preemption's overhead adds under Tiresias",
        "section 4.8",
        "%",
        "at least",
        13,
        None,
        "venus",
    ),
    "weekly_update": PublishedClaim(
        "Weekly model updates cut queuing against none", "section 4.5", "%", "at least", 4.8, None, "venus"
    ),
    "daily_update": PublishedClaim(
        "Daily model updates cut it further", "section 4.5", "%", "at least", 1.6, None, "venus"
    ),
}


def find_trace(name: str) -> str:
    """Return `name` when the paper evaluates a trace of that name; raises UnknownNameError."""
    if name not in TRACES:
        raise UnknownNameError("trace of the paper", name, TRACES)
    return name
