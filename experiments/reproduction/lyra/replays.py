"""Replays of windows under schemes: each done once, kept in a folder, over processes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import pandas as pd

import simulator
from cluster_logs.ingest import read_jobs_file
from experiments import lyra_rivals
from experiments.lyra_rivals.goodput import drawn_goodputs
from experiments.reproduction.lyra.loan_watch import LoanWatch
from experiments.reproduction.lyra.outcomes import LyraOutcome, outcome_of
from experiments.reproduction.lyra.schemes import JobVariant, Scheme
from experiments.reproduction.lyra.windows import (
    FOLDER,
    GPUS_PER_SERVER,
    PHILLY_FILE,
    LyraWindow,
    window_jobs,
    window_load,
)
from foundation.csv_files import write_csv
from foundation.process_lock import scratch_folder
from foundation.progress import Progress, silent
from foundation.worker_processes import over_processes
from parts import lending
from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.jobs_in_workers import in_workers
from pipeline.replay.log_scenario import SECOND_0
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

RULES = "lyra"


@dataclass(frozen=True)
class LyraRun:
    """One replay: a window under a scheme."""

    window: LyraWindow
    scheme: Scheme


Outcomes = Mapping[LyraRun, LyraOutcome]


def replay_all(
    data: Path, runs: Sequence[LyraRun], folder: Path, *, workers: int = 1, progress: Progress = silent
) -> dict[LyraRun, LyraOutcome]:
    """Return the outcome of each run; what `folder` holds of the same data and simulator is not done again.

    A run that is interrupted leaves its finished replays there, so that the next one goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {run: folder / f"{_digest(data, run)}.npz" for run in dict.fromkeys(runs)}
    missing = [run for run, path in paths.items() if not path.is_file()]
    # The longest first, so that no process is left with one at the end.
    missing.sort(key=lambda run: -_weight(run))
    over_processes(_replay_into, (data, paths), missing, workers=workers, what="replays", progress=progress)
    return {run: LyraOutcome.load(path) for run, path in paths.items()}


def _replay_into(shared: tuple[Path, Mapping[LyraRun, Path]], run: LyraRun) -> None:
    data, paths = shared
    replay(data, run).save(paths[run])


def replay(data: Path, run: LyraRun) -> LyraOutcome:
    """Replay a window under a scheme."""
    scenario = scenario_of(data, run.window, run.scheme.jobs)
    service = scenario.companion(InferenceService)
    assert service is not None  # noqa: S101
    watch = LoanWatch()
    result = simulate(scenario, run.scheme.policy, settings=dict(run.scheme.settings), recorder=watch)
    return outcome_of(result, watch, run.window, service)


def scenario_of(data: Path, window: LyraWindow, variant: JobVariant) -> Scenario:
    """Return a window's jobs beside its inference load, as a variant has them."""
    table, workload = _workload(data, window)
    workload = in_workers(workload, table, variant.mix)
    if variant.tuned:
        tuned = tuple(_tuned(job, window.seed or 0) for job in workload.jobs)
        workload = replace(workload, jobs=tuned)
    load = window_load(data, window)
    return Scenario(
        workload,
        ClusterSpec({workload.jobs[0].virtual_cluster: window.training_servers}, GPUS_PER_SERVER),
        rules=load_rules(RULES),
        companions=(
            InferenceService(
                window.inference_servers,
                load["time_s"].tolist(),
                load["usage"].tolist(),
                mixed_speed=1.0 if variant.mix.scenario == "ideal" else 0.7,
                repeats=True,
            ),
        ),
    )


@lru_cache(maxsize=2)
def _workload(data: Path, window: LyraWindow) -> tuple[pd.DataFrame, Workload]:
    """Read the window's jobs as any log of jobs in workers is read; second 0 is the window's beginning."""
    with scratch_folder("lyra") as scratch:
        path = scratch / "jobs.csv"
        write_csv(window_jobs(data, window), path)
        table, _ = read_jobs_file(str(path), "lyra-csv")
    return table, Workload.from_jobs(table, origin=SECOND_0)


def _tuned(job: Job, seed: int) -> Job:
    """Give an elastic job measured speed-ups; what it does on its fewest workers stays."""
    workers = job.workers
    if workers is None or not workers.elastic:
        return job
    curve = drawn_goodputs(job.job_id, workers.gpus_each, workers.least, workers.most, seed=seed)
    measured = replace(workers, speed_ups=curve)
    return replace(
        job.lasting(job.duration_s * workers.rate(workers.most) / measured.rate(workers.most)),
        workers=measured,
        estimated_duration_s=None,
    )


def _digest(data: Path, run: LyraRun) -> str:
    """Name a run by all that decides its outcome: its inputs, and the code that replays it."""
    asked = json.dumps([asdict(run), _inputs(data), _code()], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:24]


@cache
def _inputs(data: Path) -> str:
    return _hashed([*sorted((data / FOLDER).glob("*.csv.gz")), data / PHILLY_FILE])


@cache
def _code() -> str:
    """Tell one simulator from another: by its source, that of its policies, and what prepares runs here."""
    packages = [Path(each.__path__[0]) for each in (simulator, lending, lyra_rivals)]
    source = [
        path
        for package in packages
        for path in (*sorted(package.rglob("*.py")), *sorted(package.rglob("*.csv")))
        if "tests" not in path.relative_to(package).parts
    ]
    here = [
        Path(__file__).with_name(f"{name}.py") for name in ("loan_watch", "outcomes", "replays", "windows")
    ]
    return _hashed([*source, *here])


def _hashed(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def _weight(run: LyraRun) -> float:
    """How long a run takes, roughly: many scaling operations and genetic searches cost most."""
    mix = run.scheme.jobs.mix
    share = mix.elastic_share or (1.0 if mix.scenario == "ideal" else 0.1)
    return run.window.days * (share + 5 * (run.scheme.policy == "pollux"))
