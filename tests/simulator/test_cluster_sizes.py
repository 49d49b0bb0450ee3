"""Sizes over time become a first size and changes; a replay follows them."""

import numpy as np
import pandas as pd
import pytest

from cluster_logs.ingest import read_jobs_file
from foundation.errors import BadInputError
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.cluster_sizes import changing_cluster, mean_gpus, with_room_for
from simulator.workload.job import Job
from simulator.workload.node_failures import longest_run_s, random_failures
from simulator.workload.workload import Workload
from tests.reference import ROOT

ORIGIN = pd.Timestamp("2020-05-02 06:00", tz="UTC")


def sizes(*rows, gpus_per_node=8):
    frame = pd.DataFrame(rows, columns=["virtual_cluster", "from_time", "nodes"])
    return frame.assign(
        from_time=pd.to_datetime(frame["from_time"], utc=True, format="ISO8601"), gpus_per_node=gpus_per_node
    )


def test_what_holds_at_second_0_and_what_comes_later():
    spec, changes = changing_cluster(
        sizes(
            ("a", "2020-05-03", 7),
            ("a", None, 1),
            ("a", "2020-05-01", 4),
            ("late", "2020-05-04", 2),
            ("a", "2020-05-05", 7),
            ("gone", None, 3),
            ("gone", "2020-05-02 06:00:01", 0),
        ),
        ORIGIN,
        cpu_cores_per_node=12,
    )
    assert spec == ClusterSpec({"a": 4, "late": 0, "gone": 3}, 8, {}, 12)
    assert changes == (
        SizeChange(1.0, "gone", 0),
        SizeChange(18 * 3600.0, "a", 7),
        SizeChange(42 * 3600.0, "late", 2),
    )


def test_what_a_table_says_first_holds_before():
    spec, changes = changing_cluster(sizes(("a", "2020-06-01", 5), ("a", "2020-06-02", 6)), ORIGIN)
    assert spec.virtual_clusters == {"a": 5}
    assert [change.nodes for change in changes] == [6]


def test_nodes_of_different_sizes_keep_them_unless_treated_alike():
    mixed = sizes(("a", None, 3), ("a", None, 1), ("b", None, 1)).assign(gpus_per_node=[4, 8, 4])
    spec, changes = changing_cluster(mixed, ORIGIN)
    assert (spec.sizes("a"), spec.sizes("b"), changes) == ((4, 4, 4, 8), (4,), ())
    assert (spec.nodes, spec.total_gpus, spec.gpus_per_node) == (5, 24, 8)
    alike = sizes(("a", None, 1), ("b", None, 1)).assign(gpus_per_node=[4, 8])
    assert changing_cluster(alike, ORIGIN, gpus_per_node=8)[0].total_gpus == 16


def test_equal_nodes_of_a_size_of_their_own_may_change_in_number_and_others_may_not():
    growing = sizes(("a", None, 3), ("b", None, 1), ("b", "2020-06-02", 5)).assign(gpus_per_node=[8, 4, 4])
    spec, changes = changing_cluster(growing, ORIGIN)
    assert [change.nodes for change in changes] == [5]
    assert mean_gpus(spec, changes, changes[0].at_s, changes[0].at_s + 10) == 3 * 8 + 5 * 4
    unequal = sizes(("b", None, 1), ("b", None, 1), ("b", "2020-06-02", 5)).assign(gpus_per_node=[8, 4, 4])
    with pytest.raises(BadInputError, match="change at 2020-06-02"):
        changing_cluster(unequal, ORIGIN)
    same = sizes(("b", None, 1), ("b", None, 2), ("b", "2020-06-02", 2), ("b", "2020-06-02", 1))
    assert changing_cluster(same.assign(gpus_per_node=[8, 4, 4, 8]), ORIGIN)[1] == ()


def test_failures_are_seeded_rare_as_asked_and_each_nodes_own():
    cluster = ClusterSpec({"a": 40, "b": 10})
    year_s = 365 * 86_400.0
    drawn = random_failures(cluster, mtbf_hours=200, repair_hours=20, until_s=year_s, seed=7)
    assert drawn == random_failures(cluster, mtbf_hours=200, repair_hours=20, until_s=year_s, seed=7)
    assert drawn != random_failures(cluster, mtbf_hours=200, repair_hours=20, until_s=year_s, seed=8)
    # 50 nodes, a failure each 220 hours of a year's 8,760: 1,991 of them, give or take their root.
    assert abs(len(drawn) - 50 * 8760 / 220) < 4 * (50 * 8760 / 220) ** 0.5
    assert np.mean([failure.down_s for failure in drawn]) == pytest.approx(20 * 3600, rel=0.1)
    assert [failure.at_s for failure in drawn] == sorted(failure.at_s for failure in drawn)
    by_node = {}
    for failure in drawn:
        up_again_s = by_node.get((failure.virtual_cluster, failure.node), 0.0)
        assert failure.at_s >= up_again_s, "a node that is down does not fail"
        by_node[failure.virtual_cluster, failure.node] = failure.at_s + failure.down_s
    fewer = random_failures(ClusterSpec({"b": 9}), mtbf_hours=200, repair_hours=20, until_s=year_s, seed=7)
    assert set(fewer) == {f for f in drawn if f.virtual_cluster == "b" and f.node < 9}


@pytest.mark.parametrize("hours", [(0, 4), (100, 0), (float("inf"), 4)])
def test_hours_must_be_positive(hours):
    with pytest.raises(BadInputError):
        random_failures(ClusterSpec({"a": 1}), mtbf_hours=hours[0], repair_hours=hours[1], until_s=9.0)


@pytest.mark.reference
def test_philly_as_its_cluster_changed():
    """Philly's own count of nodes: 420, 552 on 1 and 2 November 2017, 174 for an hour on the 5th.

    A tenth of them, so that the jobs of those days wait.
    """
    data = ROOT / "data" / "philly"
    zone = "US/Pacific"
    minutes = pd.read_csv(data / "philly_node_sequence.csv.gz")
    minutes["time"] = pd.to_datetime(minutes["time"]).dt.tz_localize(zone, ambiguous=True)
    minutes = minutes[minutes["total"] > 100]
    changed = minutes[minutes["total"].ne(minutes["total"].shift())]
    assert changed["total"].tolist() == [420, 552, 420, 174, 420]
    table = pd.DataFrame(
        {
            "virtual_cluster": "all",
            "from_time": changed["time"].dt.tz_convert("UTC"),
            "nodes": changed["total"] // 10,
            "gpus_per_node": 8,
        }
    )
    jobs, _ = read_jobs_file(str(data / "philly_jobs.csv.gz"), "philly-csv")
    first = pd.Timestamp("2017-10-28", tz=zone)
    chosen = jobs[(jobs["submit_time"] >= first) & (jobs["submit_time"] < first + pd.Timedelta(days=10))]
    workload = Workload.from_jobs(chosen).in_one_virtual_cluster("all")
    spec, changes = changing_cluster(table, workload.origin)
    assert spec.virtual_clusters == {"all": 42}
    assert [change.nodes for change in changes] == [55, 42, 17, 42]
    assert changes[0].at_s == (pd.Timestamp("2017-11-01", tz=zone) - workload.origin).total_seconds()

    replayed = simulate(Scenario(workload, spec, changes=changes), "sjf")
    steady = simulate(Scenario(workload, spec), "sjf")
    for result in (replayed, steady):
        assert result.summary["jobs"] + sum(result.summary["skipped"].values()) == len(chosen)
        assert result.summary["preemptions"] == 0, "nodes that leave are drained"
    # Two days with a third more nodes are worth more than an hour with a few.
    assert replayed.summary["mean_queuing_delay_s"] < steady.summary["mean_queuing_delay_s"]
    # Utilisation is of the GPUs that there were, counted from the minutes themselves.
    done = replayed.jobs
    held_gpu_s = float((done["duration_s"] * done["gpus"]).sum())
    end = workload.origin + pd.Timedelta(seconds=float(done["end_time_s"].max()))
    present = minutes[(minutes["time"] >= workload.origin) & (minutes["time"] < end)]["total"] // 10 * 8
    share = 100 * held_gpu_s / (float(present.mean()) * replayed.summary["makespan_s"])
    assert replayed.summary["utilisation_pct"] == pytest.approx(share, rel=2e-3)


def test_the_time_for_which_failures_are_drawn_covers_a_loaded_replay():
    rows = pd.DataFrame(
        {
            "job_id": [str(i) for i in range(30)],
            "virtual_cluster": "a",
            "gpus": 8,
            "submit_time": [f"2020-01-01 00:00:{i:02d}" for i in range(30)],
            "duration_s": 1000.0,
        }
    )
    workload = Workload.from_jobs(rows)
    cluster = ClusterSpec({"a": 2})
    result = simulate(Scenario(workload, cluster), "fifo")
    assert longest_run_s(workload, cluster) >= result.jobs["end_time_s"].max()
    assert longest_run_s(Workload((), {}), cluster) == 0.0


def test_what_shrinks_keeps_room_for_its_jobs():
    jobs = [Job("a", "x", None, 20, 0.0, 5.0, 5.0), Job("b", "x", None, 40, 100.0, 5.0, 5.0, order=1)]
    failure = NodeFailure(60.0, "x", 0, 5.0)
    changes = (
        SizeChange(50.0, "x", 1),
        failure,
        SizeChange(150.0, "x", 3),
        SizeChange(200.0, "x", 30),
        SizeChange(250.0, "x", 0),
        SizeChange(250.0, "unused", 0),
    )
    cluster = ClusterSpec({"x": 10, "unused": 4})
    kept = with_room_for(jobs, cluster, changes, spare_nodes=1)
    # 20 GPUs need 3 nodes and 40 need 5; a fourth and a sixth are spare; none are added to what there was.
    assert [getattr(change, "nodes", None) for change in kept] == [4, None, 4, 30, 6, 0]
    assert kept[1] is failure
    workload = Workload(tuple(jobs), {})
    assert (
        simulate(Scenario(workload, cluster, changes=with_room_for(jobs, cluster, changes)), "lucid").summary[
            "outgrown_jobs"
        ]
        == 0
    )


def test_mean_size_over_a_window():
    cluster = ClusterSpec({"a": 1, "b": 2}, 4)
    changes = (SizeChange(10.0, "a", 3), NodeFailure(11.0, "a", 0, 1.0), SizeChange(30.0, "b", 0))
    assert mean_gpus(cluster, changes, 0.0, 10.0) == 12
    assert mean_gpus(cluster, changes, 10.0, 30.0) == 20
    assert mean_gpus(cluster, changes, 0.0, 40.0) == (12 * 10 + 20 * 20 + 12 * 10) / 40
    assert mean_gpus(cluster, changes, 100.0, 200.0) == 12
    assert mean_gpus(cluster, (), 5.0, 5.0) == 12


@pytest.mark.parametrize(
    ("nodes", "gpus_per_node", "said"),
    [(10**9, 1, "1,000,000,000 nodes"), (1, 10**23, "10{23} GPUs"), (1, 0, "has 0 GPUs")],
)
def test_a_size_with_some_digits_too_many_is_refused(nodes, gpus_per_node, said):
    with pytest.raises(BadInputError, match=said):
        ClusterSpec({"a": nodes}, gpus_per_node)
