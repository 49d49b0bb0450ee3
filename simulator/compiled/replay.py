"""Replays a scenario by machine code, where that can be; where not, `simulator.engine.simulation` does."""

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from foundation.progress import Progress
from simulator.cluster.changes import SizeChange
from simulator.compiled import inputs, machine_code
from simulator.engine.node_inventory import NodeInventory, make_pools
from simulator.policy import Policy
from simulator.results.result import ScheduleColumns, SimulationResult, schedule_of
from simulator.scenario.rules import Rules
from simulator.scenario.scenario import Scenario
from simulator.workload.columns import WorkloadColumns
from simulator.workload.workload import Workload

MOMENTS_AT_ONCE = 100_000  # then progress is reported, and an interrupt is seen
OVER = 1  # as in `loops.events`
SUBMITTED, PENDING, HELD, RUNNING, COMPLETED, CANCELLED = range(6)
WORTH_LOADING = 5_000  # jobs from which on it is quicker to load machine code than to do without
WORTH_COMPILING = 5_000_000  # jobs that a process has replayed when it would have been quicker to compile it

_jobs_replayed = 0  # by this process, where machine code could have


def worth_it(jobs: int) -> bool:
    """Whether machine code is quicker for so many jobs: it is there already, or there are and were many."""
    global _jobs_replayed  # a sweep is many small replays
    _jobs_replayed += jobs
    if not machine_code.available():
        return False
    if machine_code.is_loaded():
        return True
    if jobs < WORTH_LOADING:
        return False
    return machine_code.is_kept() or (_jobs_replayed >= WORTH_COMPILING and machine_code.can_be_kept())


def replay(
    scenario: Scenario, policy: Policy, *, name: str, progress: Progress | None = None
) -> SimulationResult | None:
    """Replay a scenario; None: there is something that only `Simulation` knows, or complains about."""
    if not may_be(scenario, policy):
        return None
    if progress is not None and not machine_code.is_kept():
        progress(0, None, "compiling the loop of replays, once")
    advance = machine_code.loop()
    if advance is None:
        return None
    began = process_time()
    cluster, changes = scenario.cluster, scenario.changes
    workload = scenario.workload.that_fit(cluster, changes)
    jobs = workload.columns
    rule = policy.column_rule(jobs)
    if rule is None or (policy.needs_estimates and not _estimated(jobs)):
        return None
    arrays = inputs.arrays_of(jobs, cluster, changes, rule, scenario.rules.remainder)
    if arrays is None:
        return None
    answer = 0
    while answer == 0:
        answer = advance(MOMENTS_AT_ONCE, arrays)
        if progress is not None:
            progress(inputs.table(arrays)["completed"], len(jobs), name)
    if answer != OVER or not np.isin(arrays["state"], (HELD, COMPLETED, CANCELLED)).all():
        return None
    cpu_s = process_time() - began
    return _result(scenario, policy, workload, arrays, name=name, cpu_s=cpu_s)


def may_be(scenario: Scenario, policy: Policy) -> bool:
    """Whether a scenario has nothing that only `Simulation` knows, as far as one sees at once."""
    jobs = scenario.workload.columns
    return (
        "column_rule" in vars(type(policy))
        and _hooks_do_nothing(scenario.rules)
        and scenario.cluster.has_equal_nodes
        and not scenario.cluster.partitions
        and scenario.initial is None
        and not scenario.companions
        and jobs.phase is None
        and jobs.elasticity is None
        and jobs.workers is None
    )


def _hooks_do_nothing(rules: Rules) -> bool:
    return type(rules).end_of_run_s is Rules.end_of_run_s and not rules.fractional


def _estimated(jobs: WorkloadColumns) -> bool:
    """Whether each job has an estimate that a policy may order by."""
    return bool((jobs.estimated_duration_s >= 0).all())


def _result(
    scenario: Scenario,
    policy: Policy,
    workload: Workload,
    arrays: inputs.Arrays,
    *,
    name: str,
    cpu_s: float,
) -> SimulationResult:
    """Return what a replay made of the jobs that count."""
    jobs, counted_from_s = workload.columns, scenario.counted_from_s
    schedule = schedule_columns(jobs, arrays)
    warm_up_jobs = 0
    if counted_from_s is not None:
        warm_up_jobs = int(np.searchsorted(jobs.submit_time_s, counted_from_s))
    counts = inputs.table(arrays)
    arrays.clear()  # they are as large as the jobs
    table, figures = schedule_of(
        jobs[warm_up_jobs:],
        schedule[warm_up_jobs:],
        mean_gpus=partial(_mean_gpus(scenario, counts["changed_at"]), from_s=counted_from_s or 0.0),
    )
    warm_up = (
        {} if counted_from_s is None else {"warm_up_jobs": warm_up_jobs, "counted_from_s": counted_from_s}
    )
    summary: dict[str, Any] = {
        "policy": name,
        "rules": scenario.rules.name,
        "oracle": policy.oracle,
        **figures,
        **warm_up,
        "profiling_nodes": 0,
        "skipped": {rule: count for rule, count in workload.skipped.items() if count},
        "decisions": counts["decisions"],
        "engine": "compiled",
        "cpu_s": cpu_s,
        "jobs_per_cpu_s": len(jobs) / cpu_s if cpu_s > 0 else 0.0,
    }
    return SimulationResult(
        table, summary, workload.origin, warm_up_jobs=warm_up_jobs, counted_from_s=counted_from_s
    )


def schedule_columns(jobs: WorkloadColumns, arrays: inputs.Arrays) -> ScheduleColumns:
    """Return what happened to jobs."""
    state, start_s, end_s = arrays["state"], arrays["start_s"], arrays["end_s"]
    done = state == COMPLETED
    waited_until_s = np.where(done, start_s, end_s)
    delay_s = np.where(state == HELD, 0.0, waited_until_s - jobs.submit_time_s)
    if not len(arrays["delay_s"]):
        return ScheduleColumns(
            start_s, end_s, delay_s, np.where(done, end_s - start_s, 0.0), cancelled=state == CANCELLED
        )
    return ScheduleColumns(
        start_s,
        end_s,
        np.where(state == CANCELLED, delay_s, arrays["delay_s"]),
        arrays["attained_s"],
        cancelled=state == CANCELLED,
        preemptions=arrays["preemptions"],
        overhead_s=arrays["overhead_s"],
    )


def _mean_gpus(scenario: Scenario, changes: int) -> Callable[..., float]:
    """Return what tells how many GPUs there have been on average, after so many entries of changes."""
    cluster = scenario.cluster
    if not changes:
        return lambda until_s, from_s=0.0: cluster.total_gpus
    pools = make_pools(cluster, cluster.cpu_cores_per_node, scenario.rules.remainder)
    nodes = NodeInventory(pools, cluster, cluster)
    sizes = [change for change in scenario.changes if isinstance(change, SizeChange)]
    for change in inputs.in_time(sizes)[: changes // (2 if cluster.cpu_cores_per_node else 1)]:
        nodes.apply(change, change.at_s)
    return nodes.mean_gpus
