"""The cluster of the benchmark: virtual clusters as partitions of a private Slurm, its users, its history.

Run by root, each user of the stream is a unix user of this machine (system accounts stand in for people). Run
by anybody else all jobs belong to that one account, and the stream's user goes in front of the job's name,
where the models find it.
"""

import os
import pwd
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.live.stream import GPUS_PER_NODE, StreamJob, VirtualCluster
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

# Every job's limit unless it has one of its own: five days of a real site, on the stream's scale of time.
LONGEST_RUN_MIN = 18
# More GPUs than a day of history can ask for at once: its jobs never wait, and are done in minutes.
HISTORY_GPUS_PER_NODE = 256
# Accounts with which nothing should be tried.
_NOT_STAND_INS = frozenset({"root", "nobody"})


def cluster(
    folder: Path,
    virtual_clusters: Sequence[VirtualCluster],
    *,
    gpus_per_node: int = GPUS_PER_NODE,
    settings: Mapping[str, str] | None = None,
) -> PrivateSlurm:
    """Return a Slurm with accounting and these virtual clusters, not yet started."""
    nodes: list[Node] = []
    partitions: list[Partition] = []
    for one in virtual_clusters:
        names = [f"{one.name}{number}" for number in range(1, one.nodes + 1)]
        nodes += [Node(name, gpus=gpus_per_node, cpus=max(64, gpus_per_node)) for name in names]
        partitions.append(Partition(one.name, names, LONGEST_RUN_MIN))
    return PrivateSlurm(
        folder, nodes=nodes, partitions=partitions, accounting=True, settings=dict(settings or {})
    )


@dataclass(frozen=True)
class Users:
    """Whose unix account each user of the stream has; without any, names carry the user."""

    accounts: Mapping[str, str] = field(default_factory=dict)

    def job_name(self, job: StreamJob) -> str:
        """Return the name under which Slurm gets the job."""
        return job.name if self.accounts else f"{job.user}.{job.name}"

    def options(self, job: StreamJob) -> list[str]:
        """Return sbatch's options that make the job its user's."""
        return [f"--uid={self.accounts[job.user]}"] if self.accounts else []

    @property
    def said(self) -> str:
        """Say for the report what was done."""
        if self.accounts:
            return f"{len(self.accounts)} unix accounts of this machine stand in for the stream's users"
        return "all jobs belong to one unix account; the stream's user is the first word of the job's name"


def stand_ins(users: Collection[str]) -> Users:
    """Give each user an account of this machine, if this process may and there are enough."""
    if os.geteuid() != 0:
        return Users()
    known = sorted({entry.pw_name for entry in pwd.getpwall()} - _NOT_STAND_INS)
    names = sorted(users)
    return Users(dict(zip(names, known, strict=False)) if len(known) >= len(names) else {})
