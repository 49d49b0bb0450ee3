"""How good forecasts of starts and ends are: a public log replayed, and forecasts at many moments of it.

    python -m experiments.live.forecast_study [DATA] [--write docs/completion_forecasts.md]

The duration model learns the weeks before; each job of the window is believed to run as long as the model
said at its submission (P50 and P90, calibrated by what was known then), and ordered by its estimate. The
window is simulated under the live policy with the true run times. Every six hours the cluster is read as an
adapter would read it, and played forward (`completion_forecast.py`). What the forecast said is then compared
with what came, twice: as the window went on, with the jobs that were not known yet, and as it would
have gone on without further submissions, which is what a forecast assumes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.nodes_file import read_nodes_file
from experiments.pages import run_study
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.forecast.completion_forecast import forecast
from live_scheduler.forecast.forecast_inputs import ALIKE, ForecastInputs, RunTime
from live_scheduler.live_settings import LiveSettings, Mode
from lucid_models.duration.model import WorkloadEstimateModel
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView
from simulator.scenario.initial_state import InitialState
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

Floats = NDArray[np.float64]

STARTS, DAYS = (datetime(2017, 10, 16, tzinfo=UTC), datetime(2017, 11, 6, tzinfo=UTC)), 14
EVERY_S = 6 * 3_600.0
# The log's cluster is rarely full: on this share of its nodes its jobs queue.
SHARE_OF_NODES = 0.5
POLICY = "lucid"
_NO_JOBS = Workload((), {})


@dataclass(frozen=True)
class ForecastWindow:
    """A log to replay: jobs with what was believed of each at its submission, on nodes."""

    workload: Workload
    beliefs: Mapping[str, RunTime]
    cluster: ClusterSpec


@dataclass(frozen=True)
class Answer:
    """What a forecast said of a job, and what came (s from the forecast): start and end, each."""

    runs: bool
    ahead: int  # jobs that waited
    p50_s: tuple[float, float]
    p90_s: tuple[float, float]
    came_s: tuple[float, float]  # as the window went on
    alone_s: tuple[float, float]  # without later submissions


def philly_window(data: Path, start: datetime) -> ForecastWindow:
    """Two weeks of Philly, with a model that learned those before."""
    frame = read_jobs_file(str(data / "data" / "philly" / "philly_jobs.csv.gz"), "philly-csv")[0]
    before = frame[frame["submit_time"] < start]
    inside = frame[(frame["submit_time"] >= start) & (frame["submit_time"] < start + timedelta(days=DAYS))]
    model = WorkloadEstimateModel().fit(before, known_until=start)
    features = model.features_causal(inside, earlier=before)
    calibrated = model.quantiles_causal(inside, features, earlier=before)
    p50_s, p90_s = (calibrated[name].to_numpy(dtype=np.float64) for name in ("p50_s", "p90_s"))
    workload = Workload.from_jobs(inside, estimated_duration_s=p50_s)
    nodes = read_nodes_file(str(data / "data" / "philly" / "philly_vc_nodes.csv"))
    sizes = {
        str(name): max(1, round(SHARE_OF_NODES * count))
        for name, count in zip(nodes["virtual_cluster"], nodes["nodes"].tolist(), strict=True)
    }
    cluster = ClusterSpec(sizes)
    workload = workload.that_fit(cluster)
    rows = {str(job_id): at for at, job_id in enumerate(inside["job_id"])}
    beliefs = {}
    for job in workload.jobs:
        at = rows[job.job_id]
        beliefs[job.job_id] = RunTime(float(p50_s[at]), float(p90_s[at]))
    return ForecastWindow(workload, beliefs, cluster)


def answers(
    window: ForecastWindow, settings: LiveSettings, alike: tuple[float, ...] = ALIKE
) -> Iterator[Answer]:
    """Forecast every EVERY_S; yield each job's answer."""

    def begun(initial: InitialState | None = None) -> Simulation:
        policy = live_policy(settings)
        workload = window.workload if initial is None else _NO_JOBS
        return Simulation(Scenario(workload, window.cluster, initial=initial), policy)

    whole, cut = begun(), begun()
    whole.run()
    came = {view.job.job_id: _times(view) for view in whole.jobs}
    last_s = window.workload.jobs[-1].submit_time_s
    for moment_s in np.arange(EVERY_S, last_s, EVERY_S).tolist():
        cut.run(moment_s)
        state = cut.state()
        views = (*state.running, *state.waiting)
        if not state.waiting:
            continue
        found = forecast(
            ForecastInputs(reading(window, state, moment_s), window.beliefs, settings, "philly", alike=alike)
        )
        alone = begun(state)
        alone.run()
        by_itself = {view.job.job_id: _times(view) for view in alone.jobs}
        for view in views:
            name = view.job.job_id
            said = found.of(name)
            if said.end_p50_s is None or said.end_p90_s is None:
                continue
            start_p50_s, start_p90_s = said.start_p50_s or 0.0, said.start_p90_s or 0.0
            yield Answer(
                said.runs,
                len(state.waiting),
                (start_p50_s - moment_s, said.end_p50_s - moment_s),
                (start_p90_s - moment_s, said.end_p90_s - moment_s),
                _less(came[name], moment_s),
                _less(by_itself[name], moment_s),
            )


def reading(window: ForecastWindow, state: InitialState, at_s: float) -> ClusterState:
    """Return the cluster as an adapter would read it."""
    nodes = [
        LiveNode(f"{name}-{at}", window.cluster.gpus_per_node, 0, True, (name,))
        for name, count in window.cluster.virtual_clusters.items()
        for at in range(count)
    ]
    used = {node.name: 0 for node in nodes}
    jobs = []
    for view in (*state.running, *state.waiting):
        on = tuple((f"{view.pool}-{node}", gpus) for node, gpus in view.placement or ())
        for node, gpus in on:
            used[node] += gpus
        jobs.append(
            LiveJob(
                view.job.job_id,
                view.pool,
                view.job.virtual_cluster,
                view.gpus,
                view.submit_time_s,
                user=view.job.user,
                start_time_s=view.start_time_s if view.placement else None,
                gpus_on=on,
            )
        )
    read = tuple(LiveNode(node.name, node.gpus, used[node.name], True, node.partitions) for node in nodes)
    return ClusterState(at_s, tuple(jobs), read)


def _times(view: JobView) -> tuple[float, float]:
    return (view.first_start_time_s or 0.0, view.end_time_s or 0.0)


def _less(times_s: tuple[float, float], moment_s: float) -> tuple[float, float]:
    return (times_s[0] - moment_s, times_s[1] - moment_s)


def rows(found: Sequence[Answer], label: str) -> list[str]:
    """Return the shares within P50 and P90 as rows of Markdown."""
    waiting = [answer for answer in found if not answer.runs]
    running = [answer for answer in found if answer.runs]
    lines = []
    for what, told, which in (
        ("start of a waiting job", waiting, 0),
        ("end of a waiting job", waiting, 1),
        ("end of a running job", running, 1),
    ):
        p50 = np.array([answer.p50_s[which] for answer in told])
        p90 = np.array([answer.p90_s[which] for answer in told])
        came = np.array([answer.came_s[which] for answer in told])
        alone = np.array([answer.alone_s[which] for answer in told])
        lines.append(
            f"| {label} | {what} | {len(told):,} | {_hours(np.median(came))} "
            f"| {_share(alone, p50)} | {_share(alone, p90)} | {_hours(np.median(alone - p50))} "
            f"| {_share(came, p50)} | {_share(came, p90)} | {_hours(np.median(came - p50))} |"
        )
    return lines


def _share(came_s: Floats, said_s: Floats) -> str:
    return f"{100 * np.mean(came_s <= said_s + 1.0):.0f} %"


def _hours(seconds: float | np.floating[Any]) -> str:
    return f"{float(seconds) / 3_600:.2f} h"


HEAD = (
    "| from | forecast of | forecasts | median time to it "
    "| no later jobs: within P50 | within P90 | median beyond P50 "
    "| others come: within P50 | within P90 | median beyond P50 |"
)


def tables(data: Path) -> Mapping[str, str]:
    """Return the page's tables by their markers."""
    settings = LiveSettings("philly", mode=Mode.CONTROL, policy=POLICY)
    found: dict[str, list[str]] = {}
    for start in STARTS:
        window = philly_window(data, start)
        for name, alike in (("forecasts", ALIKE), ("forecasts drawn apart", (0.0, 0.0))):
            found.setdefault(name, []).extend(
                rows(list(answers(window, settings, alike)), f"{start:%Y-%m-%d}")
            )
    line = "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    return {name: "\n".join([HEAD, line, *lines]) for name, lines in found.items()}


if __name__ == "__main__":
    run_study("experiments.live.forecast_study", __doc__, tables)
