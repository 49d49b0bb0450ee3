"""How long a live decision takes: all waiting jobs estimated anew, ranked, and served by the policy.

    python benchmarks/bench_live_decision.py [--jobs N ...] [--decisions N] [--policy NAME]

One thread. The queue stands in nine virtual clusters whose nodes are busy but for a few GPUs; between two
decisions a job ends (so its keys' statistics change), one starts and one arrives. "decision" is what the
daemon measures of itself, features and inference included, from a reading to the order of all queues;
"follow" is taking the reading in before, "record" writing the decision down for people after. Processor time,
which other work on the machine does not lengthen much; the log is made up (bench_scoring.py).
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench_scoring import make_log
from bench_simulator import commit, machine

from experiments.pages import publish
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.live_settings import LiveSettings
from live_scheduler.memory.journal import JobEvent, JobEventKind
from live_scheduler.memory.online_state import OnlineState
from lucid_models.duration.model import WorkloadEstimateModel
from lucid_models.scoring import DurationScorer, scorer_from_document

TRAINING_JOBS = 8_000
VIRTUAL_CLUSTERS, NODES_EACH, GPUS = 9, 16, 8
LIMITS_MS = {2_048: (3.0, 10.0), 10_000: (20.0, None)}  # jobs -> median, 99th percentile


def trained() -> DurationScorer:
    """Return a duration model as a release holds it."""
    model = WorkloadEstimateModel().fit(make_log(TRAINING_JOBS))
    scorer = scorer_from_document(json.loads(json.dumps(model.to_data())))
    if not isinstance(scorer, DurationScorer):
        raise SystemExit("The saved duration model came back as another kind.")
    return scorer


def readings(jobs: int, count: int) -> Iterator[tuple[ClusterState, list[JobEvent]]]:
    """Yield readings of a cluster with so many waiting jobs, and what happened before each."""
    log = make_log(TRAINING_JOBS + jobs + 2 * count + 500).iloc[TRAINING_JOBS:]
    submit_s = log["submit_time"].dt.as_unit("us").astype("int64").to_numpy() / 1e6
    rows = [
        LiveJob(str(job_id), vc, vc, int(gpus), float(at), user=user, name=name, priority=1)
        for job_id, vc, gpus, at, user, name in zip(
            log["job_id"],
            log["virtual_cluster"],
            log["gpus"],
            submit_s,
            log["user"],
            log["name"],
            strict=True,
        )
    ]
    nodes = tuple(
        LiveNode(f"vc{vc}-n{node}", GPUS, GPUS - (node == 0), True, (f"vc{vc}",))
        for vc in range(VIRTUAL_CLUSTERS)
        for node in range(NODES_EACH)
    )
    at_s = float(submit_s[-1]) + 60.0
    waiting, arriving = dict.fromkeys(rows[:jobs]), iter(rows[jobs + 500 :])
    running: list[LiveJob] = [replace(job, start_time_s=at_s - 900.0) for job in rows[jobs : jobs + 500]]
    events = [JobEvent(job.submit_time_s, JobEventKind.SUBMITTED, job.job_id, job.facts()) for job in waiting]
    for _ in range(count):
        at_s += 2.0
        ended, starting, new = running.pop(0), next(iter(waiting)), next(arriving)
        del waiting[starting]
        running.append(replace(starting, start_time_s=at_s))
        waiting[new] = None
        events += [
            JobEvent(
                at_s, JobEventKind.ENDED, ended.job_id, ended.facts(), at_s - (ended.start_time_s or at_s)
            ),
            JobEvent(at_s, JobEventKind.STARTED, starting.job_id, starting.facts()),
            JobEvent(new.submit_time_s, JobEventKind.SUBMITTED, new.job_id, new.facts()),
        ]
        yield ClusterState(at_s, (*waiting, *running), nodes), events
        events = []


def measure(scorer: DurationScorer, jobs: int, decisions: int, policy: str) -> dict[str, float]:
    """Return median and 99th percentile (ms) of decisions over a queue of so many jobs."""
    settings = LiveSettings("bench", policy=policy)
    online = OnlineState(scorer)
    maker = DecisionMaker(live_policy(settings), online, settings, release="bench")
    vars(maker)["stopwatch"] = time.process_time
    took, followed, recorded = [], [], []
    gc.collect()
    gc.disable()  # as the daemon does: between passes only
    for number, (cluster, events) in enumerate(readings(jobs, decisions + 3)):
        for event in events:
            online.observe(event)
        began = time.process_time()
        maker.follow(cluster)
        between = time.process_time()
        decision = maker.decide()
        done = time.process_time()
        gc.collect(1)
        if number >= 3:
            took.append(1e3 * decision.latency_s)
            recorded.append(1e3 * (done - between - decision.latency_s))
            followed.append(1e3 * (between - began))
        if len(decision.ranked) != jobs:
            raise SystemExit(f"{len(decision.ranked)} of {jobs} jobs were ranked.")
    gc.enable()
    return {
        "jobs": jobs,
        "decision_median_ms": float(np.median(took)),
        "decision_p99_ms": float(np.percentile(took, 99)),
        "follow_median_ms": float(np.median(followed)),
        "record_median_ms": float(np.median(recorded)),
    }


def main() -> int:
    """Print the table, or write it into a page; exit code 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description="How long a live decision takes.")
    parser.add_argument("--jobs", type=int, nargs="*", default=[256, 2_048, 10_000])
    parser.add_argument("--decisions", type=int, default=300)
    parser.add_argument("--policy", default="lucid")
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    options = parser.parse_args()
    scorer = trained()
    missed = False
    measured = commit("live_scheduler", "lucid_models", "simulator")
    started = (
        f"Measured at commit {measured} on {machine()}, by `python benchmarks/bench_live_decision.py "
        f"--decisions {options.decisions} --write docs/benchmarks.md`; policy {options.policy}; "
        f"{os.getloadavg()[0]:.1f} other processes wanted the cores at its start."
    )
    lines = [
        started,
        "",
        "| jobs that wait | decision, median ms | 99th percentile | aim | reading taken in | record |",
        "| ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for jobs in options.jobs:
        row = measure(scorer, jobs, options.decisions, options.policy)
        median, p99 = LIMITS_MS.get(jobs, (None, None))
        missed |= (median is not None and row["decision_median_ms"] > median) or (
            p99 is not None and row["decision_p99_ms"] > p99
        )
        aim = "" if median is None else f"{median:g}" + ("" if p99 is None else f", 99th {p99:g}")
        lines.append(
            f"| {jobs:,} | {row['decision_median_ms']:.2f} | {row['decision_p99_ms']:.2f} | {aim} "
            f"| {row['follow_median_ms']:.2f} | {row['record_median_ms']:.2f} |"
        )
    publish({"live-decisions": "\n".join(lines)}, options.write)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
