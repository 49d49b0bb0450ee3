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
from pipeline.studies.study import FORMAT_VERSION, OK, Record, StoredStudy
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


@dataclass(frozen=True)
class StoredReplays(StoredStudy[PlannedRun]):
    """The study behind a plan: replays of one log below a URI.

    URI/replayed_log.json    what is replayed, by its digest
    URI/replays/ID.json      a replay's figures
    URI/waits/ID.npy         its jobs' waits
    """

    kind: ClassVar[str] = "plan"
    unit: ClassVar[str] = "replay"
    records: ClassVar[str] = "replays"
    how_to_begin: ClassVar[str] = "Plan first: `lucid plan`."
    plan_file: ClassVar[str] = "replayed_log.json"

    log: PlannedLog
    inputs_sha256: str

    @classmethod
    def open(cls, log: PlannedLog, folder_uri: str) -> "StoredReplays":
        """Open the replays of a log; those of several may lie below a folder, each by its digest."""
        document = {"inputs_sha256": inputs_digest(log)}
        uri, sha256 = cls.place(document, out_uri=None, folder_uri=folder_uri)
        cls.write_plan(uri, {**document, "sha256": sha256})
        return cls(uri, log, document["inputs_sha256"])

    @classmethod
    def read_fields(cls, uri: str, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse: a log is not stored with its replays, `open` takes it."""
        raise NotImplementedError

    def item(self, identity: str) -> None:
        """Return nothing: which size is replayed next is found out as the plan is made."""

    def label(self, item: PlannedRun) -> str:
        """Name a replay."""
        return f"{item.total_nodes} nodes, {item.variant}"

    def run(self, identity: str, item: PlannedRun, progress: Progress = silent) -> Record:
        """Replay the log on the nodes of a run; the record has its figures and each job's wait (s)."""
        began = process_time()
        scenario = replace(self.log.scenario, cluster=self.log.cluster_of(item.nodes))
        parts = planned_parts()
        for part in parts:
            scenario = part.replayed(scenario, item.value_of(part), item.seed)
        result = simulate(scenario, item.policy, settings=item.all_settings, progress=progress)
        of_parts = (name for part in reversed(parts) for name in (*part.figures, *part.kept_figures))
        names = [name for name in (*KEPT_FIGURES, *of_parts) if name in result.summary]
        return {
            "format_version": FORMAT_VERSION,
            "status": OK,
            "run": item.to_dict(),
            "figures": to_jsonable({name: result.summary[name] for name in names}),
            "waits_s": result.counted["queuing_delay_s"].to_numpy(dtype=np.float64),
            "cpu_s": process_time() - began,
        }

    def keep(self, identity: str, record: Record) -> None:
        """Store a replay: its waits first, for a record says that all of it is there."""
        stored, waits = dict(record), io.BytesIO()
        np.save(waits, stored.pop("waits_s"), allow_pickle=False)
        write_bytes(self._waits_uri(identity), waits.getvalue())
        super().keep(identity, to_jsonable(stored))

    def find(self, identity: str, run: PlannedRun) -> Replayed | None:
        """Return what is stored of a replay."""
        record, waits = self.record(identity), read_bytes(self._waits_uri(identity))
        if record is None or waits is None:
            return None
        return Replayed(run, record["figures"], np.load(io.BytesIO(waits), allow_pickle=False))

    def _waits_uri(self, identity: str) -> str:
        return f"{self.uri}/waits/{identity}.npy"


ReplayPool = WorkerPool[tuple[str, PlannedRun], Record]


class PlanReplays:
    """Replays of a planned log, asked for as the plan is made, over the `workers` processes of a pool."""

    def __init__(self, store: StoredReplays, pool: ReplayPool, workers: int, progress: Progress) -> None:
        self.log = store.log
        self.store = store
        self.workers = workers
        self.executed = 0
        self.reused = 0
        self._pool = pool
        self._progress = progress
        self._replayed: dict[str, Replayed] = {}

    def __iter__(self) -> Iterator[Replayed]:
        """Return all that was asked for so far, in the order in which it was."""
        return iter(self._replayed.values())

    def of(self, runs: Sequence[PlannedRun]) -> list[Replayed]:
        """Return these replays, in their order; those that are not stored are made side by side."""
        identities = [run.identity(self.store.inputs_sha256) for run in runs]
        missing: dict[str, PlannedRun] = {}
        for identity, run in zip(identities, runs, strict=True):
            if identity in self._replayed:
                continue
            stored = self.store.find(identity, run)
            if stored is None:
                missing[identity] = run
            else:
                self.reused += 1
                self._replayed[identity] = stored
        try:
            for (identity, run), record in self._pool.results(missing.items()):
                self._replayed[identity] = Replayed(run, record["figures"], record["waits_s"])
                self.executed += 1
                self._progress(self.executed, None, Work("replays", "replays"))
        except WorkerLostError as error:
            error.advise("Plan again: what is finished is kept.")
            raise
        return [self._replayed[identity] for identity in identities]
