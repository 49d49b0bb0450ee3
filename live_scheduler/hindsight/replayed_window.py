"""What the live order was worth: jobs that ended, played again in the simulator on the cluster's own nodes.

The same jobs, submitted when they were (or when they might start, where that was later: a begin time, a
dependency, a hold), are served three times: first come, first served with backfilling by
the time limits that users gave (what the cluster does by itself; Lifka's EASY, `simulator/policies/easy.py`),
by the live policy with what was believed of each job when it was first ranked, and by the live policy with
true run times. All three are simulated, so their differences are the policy's and not the simulator's; what
was measured stands beside them. The regret is the live policy's mean JCT less another's: below zero it won.

A replay knows the jobs of the window only: those that ran when it began fill the cluster first, those that
still run at its end hold their GPUs until then and do not count, and those that never ran are left out.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from live_scheduler.hindsight.cluster_sizes import count_nodes
from live_scheduler.hindsight.decision_log import FirstSight
from live_scheduler.memory.journal import JobEvent, JobEventKind
from simulator.cluster.spec import ClusterSpec
from simulator.gate.bootstrap import paired_mean_change
from simulator.job_view import JobView
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.replay import play
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

Floats = NDArray[np.float64]

# A replay takes about 30,000 jobs a second; older jobs of a window that holds more are left out.
MOST_JOBS = 50_000
# Jobs of one stretch of the window and one virtual cluster wait for each other: a block of the bootstrap.
STRETCHES = 12
# Where a user gave no limit, nothing can be backfilled behind the job.
NO_LIMIT_S = 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class LivedJob:
    """A job that ran: what it was, when it ran (Unix seconds), and what was believed of it at its submission.

    `facts` are all that was known of it at its submission. `end_time_s` is None while it runs.
    `estimated_duration_s` is None where it was never ranked.
    """

    job_id: str
    virtual_cluster: str
    user: str | None
    gpus: int
    submit_time_s: float
    start_time_s: float
    end_time_s: float | None
    time_limit_s: float | None = None
    estimated_duration_s: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class MeanTimes:
    """Means over the judged jobs, in seconds; None: not known."""

    mean_jct_s: float
    mean_queuing_delay_s: float | None = None


@dataclass(frozen=True)
class Regret:
    """Mean JCT of the live policy less another's (s), with a 95 % interval over blocks; below 0 it won.

    `low_s` and `high_s` are None, and `reliable` is false, where there are too few blocks.
    """

    point_s: float
    low_s: float | None
    high_s: float | None
    relative_pct: float | None
    reliable: bool


@dataclass(frozen=True)
class Hindsight:
    """The live policy's worth over [start_s, end_s) (Unix time).

    `left_out` counts jobs by the rule that left them out of the replay; `unranked` had started before they
    were ranked, and are estimated to take as long as the typical job before them. `log10_error` is the mean
    error of the estimates at submission.
    """

    start_s: float
    end_s: float
    policy: str
    jobs: int
    unranked: int
    left_out: Mapping[str, int]
    measured: MeanTimes
    backfill: MeanTimes
    live: MeanTimes
    true_durations: MeanTimes
    against_backfill: Regret
    against_true_durations: Regret
    log10_error: float | None
    remarks: tuple[str, ...]


def lived_jobs(events: Iterable[JobEvent], sights: Mapping[tuple[str, float], FirstSight]) -> list[LivedJob]:
    """The jobs that ran, by the journal, in the order of submission; the last life of an id counts."""
    started: dict[str, float] = {}
    lived: dict[tuple[str, float], LivedJob] = {}
    for event in events:
        key = (event.job_id, float(event.facts.get("submit_time_s") or 0.0))
        if event.kind is JobEventKind.STARTED:
            started[event.job_id] = event.at_s
            lived[key] = _lived(event, key, event.at_s, None, sights)
        elif event.kind is JobEventKind.ENDED and event.duration_s is not None:
            started.pop(event.job_id, None)
            ended = _lived(event, key, event.at_s - event.duration_s, event.at_s, sights)
            if key in lived:  # only its start tells from when on it might have started
                ended = replace(ended, submit_time_s=min(lived[key].submit_time_s, ended.start_time_s))
            lived[key] = ended
        elif event.kind in (JobEventKind.REQUEUED, JobEventKind.WITHDRAWN):
            started.pop(event.job_id, None)
            if key in lived and lived[key].end_time_s is None:
                del lived[key]
    return sorted(lived.values(), key=lambda job: (job.submit_time_s, len(job.job_id), job.job_id))


def judge_window(
    jobs: Sequence[LivedJob],
    *,
    start_s: float,
    end_s: float,
    nodes: Iterable[tuple[str, int, Sequence[str]]],
    policy: Callable[[], Policy],
    policy_name: str,
    resamples: int = 1_000,
) -> Hindsight:
    """Play [start_s, end_s) again; `nodes` as (name, GPUs, partitions), `policy` makes the live one.

    Judged are the jobs that were submitted in the window and had ended by its end. Raises BadInputError when
    there are none, or no node for any.
    """
    left_out: Counter[str] = Counter()
    replayed = []
    for job in jobs:
        if job.submit_time_s >= end_s or (job.end_time_s or math.inf) <= start_s:
            continue
        if job.gpus < 1:
            left_out["cpu_job"] += 1
        elif job.start_time_s >= end_s:
            left_out["started_later"] += 1
        else:
            replayed.append(job)
    if len(replayed) > MOST_JOBS:
        left_out["older_than_the_newest"] = len(replayed) - MOST_JOBS
        replayed = replayed[-MOST_JOBS:]
        start_s = max(start_s, replayed[0].submit_time_s)
    sizes = count_nodes(nodes, {job.virtual_cluster for job in replayed})
    if sizes is None:
        raise BadInputError("No node belongs to the virtual clusters of the jobs that ended.")
    spec = ClusterSpec(dict(sizes.nodes), sizes.gpus_per_node)
    beliefs, unranked = _beliefs(replayed)
    workload = _workload(replayed, start_s, end_s, beliefs).that_fit(spec)
    left_out.update({rule: count for rule, count in workload.skipped.items() if count})
    kept = {job.job_id for job in workload.jobs}
    lived = {str(number): job for number, job in enumerate(replayed) if str(number) in kept}
    judged = [
        number
        for number, job in lived.items()
        if job.submit_time_s >= start_s and job.end_time_s is not None and job.end_time_s <= end_s
    ]
    if not judged:
        raise BadInputError(
            "No job that was submitted in the window has ended.", remedy="Look back over a longer time."
        )
    limits = [min(lived[job.job_id].time_limit_s or NO_LIMIT_S, NO_LIMIT_S) for job in workload.jobs]
    truth = [job.duration_s for job in workload.jobs]
    runs = {
        "backfill": play(Scenario(workload.with_estimates(np.array(limits)), spec), load_policy("easy")),
        "live": play(Scenario(workload, spec), policy()),
        "true": play(Scenario(workload.with_estimates(np.array(truth)), spec), policy()),
    }
    jct, wait = {}, {}
    for name, run in runs.items():
        views = {view.job.job_id: view for view in run}
        jct[name], wait[name] = _times([views[number] for number in judged])
    judged_jobs = [lived[number] for number in judged]
    happened = np.array([(job.end_time_s or 0.0) - job.submit_time_s for job in judged_jobs])
    waited = np.array([job.start_time_s - job.submit_time_s for job in judged_jobs])
    blocks = _blocks(judged_jobs, start_s, end_s)
    remarks = list(sizes.remarks)
    if len(replayed) - len(judged):
        remarks.append(
            f"{len(replayed) - len(judged)} jobs fill the cluster before, or run on after, the window."
        )
    return Hindsight(
        start_s,
        end_s,
        policy_name,
        len(judged),
        sum(unranked[int(number)] for number in judged),
        dict(sorted(left_out.items())),
        _figures(happened, waited),
        _figures(jct["backfill"], wait["backfill"]),
        _figures(jct["live"], wait["live"]),
        _figures(jct["true"], wait["true"]),
        _regret(jct["live"], jct["backfill"], blocks, resamples),
        _regret(jct["live"], jct["true"], blocks, resamples),
        _log10_error(judged_jobs),
        tuple(remarks),
    )


def _times(views: Sequence[JobView]) -> tuple[Floats, Floats]:
    """Each job's completion and queuing time (s), shape (jobs,)."""
    ends = np.array([view.end_time_s for view in views], dtype=np.float64)  # NaN: it never ended
    submitted = np.array([view.submit_time_s for view in views])
    return ends - submitted, np.array([view.queuing_delay_s for view in views])


def _lived(
    event: JobEvent,
    key: tuple[str, float],
    start_s: float,
    end_s: float | None,
    sights: Mapping[tuple[str, float], FirstSight],
) -> LivedJob:
    facts, sight = event.facts, sights.get(key)
    limit = facts.get("time_limit_s")
    submit_s = float(facts.get("ready_time_s") or key[1])
    return LivedJob(
        event.job_id,
        str(facts.get("virtual_cluster") or ""),
        None if facts.get("user") is None else str(facts["user"]),
        int(facts.get("gpus") or 0),
        submit_s,
        max(start_s, submit_s),
        end_s,
        None if limit is None else float(limit),
        None if sight is None else sight.estimated_duration_s,
        facts,
    )


def _beliefs(jobs: Sequence[LivedJob]) -> tuple[list[float], list[bool]]:
    """Each job's estimate, and whether it was never ranked: then the typical run time before it."""
    ends = sorted((job.end_time_s, job.end_time_s - job.start_time_s) for job in jobs if job.end_time_s)
    log_sum, count, at = 0.0, 0, 0
    beliefs, unranked = [], []
    for job in jobs:
        while at < len(ends) and ends[at][0] <= job.submit_time_s:
            log_sum += math.log(max(ends[at][1], 1.0))
            count, at = count + 1, at + 1
        typical_s = math.exp(log_sum / count) if count else 3_600.0
        beliefs.append(typical_s if job.estimated_duration_s is None else job.estimated_duration_s)
        unranked.append(job.estimated_duration_s is None)
    return beliefs, unranked


def _workload(jobs: Sequence[LivedJob], start_s: float, end_s: float, beliefs: Sequence[float]) -> Workload:
    """Make a workload whose second 0 is `start_s`; what was there before is there from the beginning.

    A job that ran when the window began has left of its run what was left of it then, and comes before all
    that waited.
    """
    made = []
    for number, (job, belief) in enumerate(zip(jobs, beliefs, strict=True)):
        ended = end_s if job.end_time_s is None else min(job.end_time_s, end_s)
        ran_before = max(0.0, start_s - job.start_time_s)
        began_before = job.start_time_s < start_s
        submit_s = max(0.0, job.submit_time_s - start_s)
        made.append(
            (
                (submit_s, not began_before, number),
                Job(
                    job_id=str(number),
                    virtual_cluster=job.virtual_cluster,
                    user=job.user,
                    gpus=job.gpus,
                    submit_time_s=submit_s,
                    duration_s=max(0.0, ended - max(job.start_time_s, start_s)),
                    estimated_duration_s=max(belief - ran_before, 1.0),
                ),
            )
        )
    made.sort(key=lambda pair: pair[0])
    return Workload(tuple(replace(job, order=order) for order, (_, job) in enumerate(made)), {})


def _blocks(jobs: Sequence[LivedJob], start_s: float, end_s: float) -> NDArray[np.int64]:
    stretch_s = max((end_s - start_s) / STRETCHES, 1.0)
    names = {job.virtual_cluster: None for job in jobs}
    number = {name: at for at, name in enumerate(sorted(names))}
    pairs = [(int((job.submit_time_s - start_s) // stretch_s), number[job.virtual_cluster]) for job in jobs]
    return np.array([stretch * len(number) + cluster for stretch, cluster in pairs], dtype=np.int64)


def _regret(live: Floats, other: Floats, blocks: NDArray[np.int64], resamples: int) -> Regret:
    change = paired_mean_change(live, other, blocks, resamples=resamples)
    seconds, relative = change.difference, change.relative_pct
    return Regret(
        seconds.point,
        seconds.low,
        seconds.high,
        None if relative is None else relative.point,
        seconds.reliable,
    )


def _figures(jct_s: Floats, waited_s: Floats) -> MeanTimes:
    return MeanTimes(float(jct_s.mean()), float(waited_s.mean()))


def _log10_error(jobs: Sequence[LivedJob]) -> float | None:
    errors = [
        abs(
            math.log10(
                max((job.end_time_s or 0.0) - job.start_time_s, 1.0) / max(job.estimated_duration_s, 1.0)
            )
        )
        for job in jobs
        if job.estimated_duration_s is not None
    ]
    return sum(errors) / len(errors) if errors else None
