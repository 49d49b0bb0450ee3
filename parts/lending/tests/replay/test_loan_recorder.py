"""Tests of what is counted of servers on loan: usage of both kinds, reclaims, collateral damage, shortage."""

from collections.abc import Sequence
from typing import Any

import pytest

from parts.lending.replay.inference_service import InferenceService
from simulator.actions import Action, Loan, Preempt, Reclaim, Resize, Start
from simulator.cluster.placement import Placement
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.job_view import JobView
from simulator.policy import Policy
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool, Snapshot
from simulator.workload.job import Job
from simulator.workload.workers import Workers
from simulator.workload.workload import Workload

Pairs = tuple[tuple[int, int], ...]


class TwoLoans(Policy):
    """Lends two servers, runs jobs there and takes one back at 600 s: the jobs with base workers on it go."""

    def __init__(self, placements: dict[str, tuple[Pairs, Pairs]]) -> None:
        self.placements = placements

    def priority(self, job: JobView) -> Any:
        return job.index

    def next_change_s(self, pool: NodePool, now_s: float) -> float | None:
        return 600.0

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        pool, inference = snapshot.pools["training"], snapshot.pools["inference"]
        if snapshot.now_s == 0 and not pool.guests:
            return [Loan(inference, pool, 0), Loan(inference, pool, 1)]
        if snapshot.now_s == 600 and 1 in pool.guests:
            actions: list[Action] = []
            for job in pool.running:
                base = dict(job.placement or ())
                for node, gpus in job.flexible:
                    base[node] -= gpus
                if base.get(1):
                    actions.append(Preempt(job, keeps_progress=False))
                elif 1 in dict(job.flexible):
                    rest = Placement.of((node, gpus) for node, gpus in job.placement or () if node != 1)
                    actions.append(Resize(job, rest, Placement.of((n, g) for n, g in job.flexible if n != 1)))
            return [*actions, Reclaim(pool, 1)]
        if snapshot.now_s > 0:
            return [
                Start(job, Placement.of([(2, job.min_gpus)]))
                for job in list(pool.queue)[:1]
                if not pool.running
            ]
        return [Start(job, *self._place(job)) for job in pool.queue]

    def _place(self, job: JobView) -> Any:
        placement, flexible = self.placements[job.job.job_id]
        return Placement.of(placement), None, Placement.of(flexible)


def summary_of(placements: dict[str, tuple[Pairs, Pairs]], *jobs: Job) -> dict[str, Any]:
    """Return the figures of two loans out of four servers, of which inference needs 1, then 2, then 3."""
    service = InferenceService(
        4, (0.0, 300.0, 600.0), (0.25, 0.5, 0.75), loaned_workers_per_worker=1, mixed_speed=1.0
    )
    last = Job("last", "training", None, 8, 1000.0, 100.0, workers=Workers(8, 1, 1, loanable=True))
    scenario = Scenario(Workload((*jobs, last), {}), ClusterSpec({"training": 1}), companions=(service,))
    simulation = Simulation(scenario, TwoLoans(placements))
    simulation.run()
    return dict(simulation.result().summary)


def job(name: str, gpus: int, least: int = 1, most: int = 1) -> Job:
    """Return a job that runs for 1,200 s on its most workers."""
    workers = Workers(gpus, least, most, loanable=True, heterogeneous=True)
    return Job(name, "training", None, workers.gpus, 0.0, 1200.0, workers=workers)


def test_usage_is_that_of_own_servers_loaned_ones_and_inference_until_the_last_submission() -> None:
    summary = summary_of({"a": (((0, 8),), ()), "b": (((2, 4),), ())}, job("a", 8), job("b", 4))
    assert summary["training_usage_pct"] == pytest.approx(100)
    assert summary["servers_on_loan_mean"] == pytest.approx(1.6)
    assert summary["on_loan_usage_pct"] == pytest.approx(100 * 4 * 1000 / (8 * 1600))
    inference_server_s = 300 + 2 * 300 + 3 * 400
    assert summary["all_usage_pct"] == pytest.approx(
        100 * (8 * 1000 + 4 * 1000 + 8 * inference_server_s) / (5 * 8 * 1000)
    )
    assert (summary["reclaims"], summary["servers_reclaimed"], summary["preempting_reclaims"]) == (1, 1, 0)
    assert summary["inference_short_pct"] == 0.0
    assert summary["jobs_on_loan"] == 2


def test_collateral_damage_is_what_preempted_jobs_held_elsewhere() -> None:
    summary = summary_of({"a": (((1, 4), (2, 2)), ())}, job("a", 2, 3, 3))
    assert summary["preemptions"] == 1
    assert summary["preempted_pct"] == pytest.approx(50)
    assert summary["preempting_reclaims"] == 1
    assert summary["collateral_damage_pct"] == pytest.approx(100 * 2 / 8)


def test_flexible_workers_are_scaled_and_no_collateral() -> None:
    summary = summary_of({"a": (((1, 4), (2, 4)), ((1, 4),))}, job("a", 4, 1, 2))
    assert summary["preemptions"] == 0
    assert summary["collateral_damage_pct"] == 0.0
    assert summary["scaling_operations"] == 2  # at its start, and when the server went back


def test_a_service_that_needs_what_is_on_loan_is_short() -> None:
    service = InferenceService(2, (0.0, 300.0, 600.0), (0.0, 0.4, 0.9))

    class LendsAll(TwoLoans):
        def decide(self, snapshot: Snapshot) -> Sequence[Action]:
            pool, inference = snapshot.pools["training"], snapshot.pools["inference"]
            loans: list[Action] = [Loan(inference, pool, node) for node in (0, 1) if len(pool.guests) < 2]
            return loans or [
                Start(job, Placement.of([(0, 8)]))
                for job in list(pool.queue)[:1]
                if pool.free.on_node(0) == 8
            ]

    jobs = (job("a", 8), Job("last", "training", None, 8, 900.0, 60.0, workers=Workers(8, 1, 1)))
    simulation = Simulation(
        Scenario(Workload(jobs, {}), ClusterSpec({"training": 1}), companions=(service,)), LendsAll({})
    )
    simulation.run()
    assert simulation.result().summary["inference_short_pct"] == pytest.approx(100 * 2 / 3)


def test_a_state_hands_over_what_was_counted() -> None:
    last = Job("c", "training", None, 8, 1000.0, 60.0, workers=Workers(8, 1, 1, loanable=True))
    jobs = (job("a", 8), job("b", 4), last)
    service = InferenceService(4, (0.0,), (0.25,), loaned_workers_per_worker=1)
    placements = {"a": (((0, 8),), ()), "b": (((2, 4),), ())}
    scenario = Scenario(Workload(jobs, {}), ClusterSpec({"training": 1}), companions=(service,))
    whole = Simulation(scenario, TwoLoans(placements))
    whole.run()
    part = Simulation(scenario, TwoLoans(placements))
    part.run(700.0)
    later = Workload(jobs[2:], {})
    on = Simulation(
        Scenario(later, part.cluster, companions=(service,), initial=part.state()), TwoLoans(placements)
    )
    on.run()
    names = ("training_usage_pct", "on_loan_usage_pct", "reclaims", "servers_on_loan_mean", "jobs_on_loan")
    counted = on.result().summary
    assert {name: counted[name] for name in names} == {
        name: pytest.approx(whole.result().summary[name]) for name in names
    }
