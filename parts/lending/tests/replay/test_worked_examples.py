"""The rules beside worked examples and decisions of simulated fortnights."""

from typing import Any

import pytest

from parts.lending.replay.orchestrator import servers_to_lend, share_of_servers
from parts.lending.replay.reclaiming import choose_reclaim
from parts.lending.replay.settings import LoanSettings
from parts.lending.tests.replay.lyra_reference import examples, reclaim_decisions, servers_of
from parts.lending.workers.knapsack import WorkerGroup, choose_workers
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.worker_placement import PlacementPlan, WorkerKind
from parts.lending.workers.worker_policy import BaseRoom, pools_of
from simulator.cluster.placement import FreeGpus

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
        chosen = [(group, more) for group, more in zip(groups, choice, strict=True) if more]
        value_s = sum(group.values[more - 1] for group, more in chosen)
        assert value_s == pytest.approx(example["best_value_s"], abs=1e-5)
        assert sum(group.gpus_per_worker * more for group, more in chosen) == example["gpus_used"]
        assert list(choice) == example["extra_workers"], example["name"]


def test_phase_1() -> None:
    for example in examples("phase1"):
        queue = sorted(
            example["pending"], key=lambda job: (job["min_run_time_s"], job["submit_s"], job["id"])
        )
        free = {
            ServerPool.TRAINING: example["free_training_gpus"],
            ServerPool.ON_LOAN: example["free_on_loan_gpus"],
        }
        room = BaseRoom(free, example["loaned_workers_per_worker"])
        starts = []
        for job in queue:
            pools = pools_of(loanable=job["fungible"], grows=job["elastic"])
            taken = room.take(job["workers_min"] * job["gpus_per_worker"], pools)
            starts += [[job["id"], *taken]] if taken else []
        assert starts == example["starts"]
        assert room.left_gpus == example["left"]


def plan_of(servers: list[dict[str, Any]]) -> PlacementPlan:
    """A plan on servers whose number is their node's; nodes between them are full."""
    size = 1 + max(server["free_gpus"] for server in servers)
    free_gpus = {server["id"]: server["free_gpus"] for server in servers}
    flexible = [server["id"] for server in servers if server["role"] == "flexible"]
    free = FreeGpus(1 + max(free_gpus), size)
    for node in range(free.nodes):
        if node not in flexible:
            free.take(((node, size - free_gpus.get(node, 0)),))
    loaned = sum(1 << server["id"] for server in servers if server["role"] != "training")
    with_base = sum(1 << server["id"] for server in servers if server["role"] == "base")
    plan = PlacementPlan(free, loaned, with_base)
    for node in flexible:
        assert plan.take(node, WorkerKind.FLEXIBLE, size - free_gpus[node])
    return plan


def test_placements() -> None:
    for example in examples("placement"):
        plan = plan_of(example["servers"])
        placed: dict[Any, list[int]] = {}
        for job in sorted(example["jobs"], key=lambda job: (-job["gpus_per_worker"], -job["workers"])):
            pool, gpus = ServerPool(job["pool"]), job["gpus_per_worker"]
            if WorkerKind(job["kind"]) is WorkerKind.BASE:
                servers = plan.place_gang(pool, (gpus,) * job["workers"])
            else:
                servers = plan.place_flexible(pool, gpus, job["workers"])
            placed[job["id"]] = list(servers or ())
        for job_id, servers in example["placements"]:
            assert placed[job_id] == servers
        assert {str(server["id"]): plan.free_on(server["id"]) for server in example["servers"]} == example[
            "free_after"
        ]
