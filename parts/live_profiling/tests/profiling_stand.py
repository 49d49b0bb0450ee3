"""A cluster with a profiling partition, and the part of a daemon that uses it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from live_scheduler.adapter import Change
from live_scheduler.cluster_state import ClusterState
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.slurm_memory import SlurmMemory
from parts.live_profiling.profiling_stage import Intents, ProfilingStage
from tests.slurm.conftest import skip_without_slurm
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

SETTINGS = LiveSettings("private", Mode.CONTROL, profiling_partition="prof")
LIMIT_S = 1.0
NODES = (Node("n1", gpus=32), Node("n2", gpus=1), Node("p1", gpus=32, memory_mib=64_000))
PARTITIONS = (
    Partition("vc1", ("n1",)),
    Partition("vc2", ("n2",)),
    Partition("prof", ("p1",), max_time_min=60),
    Partition("prof-over-n1", ("n1",)),
)
# On the profiling partition it would run for ever, elsewhere it ends; each run leaves a line.
SCRIPT = """#!/bin/sh
echo "$SLURM_JOB_PARTITION" >> {log}
case "$SLURM_JOB_PARTITION" in prof*) exec sleep 600 ;; esac
"""


@contextmanager
def profiling_slurm(*, credential_s: int) -> Iterator[PrivateSlurm]:
    """A cluster of its own; Slurm makes a requeued job wait for `credential_s` + 1 (120 by default)."""
    skip_without_slurm()
    folder = short_folder()
    settings = {"MessageTimeout": "2", "AuthInfo": f"cred_expire={credential_s}"}
    try:
        with PrivateSlurm(folder, nodes=NODES, partitions=PARTITIONS, settings=settings) as slurm:
            yield slurm
    finally:
        shutil.rmtree(folder)


@dataclass
class Stand:
    """A cluster, and a daemon's part of it that profiles whoever it is told to."""

    slurm: PrivateSlurm
    folder: Path
    stage: ProfilingStage
    adapter: SlurmAdapter
    enters: set[str]
    partition: str = "prof"
    only: frozenset[str] | None = None  # it sees these jobs only
    limit_s: float = LIMIT_S
    leaves: set[str] = field(default_factory=set)  # whom it sends home before their time is over
    logs: dict[str, Path] = field(default_factory=dict)

    def submit(self, *options: str, script: str = SCRIPT) -> str:
        log = self.folder / f"runs-{len(list(self.folder.glob('runs-*')))}"
        log.touch()
        text = script.format(log=log)
        words = ("--parsable", "--time=10", "--gres=gpu:1", "--cpus-per-task=1", "--output=/dev/null")
        job_id = self.slurm.run("sbatch", *words, *options, input_text=text).strip()
        self.enters.add(job_id)
        self.logs[job_id] = log
        return job_id

    def fill(self, gpus: int = 32) -> str:
        """Keep everybody from starting at home."""
        words = ("--parsable", "-p", "vc1", f"--gres=gpu:{gpus}", "-o", "/dev/null")
        job_id = self.slurm.run("sbatch", *words, input_text="#!/bin/sh\nsleep 600\n").strip()
        self.slurm.wait_for(lambda: self.state(job_id) == "RUNNING", "home is full")
        return job_id

    def runs(self, job_id: str) -> list[str]:
        """Return where it ran, run by run."""
        return self.logs[job_id].read_text().split()

    def state(self, job_id: str, what: str = "%T") -> str:
        return self.slurm.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", what).strip()

    def read(self) -> ClusterState:
        cluster = self.adapter.read()
        if self.only is not None:
            cluster = replace(cluster, jobs=tuple(job for job in cluster.jobs if job.job_id in self.only))
        return cluster

    def one_pass(self) -> list[Change]:
        cluster = self.read()
        changes = self.stage.changes(self._decision(cluster), cluster)
        self.adapter.apply(changes)
        return changes

    def _decision(self, cluster: ClusterState) -> Decision:
        """What a policy would say that starts all of `enters` on the profiler."""
        places = [
            QueuePlace(job.job_id, self.partition, at, True, None, (at,), limit_s=self.limit_s)
            for at, job in enumerate(cluster.jobs, start=1)
            if job.job_id in self.enters and job.eligible
        ]
        leaving = tuple(sorted(self.leaves))
        return Decision(cluster.at_s, "a release", 1, "lucid", tuple(places), leaving, {}, 0.0)

    def until(self, happened: Callable[[], object], what: str) -> None:
        """Make passes until something has happened."""

        def look() -> object:
            self.one_pass()
            return happened()

        self.slurm.wait_for(look, what)


def stand_of(slurm: PrivateSlurm, folder: Path, partition: str = "prof") -> Stand:
    settings = replace(SETTINGS, profiling_partition=partition)
    (folder / "state").mkdir(parents=True, exist_ok=True)
    memory = SlurmMemory.of(folder / "state", "c")
    return Stand(
        slurm,
        folder,
        ProfilingStage(settings, Intents(folder / "state")),
        SlurmAdapter(profiling_partition=partition, memory=memory),
        set(),
        partition,
    )
