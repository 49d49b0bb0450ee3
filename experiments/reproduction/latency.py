"""Figure 10 (a): how long one decision takes, by the number of jobs that wait.

A burst of the trace's jobs meets a small, full cluster; the queue grows to the burst's size and drains. Each
decision of the policy is timed with the number of jobs that wait in the pools it decides for. Lucid's burst
passes the profiler first, so its binder looks at profiled jobs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from experiments.reproduction import plots
from experiments.reproduction.runs import TRACE, ReproductionRun
from experiments.reproduction.sections import Section, name_of
from experiments.reproduction.study import BASE, Study
from foundation.markdown import NO_VALUE, number
from lucid_models.duration.model import job_mappings
from lucid_models.duration.queue_scorer import QueueScorer
from simulator.actions import Action
from simulator.cluster.spec import ClusterSpec
from simulator.policies.registry import policy_class
from simulator.policy import Policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.snapshot import Snapshot
from simulator.workload.job import Job
from simulator.workload.workload import Workload

QUEUE_LENGTHS = (64, 256, 1_024, 2_048, 4_096)
NODES = 16
LONGEST_S = 4 * 3_600.0  # of the burst's jobs: the queue shall drain while we watch
POLICIES = ("fifo", "qssf", "horus", "tiresias", "lucid", "clarity", "easy")
_REPEATS = 5
_LUCID = {"profiling_nodes": 1}


@dataclass(frozen=True)
class TimedDecision:
    """One call of `decide`: how many jobs waited in the pools that changed, and how long it took."""

    queued_jobs: int
    seconds: float


def latency_section(study: Study, lengths: tuple[int, ...] = QUEUE_LENGTHS) -> Section:
    """Time decisions under queues of up to the longest of `lengths`, and the estimates of a whole queue."""
    jobs = _burst(study, max(lengths) + NODES * 8)
    rows: list[dict[str, Any]] = []
    for policy in POLICIES:
        if policy not in study.policies:
            continue
        decisions = timed_decisions(policy, jobs, study)
        for length in lengths:
            near = [
                1_000 * found.seconds
                for found in decisions
                if 0.8 * length <= found.queued_jobs <= 1.25 * length
            ]
            if near:
                rows.append(
                    {
                        "policy": policy,
                        "queued_jobs": length,
                        "decisions": len(near),
                        "median_ms": float(median(near)),
                        "p99_ms": float(np.percentile(near, 99)),
                        "max_ms": max(near),
                    }
                )
    estimating = {length: estimating_ms(study, length) for length in lengths}
    tidy = pd.DataFrame(rows, columns=["policy", "queued_jobs", "decisions", "median_ms", "p99_ms", "max_ms"])
    tidy["estimating_ms"] = [
        estimating[int(length)] if policy == "lucid" else None
        for policy, length in zip(tidy["policy"], tidy["queued_jobs"], strict=True)
    ]
    shown = []
    for policy in dict.fromkeys(tidy["policy"]):
        found = tidy[tidy["policy"] == policy].set_index("queued_jobs")
        shown.append(
            {"decision, ms: median (P99)": name_of(str(policy))}
            | {
                f"{length:,} queued": (
                    f"{number(float(found['median_ms'][length]))} ({number(float(found['p99_ms'][length]))})"
                    if length in found.index
                    else NO_VALUE
                )
                for length in lengths
            }
        )
    if any(value is not None for value in estimating.values()):
        shown.append(
            {"decision, ms: median (P99)": "estimating and ordering all that wait anew"}
            | {f"{length:,} queued": number(estimating[length]) for length in lengths}
        )
    return Section(
        "fig10_scheduling_latency",
        "Figure 10 (a): scheduling latency",
        tidy,
        pd.DataFrame(shown),
        (
            (
                "Wall time of `decide` in Python, on the machine named above, for queues within 20 to 25 % "
                "of the length. The paper: up to 3 ms for 2,048 jobs, model inference included."
            ),
            _inference_note(study, estimating),
        ),
        plots.scheduling_latency(tidy),
    )


def _inference_note(study: Study, estimating: Mapping[int, float | None]) -> str:
    if all(taken is None for taken in estimating.values()):
        return f"Inference was not timed: {study.beliefs.why_no_model}."
    return (
        "The last row is a queue that a scheduler keeps: features and scores of all waiting jobs computed "
        "anew at the decision. Entering a job into it, once, at its submission, is not part of that."
    )


def timed_decisions(policy: str, jobs: tuple[Job, ...], study: Study) -> list[TimedDecision]:
    """Replay the burst under a policy and time each of its decisions."""
    decisions: list[TimedDecision] = []
    simulate(
        Scenario(Workload(jobs, {}), ClusterSpec({"burst": NODES}, 8), colocation=study.materials.colocation),
        timed(policy, _LUCID if policy == "lucid" else {}, decisions.append),
    )
    return decisions


def timed(policy: str, settings: dict[str, Any], tell: Callable[[TimedDecision], None]) -> Policy:
    """Make a policy that times its own decisions and is otherwise itself."""
    found = policy_class(policy)

    def decide(self: Policy, snapshot: Snapshot) -> Sequence[Action]:
        queued = sum(len(pool.queue) for pool in snapshot.changed)
        began = perf_counter()
        actions = found.decide(self, snapshot)
        tell(TimedDecision(queued, perf_counter() - began))
        return actions

    watched: Callable[..., Policy] = type(f"Timed{found.__name__}", (found,), {"decide": decide})
    settings_class = getattr(found, "Settings", None)
    return watched() if settings_class is None else watched(settings_class(**settings))


def estimating_ms(study: Study, queued_jobs: int) -> float | None:
    """Median milliseconds to estimate and order so many waiting jobs, every feature and score computed anew.

    A job is entered into the queue once, at its submission, and that is not part of a decision. None without
    a trained model.
    """
    if study.beliefs.model is None:
        return None
    scorer = study.beliefs.model.scorer
    rows = np.arange(queued_jobs) % len(study.trace.jobs)
    queue = study.trace.jobs.iloc[rows].assign(job_id=[f"queued-{i}" for i in range(queued_jobs)])
    jobs = job_mappings(queue)
    at_s = float(queue["submit_time"].max().timestamp())
    taken = []
    waiting = QueueScorer(scorer)
    waiting.add(jobs)
    gpus = queue["gpus"].to_numpy(np.float64)
    for _ in range(_REPEATS + 1):
        began = perf_counter()
        np.argsort(waiting.estimate(at_s) * gpus, kind="stable")
        taken.append(1_000 * (perf_counter() - began))
    return float(median(taken[1:]))  # the first round warms the caches


def _burst(study: Study, count: int) -> tuple[Job, ...]:
    """The trace's jobs of at most a node, as often as needed, all submitted at once; run times differ."""
    run = ReproductionRun("", (), TRACE, study.beliefs.default, BASE)
    small = [job for job in study.materials.workload_of(run).jobs if 1 <= job.gpus <= 8]
    random = np.random.default_rng([study.seed, 10])
    lengths = random.uniform(600.0, LONGEST_S, count)
    return (
        tuple(
            replace(
                small[i % len(small)],
                job_id=f"burst-{i}",
                virtual_cluster="burst",
                submit_time_s=0.0,
                order=i,
                duration_s=float(lengths[i]),
                cancel_time_s=None,
                withdrawn=False,
            )
            for i in range(count)
        )
        if small
        else ()
    )
