"""The rules beside worked examples and decisions of simulated fortnights."""

import pytest

from simulator.loaning.orchestrator import servers_to_lend, share_of_servers
from simulator.loaning.reclaiming import choose_reclaim
from simulator.loaning.settings import LoanSettings
from simulator.worker_scaling.base_demand import BaseDemand, choose_starts, pools_of
from simulator.worker_scaling.knapsack import WorkerGroup, choose_workers
from simulator.worker_scaling.server_pools import ServerPool
from simulator.worker_scaling.worker_placement import (
    PlacementPlan,
    ServerRoom,
    WorkerDemand,
    WorkerKind,
    place_workers,
)
from tests.simulator.loaning.lyra_reference import examples, reclaim_decisions, servers_of

pytestmark = pytest.mark.reference


def test_reclaims() -> None:
    for example in examples("reclaim"):
        servers, need = servers_of(example), example["need"]
        choice = choose_reclaim(servers, need, "reference")
        assert list(choice.picks) == example["reference_picks"], example["name"]
        assert sorted(choice.preempted) == example["reference_preempted"]
        assert choice.collateral_gpus == example["reference_collateral_gpus"]
        for rule, expected in (("scf", "scf_preempted"), ("exact", "optimum_preempted")):
            assert len(choose_reclaim(servers, need, rule).preempted) == example[expected], example["name"]


def test_decisions_of_simulated_fortnights() -> None:
    decisions = reclaim_decisions()
    greedy = 0
    for decision in decisions:
        servers, need = servers_of(decision), decision["need"]
        choice = choose_reclaim(servers, need, "reference")
        assert list(choice.picks) == decision["reference_picks"]
        assert choice.collateral_gpus == decision["reference_collateral_gpus"]
        exact = choose_reclaim(servers, need)
        assert exact.optimal
        assert len(exact.preempted) == decision["optimum_preempted"]
        greedy += len(choose_reclaim(servers, need, "greedy").preempted)
    assert greedy <= 1.02 * sum(decision["optimum_preempted"] for decision in decisions)


def test_loans() -> None:
    for example in examples("loan"):
        settings = LoanSettings(headroom=example["headroom"])
        servers, on_loan = example["inference_servers"], 0
        for tick in example["ticks"]:
            needed = share_of_servers(tick["usage"], servers)
            assert needed == tick["servers_for_inference"]
            now = servers_to_lend(servers, needed, on_loan, settings)
            assert (now, now - on_loan) == (tick["on_loan"], tick["change"])
            on_loan = now


def test_knapsacks() -> None:
    for example in examples("knapsack"):
        groups = [WorkerGroup(group["gpus_per_worker"], group["values_s"]) for group in example["groups"]]
        choice = choose_workers(groups, example["capacity_gpus"])
        # The values of up to 86 groups are rounded to 1e-6 s, and so is their sum.
        assert choice.value == pytest.approx(example["best_value_s"], abs=1e-5)
        assert choice.gpus == example["gpus_used"]
        assert list(choice.extra_workers) == example["extra_workers"], example["name"]


def test_phase_1() -> None:
    for example in examples("phase1"):
        queue = sorted(
            example["pending"], key=lambda job: (job["min_run_time_s"], job["submit_s"], job["id"])
        )
        demands = [
            BaseDemand(
                job["id"],
                job["workers_min"] * job["gpus_per_worker"],
                pools_of(loanable=job["fungible"], grows=job["elastic"]),
            )
            for job in queue
        ]
        free = {
            ServerPool.TRAINING: example["free_training_gpus"],
            ServerPool.ON_LOAN: example["free_on_loan_gpus"],
        }
        chosen = choose_starts(demands, free, example["loaned_workers_per_worker"])
        assert [list(start) for start in chosen.starts] == example["starts"]
        assert chosen.left_gpus == example["left"]


def test_placements() -> None:
    for example in examples("placement"):
        plan = PlacementPlan(
            ServerRoom(
                server["id"],
                ServerPool.TRAINING if server["role"] == "training" else ServerPool.ON_LOAN,
                server["free_gpus"],
                has_base=server["role"] == "base",
                has_flexible=server["role"] == "flexible",
            )
            for server in example["servers"]
        )
        demands = [
            WorkerDemand(
                job["id"],
                job["gpus_per_worker"],
                job["workers"],
                WorkerKind(job["kind"]),
                (ServerPool(job["pool"]),),
            )
            for job in example["jobs"]
        ]
        placed = place_workers(plan, demands)
        for job, servers in example["placements"]:
            assert list(placed.get(job, (None, ()))[1]) == servers
        assert {str(server["id"]): plan.free_on(server["id"]) for server in example["servers"]} == example[
            "free_after"
        ]
