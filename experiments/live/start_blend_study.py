"""Whether a weighted mean of both ways to say when a job starts beats the one that was off by less lately.

    python -m experiments.live.start_blend_study DATA [--write parts/waits/README.md]

Four weeks of two logs are simulated under a policy, which a play knows or takes for another. The wait model
learns from the queue of the first eighteen days, and from then on each job is asked about at the first
reading, one every two hours, that shows it waiting: by the wait model and by playing forward. What either
said is known of jobs that had started by a reading (at least 30, the last 500), as it is to the daemon
(`start_errors.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.synthetic.generator import synthesize
from experiments.live.forecast_study import SHARE_OF_NODES, ForecastWindow, reading
from experiments.pages import run_study
from foundation.markdown import markdown_frame
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.forecast.completion_forecast import forecast
from live_scheduler.forecast.forecast_inputs import ForecastInputs, RunTime
from live_scheduler.live_settings import LiveSettings, Mode
from lucid_models.duration.model import WorkloadEstimateModel
from lucid_models.training_data import as_known_at
from parts.waits.model.job_queue import MOMENT_EVERY_S, moments_before, queue_log_of_jobs
from parts.waits.model.model import WaitModel
from parts.waits.model.queue_moment import queue_at
from parts.waits.model.wait_table import WaitTable
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

Floats = NDArray[np.float64]

DAYS, LEARNED_DAYS = 28, 18
EVERY_S = 2 * 3_600.0
LEAST_JOBS, RECENT_JOBS = 30, 500
SHARES = np.linspace(0.0, 1.0, 9)  # of the wait model in a mean of both
PLAYED = "lucid"
ORDERS = (PLAYED, "fair_share")  # of the queue


@dataclass(frozen=True)
class ForecastStart:
    """Logarithms (base 10) of a second more than a wait from `at_s` on: said by each, and as it came."""

    at_s: float
    start_s: float
    played: float
    learned: float
    came: float


def windows(data: Path) -> Iterator[tuple[str, ForecastWindow, pd.DataFrame]]:
    """Yield each log's name, its four weeks to replay, and their jobs."""
    philly = read_jobs_file(str(data / "data" / "philly" / "philly_jobs.csv.gz"), "philly-csv")[0]
    nodes = read_nodes_file(str(data / "data" / "philly" / "philly_vc_nodes.csv"))
    sizes = dict(zip(nodes["virtual_cluster"].astype(str), nodes["nodes"].tolist(), strict=True))
    halved = {name: max(1, round(SHARE_OF_NODES * count)) for name, count in sizes.items()}
    yield "Philly", *_window(philly, datetime(2017, 10, 9, tzinfo=UTC), ClusterSpec(halved))
    made = synthesize("helios-venus", 42, 5)
    sizes = dict(zip(made.nodes["virtual_cluster"].astype(str), made.nodes["nodes"].tolist(), strict=True))
    first = made.jobs["submit_time"].min().to_pydatetime() + timedelta(days=14)
    yield "synthetic Venus", *_window(made.jobs, first, ClusterSpec(sizes))


def _window(
    frame: pd.DataFrame, start: datetime, cluster: ClusterSpec
) -> tuple[ForecastWindow, pd.DataFrame]:
    submit = frame["submit_time"]
    before = frame[submit < start]
    inside = frame[(submit >= start) & (submit < start + timedelta(days=DAYS))]
    model = WorkloadEstimateModel().fit(before, known_until=start)
    estimates = model.estimate_causal(inside, earlier=before)
    believed_s = estimates[["p50_s", "p90_s"]].to_numpy(dtype=np.float64)
    workload = Workload.from_jobs(inside, estimated_duration_s=believed_s[:, 0]).that_fit(cluster)
    rows = {str(job_id): row for row, job_id in enumerate(inside["job_id"])}
    beliefs = {job.job_id: RunTime(*believed_s[rows[job.job_id]].tolist()) for job in workload.jobs}
    return ForecastWindow(workload, beliefs, cluster), inside.assign(job_id=inside["job_id"].astype(str))


def asked_jobs(window: ForecastWindow, jobs: pd.DataFrame, order: str) -> list[ForecastStart]:
    """Simulate the window, train the wait model on its first days, and ask both about the jobs that wait."""
    settings, ordered = (
        LiveSettings("replayed", mode=Mode.CONTROL, policy=policy) for policy in (PLAYED, order)
    )
    whole, cut = (
        Simulation(Scenario(window.workload, window.cluster), live_policy(ordered)) for _ in range(2)
    )
    whole.run()
    table = _as_simulated(window, jobs, whole)
    origin = _origin(window)
    learned_until = origin + timedelta(days=LEARNED_DAYS)
    moments = int((LEARNED_DAYS - 4) * 86_400 / MOMENT_EVERY_S)
    past = queue_log_of_jobs(
        as_known_at(table, learned_until.to_pydatetime()), moments_before(learned_until, moments)
    )
    model = WaitModel().fit(WaitTable.of(past), past.partition_name)
    asked: list[ForecastStart] = []
    seen: set[str] = set()
    starts_s = dict(zip(table["job_id"], table["start_s"], strict=True))
    readings = np.arange(LEARNED_DAYS * 86_400.0, window.workload.jobs[-1].submit_time_s, EVERY_S)
    for moment_s in readings.tolist():
        cut.run(moment_s)
        state = cut.state()
        new = [view for view in state.waiting if view.job.job_id not in seen]
        seen.update(view.job.job_id for view in state.waiting)
        if not new:
            continue
        played = forecast(
            ForecastInputs(reading(window, state, moment_s), window.beliefs, settings, "replayed")
        )
        learned_s = _learned_waits(model, table, origin + timedelta(seconds=moment_s))
        for view in new:
            job_id = view.job.job_id
            start_p50_s = played.of(job_id).start_p50_s
            if start_p50_s is None or job_id not in learned_s or not starts_s[job_id] > moment_s:
                continue
            waits_s = (start_p50_s - moment_s, learned_s[job_id], starts_s[job_id] - moment_s)
            asked.append(ForecastStart(moment_s, starts_s[job_id], *np.log10(np.maximum(waits_s, 0.0) + 1.0)))
    return asked


def _origin(window: ForecastWindow) -> pd.Timestamp:
    """When the window's second 0 was."""
    origin = window.workload.origin
    assert origin is not None  # noqa: S101
    return origin


def _learned_waits(model: WaitModel, table: pd.DataFrame, moment: pd.Timestamp) -> dict[str, float]:
    """The median wait still to come (s) of each job that waits at a moment, by what was known then."""
    log = queue_log_of_jobs(as_known_at(table, moment.to_pydatetime()), np.array([moment.timestamp()]))
    queue = queue_at(log, moment.timestamp())
    partitions = [log.partition_name(int(code)) for code in queue.waiting["partition"]]
    said_s = model.predict(queue, partitions)[:, 0]
    return dict(zip(log.jobs["job_id"][queue.waiting["job"]].tolist(), said_s.tolist(), strict=True))


def _as_simulated(window: ForecastWindow, jobs: pd.DataFrame, whole: Simulation) -> pd.DataFrame:
    """The job table with the starts and ends of the simulation; `start_s`: from the window's start."""
    origin = _origin(window)
    times = {view.job.job_id: (view.first_start_time_s, view.end_time_s) for view in whole.jobs}
    table = jobs[jobs["job_id"].isin(times)].copy()
    start_s, end_s = (table["job_id"].map({name: each[i] for name, each in times.items()}) for i in (0, 1))
    table["start_time"], table["end_time"] = (
        origin + pd.to_timedelta(each, unit="s") for each in (start_s, end_s)
    )
    return table.assign(duration_s=end_s - start_s, queuing_delay_s=np.nan, start_s=start_s)


def errors(asked: list[ForecastStart]) -> Mapping[str, float]:
    """Mean squared errors (log10) of each way to answer, of jobs for which enough had started by then."""
    at_s, start_s, played, learned, came = np.array(
        [(job.at_s, job.start_s, job.played, job.learned, job.came) for job in asked]
    ).T
    said: dict[str, list[float]] = {name: [] for name in WAYS}
    truth: list[float] = []
    for moment_s in np.unique(at_s).tolist():
        past = np.flatnonzero(start_s <= moment_s)
        past = past[np.argsort(start_s[past], kind="stable")][-RECENT_JOBS:]
        if past.size < LEAST_JOBS:
            continue
        now = at_s == moment_s
        means = [np.abs(each[past] - came[past]).mean() for each in (played, learned)]
        leader = learned if means[1] < means[0] else played
        tried = [np.square(share * learned + (1 - share) * played - came)[past].mean() for share in SHARES]
        share = SHARES[int(np.argmin(tried))]
        basis = np.stack([np.ones(past.size), played[past], learned[past]], axis=1)
        fitted, *_ = np.linalg.lstsq(basis, came[past], rcond=None)
        truth.extend(came[now])
        for way, values in zip(
            WAYS,
            (
                played,
                learned,
                leader,
                (played + learned) / 2,
                share * learned + (1 - share) * played,
                fitted[0] + fitted[1] * played + fitted[2] * learned,
            ),
            strict=True,
        ):
            said[way].extend(values[now])
    return {way: float(np.square(np.array(values) - truth).mean()) for way, values in said.items()} | {
        "jobs": len(truth)
    }


WAYS = (
    "played forward",
    "wait model",
    "the one off by less lately",
    "mean of both",
    "weighted by jobs that started lately",
    "regression on both",
)


def tables(data: Path) -> Mapping[str, str]:
    """Return the page's table by its marker."""
    rows = [
        {"log": name, "order of the queue": order, **errors(asked_jobs(window, jobs, order))}
        for name, window, jobs in windows(data)
        for order in ORDERS
    ]
    return {"source of the predicted start": markdown_frame(pd.DataFrame(rows).round(3))}


if __name__ == "__main__":
    run_study("experiments.live.start_blend_study", __doc__, tables)
