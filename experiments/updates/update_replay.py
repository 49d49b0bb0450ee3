"""What updating the models buys over a months-long log (Lucid, section 4.5): `lucid replay-updates`.

Each interval is replayed with frozen statistics, as the paper's static model has them, and with live ones, as
our scheduler keeps them. Errors are told over time; what they are worth, the Lucid policy says: it replays
the same jobs with each set of estimates. Retraining may turn out to buy nothing; then that is the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.updates.update_intervals import (
    DAY_S,
    INTERVALS,
    TRAINING,
    Estimates,
    History,
    Learned,
    Lesson,
    assemble,
    learn,
    length_s,
    lessons,
)
from foundation.errors import BadInputError, UnknownNameError
from foundation.progress import Progress, silent
from foundation.worker_processes import over_processes
from lucid_models.duration.model import MIN_JOBS, DurationSettings, epoch_seconds
from lucid_models.evaluation.baselines import throughput_baselines
from lucid_models.evaluation.measures import duration_metrics
from lucid_models.evaluation.rival_estimates import known_from_s
from lucid_models.throughput.model import (
    DEFAULT_LEAD_BINS,
    ThroughputPredictModel,
    ThroughputSettings,
    binned_series,
)
from simulator.cluster.spec import ClusterSpec
from simulator.gate.bootstrap import block_numbers, paired_mean_change
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import ColocationModel
from simulator.workload.job import JobProfile
from simulator.workload.workload import Workload

Floats = NDArray[np.float64]
FROZEN, LIVE = "frozen", "live"
STATIC = ("never", FROZEN)  # what everything else is compared with
ORACLE = "true run times"
TRAINING_DAYS = 28.0
PERIOD_DAYS = 7.0  # of the errors over time
SERIES: Mapping[str, str] = {"jobs": "submitted_gpu_jobs", "gpus": "submitted_gpus"}
NAIVE = "rolling_median_12"
LUCID = "lucid"


@dataclass(frozen=True)
class Replay:
    """`rows`: one an interval and kind of statistics. `over_time`: their errors, one row a week more."""

    rows: tuple[dict[str, Any], ...]
    over_time: tuple[dict[str, Any], ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Simulated:
    """The jobs to replay, the cluster, and which jobs share GPUs; `rows` of the log for each job."""

    workload: Workload
    cluster: ClusterSpec
    colocation: ColocationModel | None
    rows: NDArray[np.intp]
    estimates: Mapping[tuple[str, str], Floats]


def check_intervals(intervals: Sequence[str]) -> list[str]:
    """Return the intervals, the longest first, `never` always among them; raises UnknownNameError."""
    for name in intervals:
        if name not in INTERVALS:
            raise UnknownNameError("update interval", name, INTERVALS)
    return [name for name in INTERVALS if name in intervals or name == STATIC[0]]


def replay_updates(
    jobs: pd.DataFrame,
    *,
    intervals: Sequence[str] = tuple(INTERVALS),
    training_days: float = TRAINING_DAYS,
    settings: DurationSettings = TRAINING,
    cluster: ClusterSpec | None = None,
    profiles: Mapping[str, JobProfile] | None = None,
    colocation: ColocationModel | None = None,
    workers: int = 1,
    progress: Progress = silent,
) -> Replay:
    """Replay a job table: the first `training_days` teach the first fit, the rest is estimated.

    Without a `cluster` only errors are measured. `profiles` by job type and `colocation` let jobs share GPUs.
    Raises BadInputError for a log that is too short, UnknownNameError for an interval.
    """
    names = check_intervals(intervals)
    ran = jobs[jobs["duration_s"].astype("Float64").fillna(0) > 0]
    ran = ran.sort_values("submit_time", kind="stable").reset_index(drop=True)
    history, asked = _history(ran, training_days, settings)
    submit_s = history.submit_s[asked]
    span_s = float(submit_s.max() - submit_s.min())
    remarks = [
        f"{name} updates are left out: the {span_s / DAY_S:.0f} days after training hold no second one."
        for name in names
        if name != STATIC[0] and INTERVALS[name] >= span_s
    ]
    names = [name for name in names if name == STATIC[0] or INTERVALS[name] < span_s]
    todo = lessons(float(submit_s.min()), float(submit_s.max()), names, always_live=True)
    began = process_time()
    done = over_processes(learn, history, todo, workers=workers, what="fits", progress=progress)
    fit_s = process_time() - began
    tested = ran[asked].reset_index(drop=True)
    estimates = _estimates(done, submit_s, names)
    rows = [
        {
            "interval": name,
            "statistics": kind,
            "fits": _fits(todo, length_s(name, float(submit_s.min()), float(submit_s.max()))),
            **_errors(tested, estimates[name, kind]),
        }
        for name, kind in estimates
    ]
    over_time = list(_over_time(tested, submit_s, estimates))
    remarks += [
        f"{len(todo)} fits on up to {max(learned.jobs for learned in done.values()):,} jobs each"
        + (f": {fit_s:.0f} CPU seconds." if workers == 1 else "."),
        "The error is that of log10 run time, tau Kendall's of GPU time.",
    ]
    if cluster is not None:
        rows, said = _with_queues(
            rows, tested, estimates, cluster, profiles, colocation, workers=workers, progress=progress
        )
        remarks += said
    else:
        remarks.append("No --nodes, so nothing was simulated: errors only.")
    return Replay(tuple(rows), tuple(over_time), tuple(remarks))


def replay_throughput_updates(
    throughput: pd.DataFrame,
    *,
    intervals: Sequence[str] = tuple(INTERVALS),
    test_days: int = 28,
    lead_bins: int = DEFAULT_LEAD_BINS,
    settings: ThroughputSettings | None = None,
    progress: Progress = silent,
) -> tuple[dict[str, Any], ...]:
    """Rows {series, interval, fits, mae, naive_mae} over the last `test_days`.

    Each fit learns from all bins before it. The history behind each forecast is live in any case: only the
    shape functions grow old.
    """
    names = [
        name
        for name in check_intervals(intervals)
        if name == STATIC[0] or INTERVALS[name] < test_days * DAY_S
    ]
    start_s = epoch_seconds(throughput, "bin_start")
    bin_s = float(throughput["bin_s"].iloc[0])
    end_s = float(start_s.max()) + bin_s
    first_s = end_s - test_days * DAY_S
    if first_s - start_s.min() < 2 * DAY_S:
        raise BadInputError(
            f"{test_days} test days leave less than two days of throughput to learn from.",
            remedy="Give a longer table, or test fewer days.",
        )
    todo = lessons(first_s, end_s - bin_s, names)
    total = len(SERIES) * len(todo)
    rows: list[dict[str, Any]] = []
    for place, (short, series) in enumerate(SERIES.items()):
        data = binned_series(throughput, series)
        truth = data.counts[data.position]
        naive = throughput_baselines(data.counts, lead_bins, data.bin_s)[NAIVE][data.position]
        tested = start_s >= first_s
        forecast = {name: np.full(len(start_s), np.nan) for name in names}
        for number, lesson in enumerate(todo):
            progress(place * len(todo) + number, total, f"forecasts of {series}")
            past = throughput[start_s + bin_s <= lesson.at_s]
            model = ThroughputPredictModel(settings).fit(past, series, lead_bins)
            known = start_s < min(lesson.until_s, end_s)
            said = np.full(len(start_s), np.nan)
            said[known] = model.predict(throughput[known])
            for name in names:
                every_s = length_s(name, first_s, end_s - bin_s)
                if not (lesson.at_s - first_s) % every_s:
                    mine = (start_s >= lesson.at_s) & (start_s < lesson.at_s + every_s)
                    forecast[name][mine] = said[mine]
        rows += [
            {
                "series": short,
                "interval": name,
                "fits": _fits(todo, length_s(name, first_s, end_s - bin_s)),
                "mae": float(np.nanmean(np.abs(forecast[name] - truth)[tested])),
                "naive_mae": float(np.nanmean(np.abs(naive - truth)[tested])),
            }
            for name in names
        ]
    progress(total, total, "forecasts")
    return tuple(rows)


def _history(
    ran: pd.DataFrame, training_days: float, settings: DurationSettings
) -> tuple[History, NDArray[np.bool_]]:
    submit_s = epoch_seconds(ran, "submit_time")
    first_s = float(submit_s.min()) if len(ran) else 0.0
    asked = submit_s >= first_s + training_days * DAY_S
    ended = int((known_from_s(ran) <= first_s + training_days * DAY_S).sum())
    if ended < MIN_JOBS or asked.sum() < MIN_JOBS:
        raise BadInputError(
            f"{training_days:g} training days leave {ended:,} ended jobs to learn from and "
            f"{int(asked.sum()):,} to estimate; {MIN_JOBS} of each are the least.",
            remedy="Choose --train-days within the log.",
        )
    return History(ran, submit_s, training_days, settings), asked


def _estimates(
    done: Mapping[Lesson, Learned], submit_s: Floats, names: Sequence[str]
) -> dict[tuple[str, str], Estimates]:
    """P50 and P90 of each interval, with frozen and with live statistics."""

    def quantile(name: str, kind: str, which: str) -> Floats:
        def pick(learned: Learned) -> Floats | None:
            said = learned.frozen if kind == FROZEN else learned.live
            found: Floats | None = None if said is None else getattr(said, which)
            return found

        values = assemble(done, submit_s, name, pick)
        return np.empty(0) if values is None else values

    return {
        (name, kind): Estimates(quantile(name, kind, "p50"), quantile(name, kind, "p90"))
        for kind in (FROZEN, LIVE)
        for name in names
    }


def _errors(tested: pd.DataFrame, said: Estimates) -> dict[str, float]:
    truth = tested["duration_s"].to_numpy(dtype=np.float64)
    gpus = np.maximum(tested["gpus"].to_numpy(dtype=np.float64), 1.0)
    found = duration_metrics(truth, said.p50, gpus)
    return {
        "mae_log10": found["mae_log10"],
        "kendall_tau": found["kendall_tau"],
        "coverage_p90": float((truth <= said.p90).mean()),
    }


def _over_time(tested: pd.DataFrame, submit_s: Floats, estimates: Mapping[tuple[str, str], Estimates]) -> Any:
    period = ((submit_s - submit_s.min()) // (PERIOD_DAYS * DAY_S)).astype(np.int64)
    for number in np.unique(period):
        inside = period == number
        begun = pd.Timestamp(submit_s.min() + number * PERIOD_DAYS * DAY_S, unit="s", tz="UTC")
        for (name, kind), said in estimates.items():
            part = Estimates(said.p50[inside], said.p90[inside])
            yield {
                "week_of": f"{begun:%Y-%m-%d}",
                "interval": name,
                "statistics": kind,
                "jobs": int(inside.sum()),
                **_errors(tested[inside], part),
            }


def _with_queues(
    rows: list[dict[str, Any]],
    tested: pd.DataFrame,
    estimates: Mapping[tuple[str, str], Estimates],
    cluster: ClusterSpec,
    profiles: Mapping[str, JobProfile] | None,
    colocation: ColocationModel | None,
    *,
    workers: int,
    progress: Progress,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Add what the Lucid policy makes of each set of estimates, and of the truth."""
    workload = Workload.from_jobs(tested, profiles=profiles).that_fit(cluster)
    if not len(workload) or workload.rows is None:
        raise BadInputError(
            "The cluster has room for none of the log's jobs.", remedy="Check --nodes against the log."
        )
    chosen = np.asarray(workload.rows, dtype=np.intp)
    oracle = (ORACLE, "")
    beliefs = {key: said.p50[chosen] for key, said in estimates.items()}
    beliefs[oracle] = tested["duration_s"].to_numpy(dtype=np.float64)[chosen]
    shared = Simulated(workload, cluster, colocation, chosen, beliefs)
    found = over_processes(
        simulate_estimates, shared, list(beliefs), workers=workers, what="simulations", progress=progress
    )
    blocks = block_numbers(
        [job.submit_time_s for job in workload.jobs], [job.virtual_cluster for job in workload.jobs]
    )
    base_queue, base_jct = found[STATIC]
    told = []
    for row in [*rows, {"interval": ORACLE, "statistics": "", "fits": 0}]:
        queue, jct = found[row["interval"], row["statistics"]]
        change = paired_mean_change(queue, base_queue, blocks).relative_pct
        told.append(
            {
                **row,
                "mean_queuing_delay_s": float(queue.mean()),
                "mean_jct_s": float(jct.mean()),
                "queue_change_pct": None if change is None else change.point,
                "queue_change_low_pct": None if change is None else change.low,
                "queue_change_high_pct": None if change is None else change.high,
                "jct_change_pct": 100.0 * (float(jct.mean()) / float(base_jct.mean()) - 1.0),
            }
        )
    said = [
        f"Jobs of the log that are not replayed: {count:,} {rule.replace('_', ' ')}."
        for rule, count in sorted(workload.skipped.items())
        if count
    ]
    if colocation is None or profiles is None:
        said.append("No job shares GPUs in the replay: no measured profiles were given.")
    said.append(
        "Changes are against a static model (never, frozen), with 95 % intervals over blocks of a day and a "
        "virtual cluster."
    )
    return told, said


def simulate_estimates(shared: Simulated, key: tuple[str, str]) -> tuple[Floats, Floats]:
    """Replay the jobs with one set of estimates; queuing delay and JCT (s) of each job of the workload."""
    result = simulate(
        Scenario(
            shared.workload.with_estimates(shared.estimates[key]),
            shared.cluster,
            colocation=shared.colocation,
        ),
        LUCID,
    )
    jobs = result.jobs
    return jobs["queuing_delay_s"].to_numpy(np.float64), jobs["jct_s"].to_numpy(np.float64)


def _fits(todo: Sequence[Lesson], every_s: float) -> int:
    """How many of the fits an interval uses."""
    return sum(not (lesson.at_s - todo[0].at_s) % every_s for lesson in todo)
