"""Further slices of the Philly log, made like the reference slice: one virtual cluster, noisy estimates.

Job types are drawn uniformly from the measured ones, and estimates are duration x exp(N(0, 1)), both seeded.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from cluster_logs.ingest import read_jobs_file
from experiments.artifact_rules.published_packing import read_labelled_profiles
from experiments.policies.agreement import load_slice
from pipeline.replay.log_scenario import SINGLES_FILE
from simulator.cluster.spec import ClusterSpec
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

VIRTUAL_CLUSTER = "philly"
REFERENCE_NODES = 48


@dataclass(frozen=True)
class SliceSpec:
    """Which jobs (submitted in `days` from `start`, a date) on how many nodes of 8 GPUs, and the seed."""

    start: str
    days: int
    nodes: int
    seed: int

    def __str__(self) -> str:
        return f"{self.start}, {self.days} days, {self.nodes} nodes"


class PhillySlices:
    """The log and the measurements below the folder that LUCID_REFERENCE_DATA names."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._packing = data / "data" / "packing"
        self._profiles = read_labelled_profiles(self._packing / SINGLES_FILE)
        self._log: pd.DataFrame | None = None

    def reference(self, nodes: int = REFERENCE_NODES) -> Scenario:
        """Return the reference slice week1vc48, on as many nodes."""
        jobs = self._data / "reference" / "lucid" / "week1vc48_jobs.csv.gz"
        return load_slice(jobs, nodes, self._packing)

    def cut(self, spec: SliceSpec) -> Scenario:
        """Cut a slice; jobs larger than the cluster are left out, and counted by the workload."""
        if self._log is None:
            path = self._data / "data" / "philly" / "philly_jobs.csv.gz"
            self._log = read_jobs_file(str(path), "philly-csv")[0]
        # The log's times are local and naive; where a week begins is arbitrary, so they are read as UTC here.
        start = datetime.fromisoformat(spec.start).replace(tzinfo=UTC)
        workload = Workload.from_jobs(self._log, window=(start, start + timedelta(days=spec.days)))
        random = np.random.default_rng(spec.seed)
        kinds = random.choice(sorted(self._profiles), len(workload)).tolist()
        noise = np.exp(random.standard_normal(len(workload))).tolist()
        jobs = tuple(
            replace(
                job,
                virtual_cluster=VIRTUAL_CLUSTER,
                order=i,
                profile=self._profiles[kind],
                template=kind,
                estimated_duration_s=max(1.0, round(job.duration_s * factor)),
            )
            for i, (job, kind, factor) in enumerate(zip(workload.jobs, kinds, noise, strict=True))
        )
        cluster = ClusterSpec({VIRTUAL_CLUSTER: spec.nodes})
        return Scenario(replace(workload, jobs=jobs).that_fit(cluster), cluster)
