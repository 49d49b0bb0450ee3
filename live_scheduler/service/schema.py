"""The messages of the decision service, version 1: what HTTP and the command line say, one schema.

Times are Unix seconds by the cluster's own clock, amounts carry their units in their names. A value that is
not known is null.

How it may change. Within version 1 a field is only ever added, with a default that means what was meant
before. No field changes its name, type or meaning, and none is removed. Anything else is version 2: `/v2/`
paths beside version 1, which is served for one more minor version of this product.
"""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model

from live_scheduler.capability import capabilities
from live_scheduler.service.messages import (
    ClusterState,
    Count,
    EndedJob,
    EndedJobs,
    EndsTaken,
    Gpus,
    Job,
    JobQuery,
    Message,
    Node,
    NodeShare,
    Pushed,
    QueueQuery,
    Seconds,
    Time,
)

__all__ = [
    "VERSION",
    "ClusterState",
    "Decision",
    "EndedJob",
    "EndedJobs",
    "EndsTaken",
    "Expectation",
    "Explanation",
    "Hindsight",
    "Job",
    "JobQuery",
    "Message",
    "Node",
    "NodeShare",
    "PartitionStatus",
    "Place",
    "PredictionErrors",
    "Problem",
    "Pushed",
    "Queue",
    "QueueAnswer",
    "QueueQuery",
    "QueuedJob",
    "Refusal",
    "ReleaseStatus",
    "Status",
]

VERSION = "v1"


# -- what is decided


class Place(Message):
    """A waiting job and its place in the queue that it waits in (the first is 1).

    `pool` is the partition that serves it now, `rank` what it was ordered by, lowest first. `starts_now`:
    start it at this moment. `overdue`: it has waited so long that it goes first. `partner`: the running job
    whose GPUs it is to share. `limit_s`: stop it after so long (it is measured), and let it queue at home.
    `gpus_on`: start it there (consolidated: on as few nodes as can be).
    """

    job_id: str
    pool: str
    place: Count
    starts_now: bool
    estimated_duration_s: float | None = None
    rank: tuple[float, ...] = ()
    overdue: bool = False
    partner: str | None = None
    limit_s: float | None = None
    gpus_on: tuple[NodeShare, ...] = ()


class Decision(Message):
    """The order of all queues at `at_s`.

    `sends_home` are runs on the profiling partition that are over by the policy, `left_alone` says why
    waiting jobs were not ranked. With a `problem` nothing was ranked: keep the order that you have.
    """

    at_s: Time
    release: str
    policy: str
    latency_s: Seconds
    release_version: Count | None = None
    ranked: tuple[Place, ...] = ()
    sends_home: tuple[str, ...] = ()
    left_alone: dict[str, str] = Field(default_factory=dict)
    problem: str | None = None


class ReleaseStatus(Message):
    """Which release is in use and why; times are ISO, absent: never.

    `fetching` says how far a fetch is that runs. `trust`: "signed", or "unsigned releases are believed". Of a
    signed release in use: `published`, whether the publisher signed that it is live; the number (`sequence`)
    of that publication, when it `expires`, and whether it has `expired`. `refused_code`: why a release was
    refused, in a word.
    """

    alias: str
    mode: str
    release: str
    version: Count | None = None
    verdict: str | None = None
    last_poll: str | None = None
    last_contact: str | None = None
    contact_age_s: Seconds | None = None
    problem: str | None = None
    refused_version: Count | None = None
    refused_reason: str | None = None
    fetching: str | None = None
    refused_code: str | None = None
    trust: str
    published: bool | None = None
    sequence: Count | None = None
    expires: str | None = None
    expired: bool = False


class PartitionStatus(Message):
    """A partition's queue and GPUs; `waiting_jobs` counts the tasks of arrays one by one."""

    partition: str
    waiting_jobs: Count
    waiting_gpus: Count
    running_jobs: Count
    gpus: Count
    gpus_used: Count
    gpus_offered: Count
    open: bool


class Refusal(Message):
    """A change that the cluster refused, in its own words."""

    job_id: str
    change: str
    why: str


class Hindsight(Message):
    """What the live order was worth over [start_s, end_s), played again in the simulator.

    Mean JCTs in seconds: as measured, and as simulated by the live policy, by first in first out with
    backfilling, and by the live policy with true run times. The regrets are the live policy's mean JCT less
    the other's (below 0: it won), as far as they can be told from chance (`reliable`; `..._low_s` and
    `..._high_s` are a 95 % interval).
    """

    start_s: float
    end_s: float
    jobs: Count
    measured_jct_s: float
    live_jct_s: float
    backfill_jct_s: float
    true_durations_jct_s: float
    regret_against_backfill_s: float
    regret_against_true_durations_s: float
    reliable: bool
    log10_error: float | None = None
    regret_against_backfill_low_s: float | None = None
    regret_against_backfill_high_s: float | None = None


class PredictionErrors(Message):
    """How well the ends that were told at submission held, of jobs that ended lately.

    `policy` is whose order they went by ("cluster": its own), `virtual_cluster` empty: all of them. Errors
    are |told - true| in percent of the told time from submission to end; `by_told` and `by_p90` the shares
    that had ended by the told moment, and by that of nine plays in ten. `late` jobs were told something long
    after their submission, and do not count.
    """

    policy: str
    virtual_cluster: str
    jobs: Count
    mean_error_pct: float
    median_error_pct: float
    p99_error_pct: float
    by_told: float
    by_p90: float
    release_version: Count | None = None
    late: Count = 0


class Status(Message):
    """How the live scheduler is.

    `in_charge`: its order counts now (else the cluster's own does). `decided`: whether the last pass ranked
    the queue. `set_by_hand_jobs`: of those another hand has set something after this product, so it stands;
    `hands_off_jobs` are left alone by the settings. Of the `starts` of the last look back the policy would
    have made `agreed_starts` by then as well. `asked` are the changes of the last pass by kind (below the
    mode "control": that it would have asked for). `counts` add up since `started_s`; `seconds` are the parts
    of the last pass. What a part says stands under its name, null where it does nothing.
    """

    cluster: str
    mode: Literal["observe", "advise", "control"]
    policy: str
    at_s: Time
    started_s: Time
    pass_age_s: Seconds
    in_charge: bool
    decided: bool
    release: ReleaseStatus
    dead_after_s: Seconds
    heartbeat_age_s: Seconds | None = None
    decision_latency_s: Seconds | None = None
    ranked_jobs: Count = 0
    left_alone_jobs: Count = 0
    set_by_hand_jobs: Count = 0
    hands_off_jobs: Count = 0
    partitions: tuple[PartitionStatus, ...] = ()
    asked: dict[str, Count] = Field(default_factory=dict)
    refused: tuple[Refusal, ...] = ()
    deferred: Count = 0
    counts: dict[str, Count] = Field(default_factory=dict)
    seconds: dict[str, float] = Field(default_factory=dict)
    problem: str | None = None
    hindsight: Hindsight | None = None
    starts: Count = 0
    agreed_starts: Count = 0
    predictions: tuple[PredictionErrors, ...] = ()

    def of_part(self, name: str) -> Any:
        """Return what a part says, by its name; None: nothing."""
        return getattr(self, name, None)


def _with_parts(status: type[Status]) -> type[Status]:
    """Return the status with a field for each installed part that says something."""
    kinds = {name: kind for name, part in capabilities().items() if (kind := part.status_type()) is not None}
    told: dict[str, Any] = {name: (kind | None, None) for name, kind in kinds.items()}
    return create_model("Status", __base__=status, __doc__=status.__doc__, __module__=__name__, **told)


if not TYPE_CHECKING:
    Status = _with_parts(Status)


class QueuedJob(Message):
    """A ranked job as a line of its queue."""

    job_id: str
    place: Count
    gpus: Gpus
    waited_s: Seconds
    starts_now: bool
    overdue: bool
    user: str | None = None
    name: str | None = None
    estimated_duration_s: float | None = None
    tasks: Count = 0


class Queue(Message):
    """One queue, first served first, and why other waiting jobs of its partition are not ranked."""

    pool: str
    jobs: tuple[QueuedJob, ...] = ()
    left_alone: dict[str, str] = Field(default_factory=dict)


class QueueAnswer(Message):
    """All queues at `at_s`; `note` says whose order counts, and why."""

    at_s: Time
    release: str
    policy: str
    in_charge: bool
    note: str
    queues: tuple[Queue, ...] = ()
    problem: str | None = None


class Explanation(Message):
    """Why a job stands where it stands.

    `place` of `queue_length` in `pool`; absent while it runs or is left alone (`left_alone` says why).
    `jobs_ahead` hold `gpu_seconds_ahead` by their estimates. `estimate_reason` is the model's account of
    `estimated_duration_s`. `would_move_it` says what would bring it forward; `sentences` tell all of it.
    Where new jobs are profiled first, it is `to_be_profiled`, `is_profiled` now, or `was_profiled`. `facts`
    are others that the cluster tells of it: account, group, queue, qos.
    """

    job_id: str
    at_s: Time
    state: Literal["waiting", "running"]
    virtual_cluster: str
    pool: str
    gpus: Gpus
    submit_time_s: Time
    waited_s: Seconds
    release: str
    policy: str
    in_charge: bool
    note: str
    user: str | None = None
    name: str | None = None
    tasks: Count = 0
    start_time_s: Time | None = None
    place: Count | None = None
    queue_length: Count | None = None
    jobs_ahead: Count | None = None
    gpu_seconds_ahead: float | None = None
    first_ahead: tuple[str, ...] = ()
    starts_now: bool = False
    overdue: bool = False
    held: bool = False
    waits_for: str = ""
    cluster_reason: str = ""
    to_be_profiled: bool = False
    partner: str | None = None
    left_alone: str | None = None
    estimated_duration_s: float | None = None
    estimate_reason: str | None = None
    release_version: Count | None = None
    gpus_free: Count | None = None
    gpus_offered: Count | None = None
    would_move_it: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    is_profiled: bool = False
    was_profiled: bool = False
    begin_time_s: float | None = None
    facts: dict[str, str] = Field(default_factory=dict)


class Expectation(Message):
    """When a job is expected to start and to end: half of the plays of the present state forward are earlier
    than P50, nine in ten earlier than P90.

    `said_by` names the forecast of a waiting job's start that is believed, "play_forward" or another one
    (then P50 and P90 are those that it learned), and `said_by_why` says why; `played_start_p50_s` and
    `learned_start_p50_s` are what each says. `limit_advice` says in words whether a shorter time limit
    would do, `advised_limit_s` which, and `limit_risk` how likely the job runs into the one that it asks for.
    `predicted_start_s` and `predicted_end_s` are one number each, by one play in which every job runs for as
    long as it is estimated. `told_end_s` is what it was told at `told_at_s`, about its submission, and never
    changes; `held` says how well such words held lately. `remarks` say these in words.
    """

    job_id: str
    at_s: Time
    sentence: str
    start_p50_s: Time | None = None
    start_p90_s: Time | None = None
    end_p50_s: Time | None = None
    end_p90_s: Time | None = None
    assumptions: tuple[str, ...] = ()
    predicted_start_s: Time | None = None
    predicted_end_s: Time | None = None
    told_end_s: Time | None = None
    told_end_p90_s: Time | None = None
    told_at_s: Time | None = None
    held: PredictionErrors | None = None
    remarks: tuple[str, ...] = ()
    said_by: str = ""
    said_by_why: str = ""
    played_start_p50_s: Time | None = None
    played_start_p90_s: Time | None = None
    learned_start_p50_s: Time | None = None
    learned_start_p90_s: Time | None = None
    limit_advice: str = ""
    advised_limit_s: Seconds | None = None
    limit_risk: float | None = None


class Problem(Message):
    """What stands in the way (RFC 9457): `detail` names the value, `place` where it stands, `remedy` what to
    do.
    """

    type: str
    title: str
    status: Count
    detail: str
    place: str = ""
    remedy: str = ""
