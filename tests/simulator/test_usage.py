"""Usage over time adds up to the jobs table, and its means over bins to itself."""

import numpy as np
import pytest

from pipeline.replay.figures import draw_figures, usage_over_time
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.conformance import sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy
from simulator.recorder import together
from simulator.recorders.timeline import TimelineRecorder
from simulator.recorders.usage import Usage, UsageRecorder, binned
from simulator.recorders.waiting import WaitRecorder
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario


def observed(policy, shape="burst"):
    workload, cluster = sample_workload(shape, seed=9, jobs=80)
    recorder = UsageRecorder()
    simulation = Simulation(Scenario(workload, cluster), load_policy(policy), name=policy, recorder=recorder)
    simulation.run()
    return recorder.usage(), simulation.result(), cluster


@pytest.mark.parametrize("policy", ["fifo", "tiresias", "lucid"])
def test_areas_are_held_and_waited_time(policy):
    usage, result, cluster = observed(policy)
    spans = np.diff(usage.at_s)
    assert (spans > 0).all()
    assert usage.gpus_in_use[-1] == usage.waiting_jobs[-1] == usage.waiting_gpus[-1] == 0
    assert usage.gpus_in_use.max() <= cluster.total_gpus
    makespan_s = result.summary["makespan_s"]
    held = (usage.gpus_in_use[:-1] * spans).sum()
    assert 100 * held / (cluster.total_gpus * makespan_s) == pytest.approx(result.summary["utilisation_pct"])
    jobs = result.jobs
    assert (usage.waiting_jobs[:-1] * spans).sum() == pytest.approx(jobs["queuing_delay_s"].sum())
    waited_gpu_s = (jobs["queuing_delay_s"] * jobs["gpus"]).sum()
    assert (usage.waiting_gpus[:-1] * spans).sum() == pytest.approx(waited_gpu_s)


def test_means_over_bins():
    usage = Usage(np.array([0.0, 10.0, 30.0]), np.array([4.0, 2.0, 1.0]), np.zeros(3), np.zeros(3))
    edges = np.array([0.0, 5.0, 20.0, 40.0, 50.0])
    assert binned(usage.at_s, usage.gpus_in_use, edges).tolist() == pytest.approx([4.0, 40 / 15, 1.5, 1.0])
    empty = Usage(np.empty(0), np.empty(0), np.empty(0), np.empty(0))
    assert binned(empty.at_s, empty.gpus_in_use, edges).tolist() == [0, 0, 0, 0]


@pytest.mark.slow
def test_the_plot_shows_the_clusters_size_as_it_changes(tmp_path):
    usage, result, cluster = observed("fifo")
    changes = [SizeChange(100.0, "a", 20), NodeFailure(5.0, "a", 0, 9.0), SizeChange(50.0, "b", 0)]
    figure = usage_over_time({"fifo": usage}, cluster, changes)
    size = figure.axes[0].get_lines()[-1]
    assert size.get_ydata().tolist() == [168, 104, 168, 168]
    files = draw_figures({"fifo": result}, tmp_path, usage={"fifo": usage}, cluster=cluster)
    assert [file.name for file in files] == [
        "jct_cdf.png",
        "queuing_cdf.png",
        "queuing_delay_by_virtual_cluster.png",
        "usage.png",
    ]
    assert all(file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for file in files)


def test_watching_changes_nothing(tmp_path):
    workload, cluster = sample_workload("loaded", seed=9, jobs=60)
    for policy in ("fifo", "srtf", "lucid"):
        plain = simulate(Scenario(workload, cluster), policy).jobs
        with (tmp_path / "timeline.json").open("w") as file:
            recorder = together([UsageRecorder(), WaitRecorder(), TimelineRecorder(file)])
            simulation = Simulation(Scenario(workload, cluster), load_policy(policy), recorder=recorder)
            simulation.run()
        assert simulation.result().jobs.equals(plain)


def test_together_is_no_more_than_needed():
    one = UsageRecorder()
    assert together([]) is None
    assert together([one]) is one
