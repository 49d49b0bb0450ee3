"""What policies for jobs in workers replay, whose results tests/golden/bless.py keeps."""

from dataclasses import replace
from math import sin

from parts.lending.replay.inference_service import InferenceService
from parts.lending.workers.worker_policy import WorkerPolicy
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import sample_workload
from simulator.policies.registry import policy_class
from simulator.scenario.rules import Rules
from simulator.scenario.scenario import Scenario
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload
from tests.golden.bless import JOBS, SEED, SHAPE


def scenario(policy: str, rules: Rules) -> Scenario | None:
    """Return jobs in workers of every kind, on seven servers, beside nine of inference whose load changes."""
    if not issubclass(policy_class(policy, rules), WorkerPolicy):
        return None
    workload, _ = sample_workload(SHAPE, SEED, JOBS)
    jobs = []
    for i, job in enumerate(workload.jobs):
        gpus_each, least = (job.gpus, 1) if job.gpus <= 4 else (4, job.gpus // 4)
        workers = Workers(
            gpus_each,
            least,
            least * (2 if i % 3 == 0 else 1),
            loanable=i % 4 == 0,
            heterogeneous=i % 7 == 0,
            checkpoints=i % 5 == 0,
        )
        jobs.append(replace(job, virtual_cluster="training", gpus=workers.gpus, workers=workers))
    times_s = [300.0 * bin_ for bin_ in range(48)]
    usage = [0.5 + 0.4 * sin(time_s / 2000) for time_s in times_s]
    return Scenario(
        Workload(tuple(jobs), {}),
        ClusterSpec({"training": 7}),
        rules=rules,
        companions=(InferenceService(9, times_s, usage, loaned_workers_per_worker=2, repeats=True),),
    )
