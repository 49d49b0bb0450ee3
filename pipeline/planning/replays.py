"""Replays of a plan over processes, each made once: what is stored is not replayed again."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any, ClassVar

import numpy as np

from foundation.jsonable import to_jsonable
from foundation.progress import Progress, Work, silent
from foundation.storage import read_bytes, write_bytes
from foundation.worker_processes import WorkerLostError, WorkerPool
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import planned_parts
from pipeline.planning.planned_run import PlannedRun, inputs_digest
from pipeline.studies.experiment import FORMAT_VERSION, OK, Experiment
from pipeline.studies.store import write_json
from pipeline.studies.wait_target import Floats
from simulator.replay import simulate

KEPT_FIGURES = (
    "jobs",
    "left_waiting",
    "would_have_started",
    "warm_up_jobs",
    "mean_jct_s",
    "makespan_s",
    "utilisation_pct",
    "preemptions",
)


@dataclass(frozen=True)
class Replayed:
    """What a replay came to: figures of its summary, and each job's wait (s), shape (jobs,)."""

    run: PlannedRun
    figures: Mapping[str, Any]
    waits_s: Floats


class StoredReplays(Experiment):
    """Replays of one log below a URI, as `pipeline/studies/experiment.py` has experiments.

    URI/replayed_log.json    what is replayed, by its digest
    URI/replays/ID.json      a replay's figures
    URI/waits/ID.npy         its jobs' waits
    """

    kind: ClassVar[str] = "plan"
    unit: ClassVar[str] = "replay"
    records: ClassVar[str] = "replays"
    items_argument: ClassVar[str] = "replays"
    how_to_begin: ClassVar[str] = "Plan first: `lucid plan`."
    plan_file: ClassVar[str] = "replayed_log.json"

    @classmethod
    def open(cls, inputs_sha256: str, folder_uri: str) -> "StoredReplays":
        """Open the replays of a log; those of several may lie below a folder, each by its digest."""
        document = {"inputs_sha256": inputs_sha256}
        uri, sha256 = cls.place(document, out_uri=None, folder_uri=folder_uri)
        cls.write_plan(uri, {**document, "sha256": sha256})
        return cls(uri)

    def find(self, identity: str, run: PlannedRun) -> Replayed | None:
        """Return what is stored of a replay."""
        record, waits = self.record(identity), read_bytes(self._waits_uri(identity))
        if record is None or waits is None:
            return None
        return Replayed(run, record["figures"], np.load(io.BytesIO(waits), allow_pickle=False))

    def keep(self, identity: str, replayed: Replayed, cpu_s: float) -> None:
        """Store a replay: its waits first, for a record says that all of it is there."""
        waits = io.BytesIO()
        np.save(waits, replayed.waits_s, allow_pickle=False)
        write_bytes(self._waits_uri(identity), waits.getvalue())
        record = {
            "format_version": FORMAT_VERSION,
            "status": OK,
            "run": replayed.run.to_dict(),
            "figures": replayed.figures,
            "cpu_s": cpu_s,
        }
        write_json(self.record_uri(identity), to_jsonable(record))

    def _waits_uri(self, identity: str) -> str:
        return f"{self.uri}/waits/{identity}.npy"


ReplayPool = WorkerPool[PlannedRun, tuple[dict[str, Any], Floats, float]]


class PlanReplays:
    """Replays of a planned log over the `workers` processes of a pool that runs `replay_planned`."""

    def __init__(
        self, log: PlannedLog, store: StoredReplays, pool: ReplayPool, workers: int, progress: Progress
    ) -> None:
        self.log = log
        self.store = store
        self.workers = workers
        self.executed = 0
        self.reused = 0
        self._inputs = inputs_digest(log)
        self._pool = pool
        self._progress = progress
        self._replayed: dict[str, Replayed] = {}

    def __iter__(self) -> Iterator[Replayed]:
        """Return all that was asked for so far, in the order in which it was."""
        return iter(self._replayed.values())

    def of(self, runs: Sequence[PlannedRun]) -> list[Replayed]:
        """Return these replays, in their order; those that are not stored are made side by side."""
        by_identity = {run.identity(self._inputs): run for run in runs}
        missing: dict[int, tuple[str, PlannedRun]] = {}
        for identity, run in by_identity.items():
            if identity in self._replayed:
                continue
            stored = self.store.find(identity, run)
            if stored is None:
                missing[id(run)] = (identity, run)
            else:
                self.reused += 1
                self._replayed[identity] = stored
        try:
            for run, (figures, waits_s, cpu_s) in self._pool.results([run for _, run in missing.values()]):
                identity, _ = missing[id(run)]
                self._replayed[identity] = Replayed(run, figures, waits_s)
                self.store.keep(identity, self._replayed[identity], cpu_s)
                self.executed += 1
                self._progress(self.executed, None, Work("replays", "replays"))
        except WorkerLostError as error:
            error.advise("Plan again: what is finished is kept.")
            raise
        return [self._replayed[run.identity(self._inputs)] for run in runs]


def replay_planned(
    log: PlannedLog, run: PlannedRun, progress: Progress = silent
) -> tuple[dict[str, Any], Floats, float]:
    """Replay a log on the nodes of a run; returns figures, each job's wait (s) and CPU seconds."""
    began = process_time()
    scenario = replace(log.scenario, cluster=log.cluster_of(run.nodes))
    parts = planned_parts()
    for part in parts:
        scenario = part.replayed(scenario, run.value_of(part), run.seed)
    result = simulate(scenario, run.policy, settings=run.all_settings, progress=progress)
    of_parts = (name for part in reversed(parts) for name in (*part.figures, *part.kept_figures))
    figures = {name: result.summary[name] for name in (*KEPT_FIGURES, *of_parts) if name in result.summary}
    waits_s = result.counted["queuing_delay_s"].to_numpy(dtype=np.float64)
    return to_jsonable(figures), waits_s, process_time() - began
