"""The figures the gate compares, from result tables of policies that replayed the same jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError
from simulator.results.metrics import bounded_slowdown
from simulator.results.prediction_metrics import errors_of_jobs_pct

_NEEDED = (
    "job_id",
    "virtual_cluster",
    "user",
    "gpus",
    "submit_time_s",
    "first_start_time_s",
    "end_time_s",
    "queuing_delay_s",
    "jct_s",
)
Floats = NDArray[np.float64]


class ReplayResult(Protocol):
    """What the gate reads of a `SimulationResult`."""

    @property
    def jobs(self) -> pd.DataFrame:
        """One row a job, see docs/architecture.md."""


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """The part of the replay that counts, in seconds of the replay's clock, and the cluster's size.

    Jobs submitted before `start_s` (the warm-up) occupy the cluster but are not counted. `gpus` None: the
    cluster's size is not known, and utilisation is compared as delivered GPU-hours.
    """

    start_s: float
    end_s: float
    gpus: int | None = None

    def __post_init__(self) -> None:
        if not self.end_s > self.start_s:
            raise BadInputError(
                f"The measured window ends at {self.end_s:g} s, not after its start at {self.start_s:g} s.",
                remedy="Choose a later end.",
            )


@dataclass(frozen=True, slots=True)
class EstimateCheck:
    """How usable a contender's run time estimates are."""

    jobs: int
    not_finite: int
    not_positive: int
    failed_expectations: tuple[str, ...] = ()  # of a data validation that the caller ran

    @property
    def usable(self) -> bool:
        """Every estimate is finite and above zero, there is one, and no expectation failed."""
        return self.jobs > 0 and not (self.not_finite or self.not_positive or self.failed_expectations)


def check_estimates(estimated_duration_s: ArrayLike) -> EstimateCheck:
    """Count estimates (seconds, shape (jobs,)) that are not finite or not above zero."""
    values = np.asarray(estimated_duration_s, dtype=np.float64)
    finite = np.isfinite(values)
    return EstimateCheck(int(values.size), int((~finite).sum()), int((values[finite] <= 0).sum()))


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """One policy's per-job arrays, in the order of `SharedJobs`."""

    jct_s: Floats
    queuing_delay_s: Floats
    first_start_time_s: Floats
    end_time_s: Floats
    finished: NDArray[np.bool_]
    preemptions: int | None
    colocated_jobs: int | None
    pred_err_pct: Floats
    """Prediction error at submission (PCS, section 2); NaN where the job's end was not predicted."""


@dataclass(frozen=True, slots=True)
class SharedJobs:
    """What all replays have in common: the jobs, in order of submission."""

    submit_time_s: Floats
    virtual_cluster: NDArray[np.object_]
    user: NDArray[np.object_]
    """None where the log names no user."""
    gpus: Floats
    duration_s: Floats
    """Run time without waiting, preemption or a neighbour on the same GPUs."""


def align(
    results: Mapping[str, ReplayResult], window: MeasuredWindow | None
) -> tuple[SharedJobs, dict[str, PolicyFigures]]:
    """Line the policies' jobs up and keep those of the window.

    Raises BadInputError when a column is missing, when the policies did not replay the same jobs, or when the
    window holds none.
    """
    tables: dict[str, pd.DataFrame] = {}
    for name, result in results.items():
        missing = [column for column in _NEEDED if column not in result.jobs.columns]
        if missing:
            raise BadInputError(
                f"The result of {name!r} lacks the columns {', '.join(missing)}.",
                remedy="Judge results of simulator.replay.simulate.",
            )
        # A requeued job may hold several rows of one id, so the submission belongs to the key.
        table = result.jobs.sort_values(["submit_time_s", "job_id"], kind="stable")
        if "withdrawn" in table.columns:  # they left their log's queue without a run: nothing to judge by
            table = table[~table["withdrawn"].astype(bool)]
        if window is not None:
            inside = (table["submit_time_s"] >= window.start_s) & (table["submit_time_s"] < window.end_s)
            table = table[inside]
        tables[name] = table.reset_index(drop=True)
    first_name, first = next(iter(tables.items()))
    if first.empty:
        raise BadInputError(
            "No job was submitted in the measured window.", remedy="Choose a longer or an earlier window."
        )
    for name, table in tables.items():
        same = len(table) == len(first) and all(
            bool((table[column].to_numpy() == first[column].to_numpy()).all())
            for column in ("job_id", "submit_time_s", "gpus")
        )
        if not same:
            raise BadInputError(
                f"{name!r} ({len(table)} jobs) and {first_name!r} ({len(first)} jobs) replayed other jobs.",
                remedy="Simulate all policies on one workload.",
            )
    user = first["user"].astype(object)
    shared = SharedJobs(
        submit_time_s=first["submit_time_s"].to_numpy(np.float64),
        virtual_cluster=first["virtual_cluster"].astype(object).to_numpy(),
        user=user.where(user.notna() & (user != ""), None).to_numpy(dtype=object),
        gpus=first["gpus"].to_numpy(np.float64),
        duration_s=_true_duration_s(tables),
    )
    return shared, {name: _figures(table) for name, table in tables.items()}


def _figures(table: pd.DataFrame) -> PolicyFigures:
    end = table["end_time_s"].to_numpy(np.float64)
    jct = table["jct_s"].to_numpy(np.float64)
    wait = table["queuing_delay_s"].to_numpy(np.float64)
    start = table["first_start_time_s"].to_numpy(np.float64)
    return PolicyFigures(
        jct_s=jct,
        queuing_delay_s=wait,
        first_start_time_s=start,
        end_time_s=end,
        finished=np.isfinite(end) & np.isfinite(jct) & np.isfinite(wait) & np.isfinite(start),
        preemptions=int(table["preemptions"].sum()) if "preemptions" in table else None,
        colocated_jobs=int(table["colocated"].astype(bool).sum()) if "colocated" in table else None,
        pred_err_pct=errors_of_jobs_pct(table),
    )


def _true_duration_s(tables: Mapping[str, pd.DataFrame]) -> Floats:
    first = next(iter(tables.values()))
    if "duration_s" in first:
        return first["duration_s"].to_numpy(np.float64)
    # Colocation and preemption only ever lengthen a run: the shortest one seen is the job's own.
    runs = [(t["jct_s"] - t["queuing_delay_s"]).to_numpy(np.float64) for t in tables.values()]
    shortest: Floats = np.nanmin(np.vstack(runs), axis=0)
    return shortest


def quantile(values: Floats, share: float) -> float:
    """The inverse of the empirical distribution function, as the bootstrap of quantiles uses it."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def slowdown(figures: PolicyFigures, shared: SharedJobs, bound_s: float) -> Floats:
    """Bounded slowdown per job (`simulator.results.metrics.bounded_slowdown`), shape (jobs,)."""
    return bounded_slowdown(figures.jct_s, shared.duration_s, bound_s)


@dataclass(frozen=True, slots=True)
class WorstGroup:
    """The group (user or virtual cluster) with the highest mean slowdown."""

    name: str
    mean_slowdown: float
    groups: int


def worst_group(slowdowns: Floats, group: NDArray[np.object_], min_jobs: int) -> WorstGroup | None:
    """The worst of the groups with at least `min_jobs` jobs; None when there is none."""
    table = pd.DataFrame({"group": group, "slowdown": slowdowns}).dropna(subset=["group"])
    means = table.groupby("group", sort=True)["slowdown"].agg(["mean", "size"])
    means = means[means["size"] >= min_jobs]
    if means.empty:
        return None
    name = means["mean"].idxmax()
    return WorstGroup(str(name), float(means["mean"].max()), len(means))


def delivered_gpu_h(figures: PolicyFigures, shared: SharedJobs, window: MeasuredWindow) -> float:
    """GPU-hours of the jobs' own work done inside the window (work still to do at its end does not count).

    A job's work (GPUs x run time) is spread evenly from its first start to its end. Two jobs on the same GPUs
    both deliver, so sharing raises this figure where it would lower the count of busy GPUs.
    """
    lasting = np.maximum(figures.end_time_s - figures.first_start_time_s, 1e-9)
    inside = np.minimum(figures.end_time_s, window.end_s) - np.maximum(
        figures.first_start_time_s, window.start_s
    )
    done = np.clip(inside / lasting, 0.0, 1.0)
    return float((shared.gpus * shared.duration_s * done)[figures.finished].sum() / 3600.0)


def window_of(shared: SharedJobs) -> MeasuredWindow:
    """From the first to the last submission, when no window was given."""
    first, last = float(shared.submit_time_s.min()), float(shared.submit_time_s.max())
    return MeasuredWindow(first, max(last, first + 1.0))


def policy_row(
    name: str,
    figures: PolicyFigures,
    shared: SharedJobs,
    window: MeasuredWindow,
    bound_s: float,
    starved_s: float,
) -> dict[str, Any]:
    """The row of the policies' table; means are over the jobs that ended, None without any."""
    done = figures.finished
    jct, wait = figures.jct_s[done], figures.queuing_delay_s[done]
    some = bool(done.any())
    work = delivered_gpu_h(figures, shared, window)
    capacity = window.gpus * (window.end_s - window.start_s) / 3600.0 if window.gpus else None
    error = figures.pred_err_pct[np.isfinite(figures.pred_err_pct)]
    return {
        "policy": name,
        "jobs": int(done.size),
        "unfinished_jobs": int((~done).sum()),
        "mean_jct_s": float(jct.mean()) if some else None,
        "mean_queuing_delay_s": float(wait.mean()) if some else None,
        "p99_queuing_delay_s": quantile(wait, 0.99) if some else None,
        "p999_queuing_delay_s": quantile(wait, 0.999) if some else None,
        "longest_wait_s": float(wait.max()) if some else None,
        "starved_jobs": int((wait > starved_s).sum()),
        "mean_slowdown": float(slowdown(figures, shared, bound_s)[done].mean()) if some else None,
        "delivered_gpu_h": work,
        "utilisation_pct": 100.0 * work / capacity if capacity else None,
        "preemptions": figures.preemptions,
        "colocated_jobs": figures.colocated_jobs,
        "predicted_jobs": int(error.size) if error.size else None,
        "mean_pred_err_pct": float(error.mean()) if error.size else None,
        "p99_pred_err_pct": quantile(error, 0.99) if error.size else None,
    }
