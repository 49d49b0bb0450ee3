"""Whatever jobs and loads there are: no GPU twice, no job lost, all work done, no base on returned servers,
headroom never lent. And whatever sleeps meanwhile, too.
"""

from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.lending.lyra import Lyra, LyraSettings
from parts.lending.replay.inference_service import InferenceService
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, check_work
from simulator.job_view import RunState
from simulator.scenario.scenario import Scenario
from simulator.snapshot import ASLEEP, BOOTING, LENT
from simulator.workload.job import Job
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload
from tests.needs_part import needs_part

HEADROOM = 0.1
TRAINING, INFERENCE = 3, 6

WORKERS = st.builds(
    lambda each, least, more, loanable, heterogeneous, checkpoints, loss: Workers(
        each, least, least + more, loanable, heterogeneous, checkpoints, loss
    ),
    st.sampled_from((1, 2, 3, 4, 8)),
    st.integers(1, 3),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0.0, 0.2)),
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A quarter of an hour to some hours of a small cluster."""
    rows = draw(
        st.lists(st.tuples(st.integers(0, 3000), WORKERS, st.integers(1, 4000)), min_size=1, max_size=12)
    )
    jobs = tuple(
        Job(
            str(number),
            "training",
            None,
            workers.gpus,
            float(submit_s),
            float(run_s),
            float(run_s),
            number,
            workers=workers,
        )
        for number, (submit_s, workers, run_s) in enumerate(sorted(rows, key=lambda row: row[0]))
    )
    usage = draw(st.lists(st.floats(0, 1), min_size=1, max_size=20))
    service = InferenceService(
        INFERENCE,
        tuple(300.0 * i for i in range(len(usage))),
        tuple(usage),
        loaned_workers_per_worker=draw(st.integers(1, 3)),
        repeats=draw(st.booleans()),
    )
    return Scenario(Workload(jobs, {}), ClusterSpec({"training": TRAINING}), companions=(service,))


POLICIES = st.builds(
    LyraSettings,
    headroom=st.just(HEADROOM),
    reclaim=st.sampled_from(("exact", "greedy", "reference", "scf", "random", "highest")),
    lend=st.sampled_from(("capacity", "demand")),
    scaling=st.booleans(),
    special_placement=st.booleans(),
    order=st.sampled_from(("shortest", "submission")),
    value_exponent=st.sampled_from((0.0, 1.5)),
)


def played(scenario: Scenario, policy: LyraSettings) -> AuditedSimulation:
    """Play a scenario under audit, and look at the servers at each epoch."""
    simulation = AuditedSimulation(scenario, Lyra(policy))
    service = scenario.lender
    assert service is not None
    while simulation.step():
        now_s = simulation.now_s
        lender, borrower = simulation.pools[service.name], simulation.pools["training"]
        lent = [node for node, reasons in lender.closed_nodes().items() if LENT in reasons]
        assert len(lent) == len(borrower.guests)
        if not now_s % policy.period_s:
            free = service.servers - service.servers_needed(now_s) - ceil(HEADROOM * service.servers - 1e-9)
            assert len(lent) <= max(0, free)
        for node, reasons in lender.closed_nodes().items():
            assert reasons.isdisjoint((ASLEEP, BOOTING)), node
        for node, reasons in borrower.closed_nodes().items():
            assert node not in borrower.guests or reasons.isdisjoint((ASLEEP, BOOTING))
    assert all(job.state is RunState.COMPLETED for job in simulation.jobs)
    check_work(simulation.jobs, simulation.name)
    return simulation


@settings(deadline=None, max_examples=60)
@given(scenario=scenarios(), policy=POLICIES)
def test_books_and_facts_agree_whatever_is_lent(scenario: Scenario, policy: LyraSettings) -> None:
    played(scenario, policy)


@needs_part("node_sleep")
@settings(deadline=None, max_examples=30)
@given(
    scenario=scenarios(),
    policy=POLICIES,
    buffer=st.integers(0, 1),
    boot_s=st.sampled_from((0.0, 120.0, 700.0)),
)
def test_own_nodes_may_sleep_meanwhile(
    scenario: Scenario, policy: LyraSettings, buffer: int, boot_s: float
) -> None:
    from parts.node_sleep.replay.node_sleep import NodeSleep
    from parts.node_sleep.replay.settings import SleepSettings

    sleep = NodeSleep(SleepSettings(buffer_nodes=buffer, boot_s=boot_s, keep_bins=0))
    played(scenario.beside(sleep), policy)


@settings(deadline=None, max_examples=25)
@given(scenario=scenarios(), policy=POLICIES, at=st.floats(0, 1))
def test_a_simulation_goes_on_from_any_state(scenario: Scenario, policy: LyraSettings, at: float) -> None:
    whole = AuditedSimulation(scenario, Lyra(policy))
    whole.run()
    part = AuditedSimulation(scenario, Lyra(policy))
    part.run(at * whole.now_s)
    later = tuple(job for job in scenario.workload.jobs if job.submit_time_s > at * whole.now_s)
    resumed = AuditedSimulation(
        replace(scenario, workload=Workload(later, {}), initial=part.state()), Lyra(policy)
    )
    resumed.run()

    def ends(simulation: AuditedSimulation) -> dict[str, Any]:
        return {view.job.job_id: view.end_time_s for view in simulation.jobs}

    expected = ends(part) | ends(resumed)
    assert {name: end_s for name, end_s in expected.items() if end_s is not None} == pytest.approx(
        ends(whole)
    )
