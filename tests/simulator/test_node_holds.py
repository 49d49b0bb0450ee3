"""Nodes held for a gang are those that a look at each node and each running job would choose."""

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cluster.node_bits import nodes_of
from simulator.cluster.placement import free_gpus
from simulator.job_view import JobView, RunState
from simulator.mechanisms.node_holds import NodeHolds, choose_nodes, expected_remaining_s
from simulator.snapshot import NodePool
from simulator.workload.job import Job


def job(index, gpus, estimate_s=100.0):
    return JobView(Job(f"j{index}", "vc", "user", gpus, 0.0, 1e6, float(estimate_s)), index)


def free_at_s(node, needed, pool, now_s):
    free, at_s = pool.free.on_node(node), now_s
    ends = [
        (now_s + expected_remaining_s(each, now_s), dict(each.placement)[node])
        for each in pool.running
        if node in dict(each.placement)
    ]
    for ends_s, gpus in sorted(ends):
        if free >= needed:
            break
        free, at_s = free + gpus, ends_s
    return at_s if free >= needed else inf


def plain_choice(gang, pool, now_s, taken):
    """Each node by when it has enough, until there are enough nodes."""
    sizes = [pool.free.size_of(node) for node in range(pool.free.nodes)]
    allowed = [node for node in range(len(sizes)) if gang.nodes is None or gang.nodes >> node & 1]
    split = gang.gpus > max((sizes[node] for node in allowed), default=0)
    ready = sorted(
        (free_at_s(node, min(sizes[node], gang.gpus), pool, now_s), node)
        for node in allowed
        if pool.free.is_present(node) and node not in taken and (split or sizes[node] >= gang.gpus)
    )
    chosen, lacking = [], gang.gpus
    for at_s, node in ready:
        chosen.append(node)
        lacking -= sizes[node]
        if lacking <= 0:
            return chosen, at_s
    return None


@settings(max_examples=200)
@given(
    sizes=st.lists(st.sampled_from([4, 8]), min_size=1, max_size=7)
    | st.builds(lambda n: [8] * n, st.integers(1, 7)),
    running=st.lists(st.tuples(st.integers(1, 20), st.sampled_from([10, 60, 60, 400])), max_size=10),
    gang=st.integers(1, 40),
    among=st.none() | st.integers(0, 127),
    taken=st.sets(st.integers(0, 6), max_size=2),
    gone=st.integers(0, 20),
)
def test_the_nodes_that_are_expected_to_be_free_first(sizes, running, gang, among, taken, gone):
    pool = NodePool("vc", free_gpus(sizes, 8))
    for index, (gpus, estimate_s) in enumerate(running):
        placement = pool.free.place(gpus)
        if placement is not None:
            each = job(index, gpus, estimate_s)
            each.state, each.placement, each.start_time_s = RunState.RUNNING, placement, 0.0
            each.run_since_s = 0.0
            pool.running[each] = None
    if gone < len(sizes):
        pool.free.withdraw(gone)
    waits = job(99, gang)
    waits.nodes = among
    expected = plain_choice(waits, pool, 50.0, taken)
    found = choose_nodes(waits, pool, 50.0, sum(1 << node for node in taken))
    if found is None:
        assert expected is None
        return
    assert [node for group in found.groups for node in nodes_of(group)] == expected[0]
    assert found.free_at_s == expected[1]
    assert nodes_of(found.nodes) == sorted(expected[0])
    holds, plan = NodeHolds(), pool.plan()
    holds.hold(waits, pool, plan, 50.0)
    held = {node: holds.until_s[node] for node in holds.until_s}
    assert list(held.values()) == [holds.until_s.get(node) for node in held]
    assert holds.idle_gpus == sum(pool.free.on_node(node) for node in held)
    assert not any(map(plan.is_present, held))
