"""Placement on nodes that differ in size or are shared: never over capacity, on few nodes, and on equal nodes
as before.
"""

from dataclasses import replace
from itertools import combinations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.cluster.placement import free_gpus, lies_within, nodes_in
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import SHARED, audited, sample_workload
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload
from tests.policies import installed_policies

# (what to do, GPUs or node, bits of the nodes that may be used)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "place", "give", "withdraw", "restore"]),
        st.integers(1, 20),
        st.none() | st.integers(0, 2**7 - 1),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6), steps=STEPS)
def test_no_node_is_over_capacity_and_gangs_take_few_allowed_nodes(sizes, steps):
    free = free_gpus(sizes, 8)
    used, placed, gone = [0] * len(sizes), [], set()
    for what, number, among in steps:
        if what == "place":
            placement = free.find(number, among)
            allowed = [node for node in nodes_in(among, len(sizes)) if node not in gone]
            left = {node: sizes[node] - used[node] for node in allowed}
            check_place(placement, number, among, sizes, left)
            if placement is not None:
                free.take(placement)
                placed.append(placement)
                for node, gpus in placement:
                    used[node] += gpus
        elif what == "give" and placed:
            placement = placed.pop(number % len(placed))
            free.give(placement)
            for node, gpus in placement:
                used[node] -= gpus
        elif what == "withdraw":
            free.withdraw(number % len(sizes))
            gone.add(number % len(sizes))
        elif what == "restore":
            free.restore(number % len(sizes))
            gone.discard(number % len(sizes))
        assert [free.on_node(node) for node in range(len(sizes))] == [
            size - use for size, use in zip(sizes, used, strict=True)
        ]
        assert free.total == sum(
            size - use for node, (size, use) in enumerate(zip(sizes, used, strict=True)) if node not in gone
        )
        assert free.copy().per_node() == free.per_node()


def check_place(placement, gpus, among, sizes, left):
    """Check a place by counting through all: `left` are the free GPUs of the nodes that may be used."""
    one_could = any(sizes[node] >= gpus for node in nodes_in(among, len(sizes)))
    if one_could:
        fits = [node for node, free in left.items() if free >= gpus]
        assert (placement is not None) == bool(fits)
        if placement is not None:
            assert placement == ((min(fits, key=lambda node: (left[node], node)), gpus),)
        return
    # Whole idle nodes, and one more: the fewest that carry it.
    idle = [node for node, free in left.items() if free == sizes[node] and free]
    fewest = None
    for count in range(len(idle) + 1):
        for whole in combinations(idle, count):
            rest = gpus - sum(sizes[node] for node in whole)
            if rest <= 0 or any(free >= rest for node, free in left.items() if node not in whole):
                fewest = count + (rest > 0) if fewest is None else min(fewest, count + (rest > 0))
        if fewest is not None:
            break
    assert (placement is None) == (fewest is None)
    if placement is not None:
        assert len(placement) == fewest
        assert sum(taken for _, taken in placement) == gpus
        assert lies_within(placement, among)
        assert all(taken <= left[node] for node, taken in placement)


NODES = pd.DataFrame(
    {
        "node": ["n1", "n2", "n3"],
        "virtual_cluster": ["gpu", "gpu", "long"],
        "nodes": 1,
        "gpus_per_node": [8, 4, 4],
        "partitions": ["gpu,long", "gpu,long", None],
    }
)


def jobs(*rows):
    return Workload(
        tuple(
            Job(
                job_id=name,
                virtual_cluster=home,
                gpus=gpus,
                submit_time_s=float(at_s),
                duration_s=100.0,
                estimated_duration_s=100.0,
                user="u",
                order=number,
            )
            for number, (name, home, gpus, at_s) in enumerate(rows)
        ),
        skipped={},
    )


def starts(workload, cluster, policy):
    replayed = simulate(Scenario(workload, cluster), load_policy(policy)).jobs
    return dict(zip(replayed["job_id"], replayed["first_start_time_s"], strict=True))


def test_shared_nodes_are_one_pool_in_which_each_gpu_counts_once():
    cluster = ClusterSpec.from_nodes(NODES)
    assert cluster.virtual_clusters == {"gpu+long": 3}
    assert (cluster.nodes, cluster.total_gpus, cluster.names) == (3, 16, ("gpu", "long"))
    assert (cluster.open_sizes("gpu"), cluster.open_sizes("long")) == ((8, 4), (8, 4, 4))
    assert cluster.masks("gpu+long") == {"gpu": 0b011, "long": 0b111}
    assert cluster.home_of("long") == "gpu+long"


@pytest.mark.parametrize("policy", ["fifo", "sjf", "qssf", "easy", "tsafrir_easy", "fair_share", "clarity"])
def test_jobs_of_two_partitions_compete_for_the_nodes_that_both_have(policy):
    workload = jobs(("a", "gpu", 8, 0), ("b", "long", 4, 1), ("c", "long", 4, 2), ("d", "gpu", 4, 3))
    began_s = starts(workload, ClusterSpec.from_nodes(NODES), policy)
    # a has n1, b n2 (the lowest index), c n3; d may not have n3 and waits for n1 or n2.
    assert began_s == {"a": 0, "b": 1, "c": 2, "d": 100}


def test_in_order_a_job_that_waits_holds_back_its_own_nodes_only():
    workload = jobs(("a", "gpu", 4, 0), ("big", "gpu", 12, 1), ("c", "gpu", 1, 2), ("d", "long", 4, 3))
    began_s = starts(workload, ClusterSpec.from_nodes(NODES), "fifo")
    assert began_s == {"a": 0, "big": 100, "c": 200, "d": 3}


def test_backfilling_reserves_no_node_that_the_head_may_not_use():
    # gpu's head needs n1, which is in use until 100; a long job on n3 does not get in its way.
    workload = jobs(("a", "gpu", 8, 0), ("head", "gpu", 8, 1), ("c", "long", 4, 2), ("d", "long", 4, 3))
    began_s = starts(workload, ClusterSpec.from_nodes(NODES), "easy")
    assert began_s == {"a": 0, "head": 100, "c": 2, "d": 3}


def test_a_job_larger_than_its_partition_is_left_out_though_its_pool_could_hold_it():
    workload = jobs(("a", "gpu", 12, 0), ("b", "gpu", 13, 0), ("c", "long", 16, 0), ("d", "none", 1, 0))
    kept = workload.that_fit(ClusterSpec.from_nodes(NODES))
    assert [job.job_id for job in kept.jobs] == ["a", "c"]
    assert kept.skipped == {"bigger_than_virtual_cluster": 1, "unknown_virtual_cluster": 1}


@pytest.mark.parametrize("policy", installed_policies("afs", "gandiva", "pcs"))
def test_a_policy_that_knows_equal_nodes_only_says_so(policy):
    with pytest.raises(BadInputError, match="knows equal nodes only"):
        starts(jobs(("a", "gpu", 1, 0)), ClusterSpec.from_nodes(NODES), policy)


def test_a_job_preempts_on_its_own_nodes_only():
    long_s = {"c": 1_000.0, "d": 900.0}  # on n1 and n2, and on n3
    workload = jobs(("c", "gpu", 12, 0), ("d", "long", 4, 1), ("e", "gpu", 4, 2), ("f", "long", 4, 3))
    workload = replace(
        workload, jobs=tuple(job.lasting(long_s.get(job.job_id, 100.0)) for job in workload.jobs)
    )
    began_s = starts(workload, ClusterSpec.from_nodes(NODES), "srtf")
    # e may not have n3, so it preempts c; f finds what c left.
    assert began_s == {"c": 0, "d": 1, "e": 2, "f": 3}


@pytest.mark.parametrize("policy", ["clarity", "lucid"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_jobs_share_gpus_on_nodes_that_both_may_use(policy, seed):
    workload, _ = sample_workload("burst", seed, jobs=250)
    _, cluster = sample_workload(SHARED, seed, jobs=1)
    replayed = audited(Scenario(workload, cluster), load_policy(policy), name=policy).jobs
    assert replayed["end_time_s"].notna().all()
    assert replayed["colocated"].any()


def test_nodes_of_one_size_without_names_are_named_once():
    twice = pd.DataFrame({"virtual_cluster": ["a", "a"], "nodes": [1, 2], "gpus_per_node": [8, 8]})
    with pytest.raises(BadInputError, match="a more than once"):
        ClusterSpec.from_nodes(twice)
    assert ClusterSpec.from_nodes(twice.assign(gpus_per_node=[8, 4])).sizes("a") == (8, 4, 4)
    assert ClusterSpec.from_nodes(twice.assign(node=["x", "y"])).nodes == 3
