"""What the messages of the live scheduler are made of: their base classes, and the bounds of their values."""

import math
from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from live_scheduler.cluster_state import OTHER_FACTS

_LAST_TIME_S = 253_402_300_799.0  # the end of the year 9999

Name = Annotated[str, Field(min_length=1, max_length=4_096)]
Text = Annotated[str, Field(max_length=65_536)]
Time = Annotated[float, Field(gt=0, le=_LAST_TIME_S)]
Seconds = Annotated[float, Field(ge=0, le=_LAST_TIME_S)]
Gpus = Annotated[int, Field(ge=0, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class Message(BaseModel):
    """A message: its values never change. Of an answer, fields that a later version 1 added are left out."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    def with_changes(self, **values: Any) -> Self:
        """Return it with other values, as `dataclasses.replace` does; raises TypeError for other names."""
        if unknown := values.keys() - type(self).model_fields.keys():
            raise TypeError(f"{type(self).__name__} has no fields {sorted(unknown)}")
        return self.model_copy(update=values)


class Pushed(Message):
    """A message to the service: a field that it does not know is refused by name, since it may be a slip."""

    model_config = ConfigDict(extra="forbid")


MAX_JOBS = 200_000
MAX_NODES = 100_000


# -- what a scheduler pushes in


class NodeShare(Pushed):
    """GPUs of one node."""

    node: Name
    gpus: Gpus


class Job(Pushed):
    """A job that waits or runs (`start_time_s` is set).

    `partition` is where it queues or runs now, `virtual_cluster` where it belongs; they differ only while it
    is profiled (absent: the same). `held`: a person holds it. `waits_for` names what it waits for besides
    GPUs; empty: nothing. `gpus_on` says where a running job is. `facts` are others by their names:
    account, group, queue, qos.
    """

    job_id: Name
    virtual_cluster: Name
    gpus: Gpus
    submit_time_s: Time
    partition: Name | None = None
    user: Name | None = None
    name: Name | None = None
    cpus: Count | None = None
    nodes: Count | None = None
    time_limit_s: Seconds | None = None
    job_type: Name | None = None
    held: bool = False
    waits_for: Text = ""
    start_time_s: Time | None = None
    gpus_on: tuple[NodeShare, ...] = ()
    shares_gpus: bool = False
    profiled: bool = False
    facts: dict[str, Name] = Field(default_factory=dict)

    @field_validator("facts")
    @classmethod
    def _facts_of_the_table(cls, facts: dict[str, str]) -> dict[str, str]:
        for name, text in facts.items():
            if name not in OTHER_FACTS:
                raise ValueError(f"{name!r} is no such fact; there are: {', '.join(OTHER_FACTS)}")
            if OTHER_FACTS[name].is_number and not math.isfinite(float(text)):
                raise ValueError(f"{name} is {text!r}, not a number")
        return facts


class Node(Pushed):
    """A node; one that is not `available` runs its jobs on and starts none."""

    name: Name
    gpus: Gpus
    gpus_used: Gpus
    available: bool
    partitions: tuple[Name, ...]

    @field_validator("partitions")
    @classmethod
    def _each_partitiononce(cls, partitions: tuple[str, ...]) -> tuple[str, ...]:
        once("partition", list(partitions))
        return partitions


class ClusterState(Pushed):
    """A cluster at one moment: all jobs that wait or run, all nodes."""

    at_s: Time
    jobs: Annotated[tuple[Job, ...], Field(max_length=MAX_JOBS)] = ()
    nodes: Annotated[tuple[Node, ...], Field(max_length=MAX_NODES)] = ()
    closed_partitions: tuple[Name, ...] = ()

    @field_validator("jobs")
    @classmethod
    def _each_jobonce(cls, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        once("job", [job.job_id for job in jobs])
        return jobs

    @field_validator("nodes")
    @classmethod
    def _each_nodeonce(cls, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        once("node", [node.name for node in nodes])
        return nodes


class EndedJob(Pushed):
    """What became of a job, with its last run (absent times: it never ran)."""

    job: Job
    state: Literal["COMPLETED", "CANCELLED", "FAILED"]
    end_time_s: Time
    start_time_s: Time | None = None

    @model_validator(mode="after")
    def _ends_after_its_start(self) -> "EndedJob":
        if self.start_time_s is not None and self.start_time_s > self.end_time_s:
            raise ValueError(f"it ended at {self.end_time_s} before it started at {self.start_time_s}")
        return self


class EndedJobs(Pushed):
    """Jobs that ended since the last report."""

    jobs: Annotated[tuple[EndedJob, ...], Field(max_length=MAX_JOBS)] = ()


class EndsTaken(Message):
    """How many of the reported ends were new; the others had been reported before."""

    new: Count
    known: Count


# -- what people ask


class JobQuery(Pushed):
    """Asks about one job."""

    job_id: Name


class QueueQuery(Pushed):
    """Asks for the queues, or for one (`pool`)."""

    pool: Name | None = None


def once(kind: str, ids: list[str]) -> None:
    """Refuse ids of which one stands twice; raises ValueError."""
    twice = [name for name, times in Counter(ids).items() if times > 1]
    if twice:
        raise ValueError(f"{kind} {twice[0]!r} is given {ids.count(twice[0])} times; give each {kind} once")
