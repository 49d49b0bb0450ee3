"""Which nodes sleep and wake: never busy ones, partitions evened out, minima kept."""

import hypothesis.strategies as st
from hypothesis import given

from live_scheduler.cluster_state import LiveJob, PoweredNode, PowerState
from parts.node_sleep.live.choosing import (
    boots_for_jobs,
    choose_to_sleep,
    choose_to_wake,
    nodes_needed,
    nodes_short,
)
from parts.node_sleep.tests.live.sleeping_nodes import node

AWAKE, ASLEEP, BOOTING = PowerState.AWAKE, PowerState.ASLEEP, PowerState.BOOTING


def job(
    job_id: str, gpus: int, *, nodes: int = 1, reason: str = "Resources", partition: str = "vc1"
) -> LiveJob:
    return LiveJob(job_id, partition, partition, gpus, 0.0, nodes=nodes, reason=reason)


def test_nodes_sleep_where_most_are_idle_and_wake_where_jobs_are_short() -> None:
    nodes = [node(f"a{n}", AWAKE, "vc1") for n in range(1, 5)] + [node(f"b{n}", AWAKE, "vc2") for n in (1, 2)]
    assert choose_to_sleep(nodes, 3, {}, {}) == ["a4", "a3", "b2"]
    assert choose_to_sleep(nodes, 9, {}, {"vc1": 3, "vc2": 2}) == ["a4"]
    assert choose_to_sleep(nodes, 9, {"vc1": 7, "vc2": 1}, {}) == ["b2"]
    sleeping = [node(f"a{n}", ASLEEP, "vc1") for n in (1, 2, 10)] + [node("b1", ASLEEP, "vc2")]
    assert choose_to_wake(sleeping, 2, {"vc2": 1}, {}) == ["b1", "a1"]
    assert choose_to_wake(sleeping, 0, {}, {"vc1": 2}) == ["a1", "a2"]
    assert choose_to_wake(sleeping, 9, {}, {}, resting={"a1", "b1"}) == ["a2", "a10"]


nodes_of_any_kind = st.lists(
    st.builds(
        lambda power, partitions, busy: (power, partitions, busy),
        st.sampled_from(list(PowerState)),
        st.sampled_from([("vc1",), ("vc2",), ("vc1", "vc2")]),
        st.booleans(),
    ),
    max_size=12,
).map(lambda kinds: [node(f"n{at}", p, *ps, busy=busy) for at, (p, ps, busy) in enumerate(kinds)])


@given(nodes_of_any_kind, st.integers(0, 15), st.integers(0, 6))
def test_no_choice_touches_what_it_must_not(nodes: list[PoweredNode], count: int, least: int) -> None:
    by_name = {each.name: each for each in nodes}
    awake_in = {"vc1": least}
    asleep = choose_to_sleep(nodes, count, {}, awake_in)
    assert len(asleep) <= count
    assert len(set(asleep)) == len(asleep)
    assert all(by_name[name].may_sleep for name in asleep)
    left = sum(n.counts and n.power is AWAKE and "vc1" in n.partitions for n in nodes if n.name not in asleep)
    before = sum(n.counts and n.power is AWAKE and "vc1" in n.partitions for n in nodes)
    assert left >= min(before, least)
    woken = choose_to_wake(nodes, count, {}, awake_in)
    assert all(by_name[name].power is ASLEEP and not by_name[name].busy for name in woken)
    wakeable = sum(n.power is ASLEEP and n.counts and not n.busy for n in nodes)
    assert len(woken) >= min(count, wakeable)


def test_jobs_are_short_of_what_sleeps_in_their_partition_at_most() -> None:
    nodes = [
        node("n1", AWAKE, "vc1", busy=True),
        node("n2", AWAKE, "vc1"),
        node("n3", ASLEEP, "vc1"),
        node("n4", ASLEEP, "vc1"),
        node("m1", AWAKE, "vc2", busy=True),
    ]

    def short(*jobs: LiveJob) -> dict[str, int]:
        return nodes_short(nodes, nodes_needed(nodes, jobs))

    assert short(job("1", 4)) == {}  # n2 is idle
    assert short(*(job(str(number), 1) for number in range(8))) == {"vc1": 1}  # four jobs a node
    assert short(job("1", 40, nodes=10)) == {"vc1": 2}
    assert short(job("1", 8, nodes=2, reason="QOSGrpGRES")) == {}
    assert short(job("1", 4, partition="vc2"), job("2", 4, partition="gone")) == {}
    assert boots_for_jobs([*nodes, node("n5", BOOTING, "vc1", busy=True), node("n6", BOOTING, "vc1")]) == 1
