"""A live cluster at one moment, as an adapter reads it: jobs that wait and run, nodes and their power.

Times are Unix seconds by the cluster's own clock. Nothing here knows Slurm or Kubernetes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from cluster_logs.job_facts import JOB_FACTS, JobFact, Kind, KnownFrom


class Kept(StrEnum):
    """What of a job is not this product's to change."""

    ORDER = "order"  # its place: its priority, its nice value, its partition
    START = "start"  # when and where it may start
    TEXT = "text"  # what stands beside it


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job that waits or runs.

    `partition` is where it queues or runs now, `virtual_cluster` where it belongs: they differ only while it
    is profiled. `held`: a person (or a policy of the site) holds it, so it is left alone. `waits_for`
    names what it waits for besides resources (a dependency, a begin time, a reservation, a limit); empty:
    nothing. `tasks` is how many jobs a record stands for (the tasks of an array that have not started).
    `mark` is what this product wrote on it for itself, `advice` what it shows its user there, `comment` is
    the user's own. `requeueable`: a run may be stopped and the job queue again; not so if its user forbids
    it, if others wait for its start, or if it is an array's. `begin_time_s`: it starts no sooner.
    `pinned_to`: the nodes that it must have. `other_facts`: what else the table of facts knows of a job at
    its submission (OTHER_FACTS), as far as the cluster tells it. `nice` is what is taken off its priority.
    `comment_by_others`: its comment was written anew after this product had written into it. `reserved_in`:
    the one that it asks for. `kept` says what of it another hand has set after this product,
    and how; `hands_off` why all of it is left alone ("": it is not).
    """

    job_id: str
    partition: str
    virtual_cluster: str
    gpus: int
    submit_time_s: float
    user: str | None = None
    name: str | None = None
    cpus: int | None = None
    nodes: int | None = None
    time_limit_s: float | None = None
    job_type: str | None = None
    priority: int | None = None
    held: bool = False
    waits_for: str = ""
    reason: str = ""
    comment: str = ""
    mark: str = ""
    advice: str = ""
    requeueable: bool = True
    begin_time_s: float | None = None
    pinned_to: str = ""
    restarts: int = 0
    tasks: int = 1
    start_time_s: float | None = None
    gpus_on: tuple[tuple[str, int], ...] = ()  # (node, GPUs there), while it runs
    shares_gpus: bool = False  # it asked for a share of each GPU (Slurm: gres/shard)
    other_facts: Mapping[str, str | float] = field(default_factory=dict, hash=False)
    nice: int = 0
    comment_by_others: bool = False
    reserved_in: str = ""
    kept: Mapping[Kept, str] = field(default_factory=dict, hash=False)
    hands_off: str = ""

    @property
    def waiting(self) -> bool:
        """Whether it has not started (again) yet."""
        return self.start_time_s is None

    @property
    def eligible(self) -> bool:
        """Whether it would start now if it had GPUs."""
        return self.waiting and not self.held and not self.waits_for

    @property
    def ready_time_s(self) -> float:
        """From when on it might start, or might have: its begin time, where that is not this product's own
        (of a job with a mark, or of shares of GPUs).
        """
        ours = self.shares_gpus or bool(self.mark)
        begin_s = None if ours else self.begin_time_s
        return self.submit_time_s if begin_s is None else max(self.submit_time_s, begin_s)

    @property
    def submission(self) -> tuple[float, int, str]:
        """What sorts jobs by submission, then by number."""
        return (self.submit_time_s, len(self.job_id), self.job_id)

    def facts(self) -> dict[str, object]:
        """Return the job as the models read it."""
        own = {name: getattr(self, name) for name in _OWN_FACTS}
        return {**own, "submit_time_s": self.submit_time_s, **self.other_facts}


_SUBMITTED = {fact.name: fact for fact in JOB_FACTS if fact.known is KnownFrom.SUBMITTED}
# Facts that are fields of a job, and those that stand in its `other_facts`.
_OWN_FACTS = tuple(name for name in _SUBMITTED if name in LiveJob.__dataclass_fields__)
OTHER_FACTS: Mapping[str, JobFact] = {
    name: fact for name, fact in _SUBMITTED.items() if name not in _OWN_FACTS and fact.kind is not Kind.TIME
}


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node; one that is not `available` (down, drained, reserved) runs its jobs on and starts none."""

    name: str
    gpus: int
    gpus_used: int
    available: bool
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class ClusterState:
    """Everything that a decision needs of the cluster, read at `at_s`."""

    at_s: float
    jobs: tuple[LiveJob, ...]
    nodes: tuple[LiveNode, ...]
    closed_partitions: frozenset[str] = field(default_factory=frozenset)  # they start nothing at present
    longest_run_s: Mapping[str, float] = field(default_factory=dict)  # partitions that limit run times
    # Partitions whose waiting jobs may take only so many GPUs now, whatever is free on the nodes (a quota).
    gpus_left: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> Mapping[str, LiveJob]:
        """The jobs by their ids."""
        return {job.job_id: job for job in self.jobs}

    @cached_property
    def partitions(self) -> frozenset[str]:
        """The partitions that have nodes."""
        return frozenset(name for node in self.nodes for name in node.partitions)


@dataclass(frozen=True, slots=True)
class EndedJob:
    """What became of a job: its facts as accounting has them, and its last run (None: it never ran).

    `state` is a JobState's name (COMPLETED, CANCELLED, FAILED).
    """

    job: LiveJob
    state: str
    start_time_s: float | None
    end_time_s: float
    duration_s: float | None

    @classmethod
    def of_run(cls, job: LiveJob, state: str, start_time_s: float | None, end_time_s: float) -> "EndedJob":
        """Return the end of a job whose last run began at `start_time_s`, with its duration."""
        ran_s = None if start_time_s is None else max(0.0, end_time_s - start_time_s)
        return cls(job, state, start_time_s, end_time_s, ran_s)


class PowerState(StrEnum):
    """Where a node stands between awake and asleep."""

    AWAKE = "awake"
    ASLEEP = "asleep"
    BOOTING = "booting"
    FALLING_ASLEEP = "falling asleep"  # it starts no job, and cannot be woken before it sleeps
    BOOT_FAILED = "boot failed"  # it did not come back in time: the cluster counts it as down
    AWAY = "away"  # down, drained or not responding, for a reason that is not its power


@dataclass(frozen=True, slots=True)
class PoweredNode:
    """A node at one moment.

    `counts`: it is neither down nor drained, so it can run jobs, or could if it were awake. `busy`: jobs
    are allocated to it, also while it boots for them. `may_sleep`: it is awake and idle, and neither
    reserved, nor kept for a job, nor excluded by its site.
    """

    name: str
    power: PowerState
    partitions: tuple[str, ...]
    gpus: int = 0
    counts: bool = True
    busy: bool = False
    may_sleep: bool = False


NaturalKey = tuple[tuple[int, int, str], ...]


def natural_key(name: str) -> NaturalKey:
    """Return what sorts a name so: its numbers by their size, the text between them by the alphabet."""
    words = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((0, int(word), "") if word.isdecimal() else (1, 0, word) for word in words)
