"""Figures of merit of a simulated schedule, each defined once and with its source (docs/concepts.md)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError

if TYPE_CHECKING:
    import pandas as pd


def jain_index(values: ArrayLike) -> float:
    """Return Jain's index of what each party got: (sum x)^2 / (n sum x^2), from 1/n to 1.

    1: all got the same; k/n: k of n got the same and the others nothing. It does not depend on the unit of
    `values` (shape (n,), finite, >= 0). No party, or nothing for any: 1.

    Jain, Chiu, Hawe, "A quantitative measure of fairness and discrimination for resource allocation in shared
    computer systems" (DEC-TR-301, 1984), section 2.
    """
    shares = np.asarray(values, dtype=np.float64)
    if shares.ndim != 1 or not np.isfinite(shares).all() or (shares < 0).any():
        raise BadInputError(
            f"Jain's index of {shares!r}.", remedy="Give one finite number of 0 or more a party."
        )
    largest = shares.max(initial=0.0)
    if not largest:
        return 1.0
    shares = shares / largest  # squares of very small or large numbers would leave the range of floats
    return min(1.0, float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())))


def progress_rates(slowdowns: NDArray[np.float64], groups: "pd.Series[Any]") -> NDArray[np.float64]:
    """Return each group's mean progress rate, in (0, 1], by the order of names; without a name: left out.

    A job's progress rate is the inverse of its slowdown: run time alone over time in the system ("normalised
    progress", Eyerman and Eeckhout, "System-level performance metrics for multiprogram workloads", IEEE Micro
    28(3), 2008). Jain's index is meant for such a quantity: bounded, and better when higher. An index of mean
    slowdowns would hang on the one user with the shortest job in the longest queue.
    """
    import pandas as pd

    means = pd.Series(1.0 / slowdowns).groupby(groups.array, sort=True, dropna=True).mean()
    return np.asarray(means, dtype=np.float64)


Floats = NDArray[np.float64]

# Run times below it count as this much in a slowdown (Feitelson and Rudolph 1998, section 4).
SLOWDOWN_BOUND_S = 10.0
# Lucid's Table 5 calls a job large that needs more than this.
SMALL_JOB_MAX_GPUS = 8
# Lucid, section 4.3 ("Debugging feedback"), counts the queued among jobs of at most 60 s. Ten minutes is the
# limit of a debugging session that people wait for.
SHORT_JOB_S = 60.0
DEBUGGING_JOB_S = 600.0
# A job starves when it waits for more than ten times its run time, and for an hour at least: see `starved`.
STARVED_AFTER_RUN_TIMES = 10.0
STARVED_AFTER_S = 3_600.0

PERCENTILES = {"median": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def percentile(values: np.ndarray, percent: float) -> float:
    """Return a percentile by linear interpolation; 0 for no values."""
    return float(np.percentile(values, percent)) if len(values) else 0.0


def mean(values: np.ndarray) -> float:
    """Return the mean; 0 for no values."""
    return float(np.mean(values)) if len(values) else 0.0


def bounded_slowdown(jct_s: ArrayLike, duration_s: ArrayLike, bound_s: float = SLOWDOWN_BOUND_S) -> Floats:
    """Return each job's bounded slowdown, max(1, JCT / max(run time, bound)); all in seconds, shape (jobs,).

    The run time is the job's own, alone and undisturbed: being packed or preempted counts as slowdown. The
    bound keeps jobs that end at once from drowning all others; 10 s is the field's usual choice.

    Feitelson, Rudolph, Schwiegelshohn, Sevcik, Wong, "Theory and practice in parallel job scheduling" (JSSPP
    1997), and Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling" (JSSPP 1998),
    section 4.
    """
    jct = np.asarray(jct_s, dtype=np.float64)
    duration = np.asarray(duration_s, dtype=np.float64)
    values: Floats = np.maximum(1.0, jct / np.maximum(duration, bound_s))
    return values


def starved(queuing_delay_s: ArrayLike, duration_s: ArrayLike) -> NDArray[np.bool_]:
    """Say which jobs starved: those pending for longer than max(1 h, 10 x run time); shape (jobs,).

    Tiresias (NSDI '19, "avoiding starvation") calls a job starving when it has waited for longer than a
    multiple of the time that it ran, so the limit grows with the job; we take ten times, an order of
    magnitude. Below an hour no wait counts as starvation, however short the job.
    """
    limit = np.maximum(STARVED_AFTER_S, STARVED_AFTER_RUN_TIMES * np.asarray(duration_s, dtype=np.float64))
    waits: NDArray[np.bool_] = np.asarray(queuing_delay_s, dtype=np.float64) > limit
    return waits


def schedule_summary(jobs: "pd.DataFrame", *, total_gpus: float, held_gpu_s: float) -> dict[str, Any]:
    """Summarise a table of jobs that left the cluster (`simulator.results.result.job_rows`).

    Figures are of the jobs that ran in their log, and completed. Those that left their log's queue without a
    run are told apart, whatever the policy: `left_waiting` left this queue, too, `would_have_started` of them
    at the moment at which they were to start, and `withdrawn_that_ran` were given a run time, and ran.
    `held_gpu_s` is the GPU time that was occupied; GPUs that two jobs share count once. `utilisation_pct` is
    its share of all GPUs' time from the first submission to the last end (the makespan), and
    `effective_utilisation_pct` the share of the completed jobs' own work, each as if alone: below the former
    by overheads and lost runs, above it by what packing gains (system throughput over GPUs, Eyerman and
    Eeckhout 2008).
    """
    withdrawn = jobs["withdrawn"].to_numpy(dtype=bool)
    gone = rows_of(jobs, withdrawn)
    left = (gone["state"] == "cancelled").to_numpy()
    jobs = rows_of(jobs, ~withdrawn)
    done = (jobs["state"] == "completed").to_numpy()
    completed = rows_of(jobs, done)
    jct = completed["jct_s"].to_numpy()
    queuing = jobs["queuing_delay_s"].to_numpy()
    duration = jobs["duration_s"].to_numpy()
    gpus = jobs["gpus"].to_numpy()
    makespan = float(jobs["end_time_s"].max() - jobs["submit_time_s"].min()) if len(jobs) else 0.0
    capacity = total_gpus * makespan
    slowdown = bounded_slowdown(jct, duration[done])
    # A job that was stopped for good counts with the time that it did run.
    ran = np.where(done, duration, np.maximum(0.0, jobs["jct_s"].to_numpy() - queuing))
    return {
        "jobs": len(jobs),
        "completed_jobs": len(completed),
        "cancelled_jobs": len(jobs) - len(completed),
        "left_waiting": int(left.sum()),
        "would_have_started": int(gone["would_have_started"].sum()),
        "withdrawn_that_ran": len(gone) - int(left.sum()),
        **_spread("jct_s", jct),
        **_spread("queuing_delay_s", queuing),
        "longest_wait_s": float(queuing.max()) if len(jobs) else 0.0,
        "queued_jobs": int((queuing > 0).sum()),
        "starved_jobs_pct": _percent(starved(queuing, ran)),
        "bounded_slowdown_mean": mean(slowdown),
        "bounded_slowdown_p95": percentile(slowdown, 95),
        "jain_users": _fairness(slowdown, completed["user"]),
        "jain_virtual_clusters": _fairness(slowdown, completed["virtual_cluster"]),
        "makespan_s": makespan,
        "utilisation_pct": 100 * held_gpu_s / capacity if capacity else 0.0,
        "effective_utilisation_pct": (
            100 * float((duration * gpus)[done].sum()) / capacity if capacity else 0.0
        ),
        **_by_size(completed),
        **_short_jobs(queuing[done], duration[done]),
        "preemptions": int(jobs["preemptions"].sum()),
        "colocated_jobs": int(jobs["colocated"].sum()),
        "profiled_jobs": int(jobs["profiled"].sum()),
        "ended_in_profiling": int(jobs["ended_in_profiling"].sum()),
        "overhead_gpu_s": float((jobs["overhead_s"] * jobs["gpus"]).sum()),
        "lost_gpu_s": float((jobs["lost_s"] * jobs["gpus"]).sum()),
    }


def rows_of(jobs: "pd.DataFrame", chosen: NDArray[np.bool_]) -> "pd.DataFrame":
    """Return some rows of a table of jobs: the table itself where these are all, since copies are large."""
    return jobs if chosen.all() else jobs[chosen]


def _spread(name: str, values: np.ndarray) -> dict[str, float]:
    """Mean and percentiles of one column; 0 for no values."""
    points = np.percentile(values, list(PERCENTILES.values())) if len(values) else np.zeros(len(PERCENTILES))
    return {
        f"mean_{name}": mean(values),
        **{f"{label}_{name}": float(point) for label, point in zip(PERCENTILES, points, strict=True)},
    }


def _fairness(slowdown: Floats, groups: "pd.Series[Any]") -> float | None:
    """Jain's index over groups; None where the log names none."""
    rates = progress_rates(slowdown, groups)
    return jain_index(rates) if len(rates) else None


def _percent(flags: np.ndarray) -> float:
    """The share of jobs (%) that a flag holds for; 0 for no jobs."""
    return 100 * float(flags.mean()) if len(flags) else 0.0


def _by_size(completed: "pd.DataFrame") -> dict[str, float]:
    """Large jobs (more than 8 GPUs) against small ones, as in Lucid's Table 5."""
    large = completed["gpus"].to_numpy() > SMALL_JOB_MAX_GPUS
    figures: dict[str, float] = {"large_jobs": int(large.sum())}
    jct, queuing = completed["jct_s"].to_numpy(), completed["queuing_delay_s"].to_numpy()
    for label, chosen in (("large", large), ("small", ~large)):
        figures[f"{label}_jobs_mean_jct_s"] = mean(jct[chosen])
        figures[f"{label}_jobs_mean_queuing_delay_s"] = mean(queuing[chosen])
    return figures


def _short_jobs(queuing: np.ndarray, duration: np.ndarray) -> dict[str, float]:
    """How long people wait for feedback from short jobs (Lucid, section 4.3, "Debugging feedback")."""
    short, debugging = duration <= SHORT_JOB_S, duration <= DEBUGGING_JOB_S
    return {
        "short_jobs": int(short.sum()),
        "short_jobs_queued": int((queuing[short] > 0).sum()),
        "short_jobs_queued_pct": _percent(queuing[short] > 0),
        "debugging_jobs": int(debugging.sum()),
        "debugging_jobs_queued_pct": _percent(queuing[debugging] > 0),
        "debugging_jobs_mean_queuing_delay_s": mean(queuing[debugging]),
    }


_GROUPED = ["jct_s", "queuing_delay_s", "duration_s", "gpus"]


def by_group(jobs: "pd.DataFrame", column: str) -> list[Mapping[str, Any]]:
    """Summarise by `virtual_cluster` or `user`, in the order of names; rows without a name are one group."""
    names = jobs[column].astype("str").fillna("(unknown)")
    return [
        {
            column: str(name),
            "jobs": len(group),
            "mean_jct_s": mean(group["jct_s"].to_numpy()),
            "mean_queuing_delay_s": mean(group["queuing_delay_s"].to_numpy()),
            "p999_queuing_delay_s": percentile(group["queuing_delay_s"].to_numpy(), 99.9),
            "bounded_slowdown_mean": mean(
                bounded_slowdown(group["jct_s"].to_numpy(), group["duration_s"].to_numpy())
            ),
            "gpu_s": float((group["duration_s"] * group["gpus"]).sum()),
        }
        for name, group in jobs[_GROUPED].groupby(names, sort=True)
    ]
