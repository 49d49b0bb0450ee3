"""Replays of jobs in workers, drawn, in which what must always hold is looked at."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.orchestrator import share_of_servers
from simulator.cluster.placement import Placement
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView, RunState
from simulator.policies.registry import load_policy
from simulator.recorder import Recorder
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool
from simulator.workload.job import Job
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload

SERVERS, INFERENCE_SERVERS, HEADROOM = 2, 4, 0.02


class Audit(Recorder):
    """Counts GPUs at each decision, and looks at what is lent."""

    def __init__(self, service: InferenceService, pools: dict[str, NodePool]) -> None:
        self.service = service
        self.pools = pools
        self.starts = 0

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        self.starts += 1
        self.resized(now_s, job, pool, ())

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        assert now_s % 60 == 0
        assert {node for node, _ in job.placement or ()} <= {0, 1, *pool.guests}

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        training = self.pools["training"]
        held = [0] * training.free.nodes
        for view in training.running:
            for node, gpus in view.placement or ():
                held[node] += gpus
        assert all(gpus + training.free.on_node(node) == 8 for node, gpus in enumerate(held))
        if now_s % 300 == 0:
            kept = self.service.servers_needed(now_s) + share_of_servers(HEADROOM, INFERENCE_SERVERS)
            assert len(training.guests) <= max(0, INFERENCE_SERVERS - kept)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw jobs that fit on the training servers, and a load of inference that ends with a lull."""
    jobs = []
    submitted = sorted(draw(st.lists(st.integers(0, 3000), min_size=1, max_size=12)))
    for i, submit_s in enumerate(submitted):
        gpus_each = draw(st.sampled_from([1, 2, 4, 8]))
        least = draw(st.integers(1, min(4, SERVERS * 8 // gpus_each)))
        workers = Workers(
            gpus_each,
            least,
            least + draw(st.sampled_from([0, 0, 1, 3])),
            loanable=draw(st.booleans()),
            heterogeneous=draw(st.booleans()),
            checkpoints=draw(st.booleans()),
            loss=draw(st.sampled_from([0.0, 0.2])),
        )
        run_s = draw(st.integers(0, 2000))
        jobs.append(Job(f"j{i}", "training", None, workers.gpus, submit_s, run_s, run_s, i, workers=workers))
    usage = [*draw(st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0]), min_size=1, max_size=12)), 0.0]
    service = InferenceService(
        INFERENCE_SERVERS,
        [300.0 * bin_ for bin_ in range(len(usage))],
        usage,
        loaned_workers_per_worker=draw(st.integers(1, 3)),
    )
    return Scenario(Workload(tuple(jobs), {}), ClusterSpec({"training": SERVERS}), companions=(service,))


def audited(
    scenario: Scenario, policy: str, chosen: dict[str, Any], *, rules: str = "default"
) -> list[tuple[float | None, ...]]:
    """Return each job's first start, end, queuing and preemptions, and check what must hold meanwhile."""
    scenario = replace(scenario, rules=load_rules(rules))
    assert scenario.lender is not None
    audit = Audit(scenario.lender, {})
    simulation = Simulation(scenario, load_policy(policy, chosen, scenario.rules), recorder=audit)
    audit.pools.update(simulation.pools)
    simulation.run()
    assert all(view.state is RunState.COMPLETED for view in simulation.jobs)
    assert audit.starts == sum(1 + view.preemptions for view in simulation.jobs)
    return [
        (view.first_start_time_s, view.end_time_s, view.queuing_delay_s, view.preemptions, view.resizes)
        for view in simulation.jobs
    ]
