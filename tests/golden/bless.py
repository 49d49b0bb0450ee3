"""Writes the golden results anew: `make golden`. Look at the diff before you commit it.

Each registered policy replays a small synthetic workload, of elastic jobs if it resizes jobs, of jobs in
workers beside an inference service if it is for these; every job's first start, end and number of preemptions
are kept, so a change of any decision shows. Results of a part's policies lie in its tests/golden.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from math import sin
from pathlib import Path

from foundation.parts import installed_parts
from parts.lending.replay.inference_service import InferenceService
from parts.lending.workers.worker_policy import WorkerPolicy
from parts.node_sleep.replay.node_sleep import NodeSleep
from parts.node_sleep.replay.power_history import PowerTotals, power_figures
from parts.node_sleep.replay.settings import SleepSettings
from simulator.cluster import ClusterSpec
from simulator.colocation import SummedUtilisation
from simulator.conformance import sample_workload
from simulator.elastic_jobs import as_elastic
from simulator.policies.registry import elastic_policy_names, policy_class, policy_names
from simulator.replay import simulate
from simulator.result import SimulationResult
from simulator.rule_sets import load_rules, rule_set_names
from simulator.rules import Rules
from simulator.scenario import Scenario
from simulator.speed_up_table import speed_ups_for
from simulator.workers import Workers
from simulator.workload import Workload

FOLDER = Path(__file__).parent
PARTS = FOLDER.parents[1] / "parts"
SLEEPING = FOLDER / "simulate_qssf_node_sleep.json"
SHAPE, SEED, JOBS = "loaded", 7, 150


def cases() -> list[tuple[str, str]]:
    """Every policy under our own rules, and under each rule set that gives it other settings."""
    return [
        (policy, rules.name)
        for rules in _rule_sets()
        for policy in dict.fromkeys((*policy_names(), *sorted(rules.policies)))
        if rules.name == "default"
        or policy in rules.policy_settings
        or (rules.fractional and policy in elastic_policy_names())
    ]


def _rule_sets() -> Iterator[Rules]:
    """The rule sets that are here with all that they need."""
    for name in rule_set_names():
        try:
            yield load_rules(name)
        except ModuleNotFoundError:  # of a part that is not here
            continue


def path_of(policy: str, rules: str) -> Path:
    """Where a case's golden result lies."""
    folder = FOLDER
    if policy not in load_rules(rules).policies:
        for part in installed_parts():
            of_part = PARTS / part.name / "tests" / "golden"
            if policy in part.policies and of_part.is_dir():
                folder = of_part
    return folder / f"simulate_{policy}{'' if rules == 'default' else '_' + rules}.json"


def replay(policy: str, rules: str) -> SimulationResult:
    """Run a case."""
    if issubclass(policy_class(policy, load_rules(rules)), WorkerPolicy):
        return simulate(sample_in_workers(rules), policy)
    workload, cluster = sample_workload(SHAPE, SEED, JOBS)
    if policy in elastic_policy_names():
        curves = speed_ups_for(64)
        models = list(curves)
        drawn = [models[i % len(models)] for i in range(len(workload))]
        workload = as_elastic(workload, 1, models=drawn, speed_ups=curves)
    settings = {"profiling_nodes": 2} if policy == "lucid" else None
    return simulate(
        Scenario(workload, cluster, rules=load_rules(rules), colocation=SummedUtilisation()),
        policy,
        settings=settings,
    )


def sample_in_workers(rules: str = "default") -> Scenario:
    """Return jobs in workers of every kind, on seven servers, beside nine of inference whose load changes."""
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
        rules=load_rules(rules),
        companions=(InferenceService(9, times_s, usage, loaned_workers_per_worker=2, repeats=True),),
    )


def golden(policy: str, rules: str) -> dict[str, object]:
    """Return what is kept of a case."""
    result = replay(policy, rules)
    kept = (
        "mean_jct_s",
        "mean_queuing_delay_s",
        "makespan_s",
        "preemptions",
        "colocated_jobs",
        "profiled_jobs",
    )
    return {
        "workload": f"{SHAPE}, seed {SEED}, {JOBS} jobs",
        "summary": {key: round(result.summary[key], 6) for key in kept},
        "jobs": {
            row.job_id: [round(row.first_start_time_s, 6), round(row.end_time_s, 6), row.preemptions]
            for row in result.jobs.itertuples()
        },
    }


def sleeping() -> dict[str, object]:
    """Return what is kept of a case in which nodes sleep behind a buffer, and some boots fail."""
    workload, cluster = sample_workload("quiet", SEED, JOBS)
    sleep = NodeSleep(SleepSettings(buffer_nodes=2, keep_bins=1), boot_failure_share=0.1, seed=SEED)
    result = simulate(Scenario(workload, cluster, companions=(sleep,)), "qssf")
    kept = ("mean_queuing_delay_s", *power_figures(PowerTotals(), 0.0))
    return {
        "workload": f"quiet, seed {SEED}, {JOBS} jobs",
        "summary": {key: round(result.summary[key], 6) for key in kept},
        "jobs": {
            row.job_id: [round(row.first_start_time_s, 6), round(row.end_time_s, 6), row.preemptions]
            for row in result.jobs.itertuples()
        },
    }


def dumped(document: dict[str, object]) -> str:
    """One line a job, so that a diff names the jobs that moved."""
    text = json.dumps(document, indent=1)
    return text.replace("[\n   ", "[").replace(",\n   ", ", ").replace("\n  ]", "]") + "\n"


def main() -> None:
    """Write all golden results; say which changed."""
    results = {path_of(policy, rules): golden(policy, rules) for policy, rules in cases()}
    for path, document in {**results, SLEEPING: sleeping()}.items():
        text = dumped(document)
        before = path.read_text(encoding="utf-8") if path.exists() else None
        path.write_text(text, encoding="utf-8")
        print(f"{'same   ' if text == before else 'WRITTEN'}  {path.name}")


if __name__ == "__main__":
    main()
