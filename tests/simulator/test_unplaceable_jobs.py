"""A job larger than its virtual cluster is at present stands in no other's way, whatever the policy."""

import json

import pytest

from pipeline.replay.report import write_results
from simulator.cluster.changes import SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, check_work, sample_workload
from simulator.policies.registry import load_policy, policy_names
from simulator.recorders.wait_clocks import CAUSE_COLUMNS
from simulator.recorders.waiting import WaitRecorder
from simulator.recorders.waiting_text import explain_wait, rows_of_job
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload


def job(number, submit_s, gpus, duration_s, **more):
    estimate_s = float(duration_s)
    return Job(str(number), "vc", "u", gpus, float(submit_s), estimate_s, estimate_s, number, **more)


JOBS = Workload((job(0, 0, 16, 100), job(1, 10, 16, 100), job(2, 60, 4, 100)), {})


def ends(result):
    return result.jobs["end_time_s"].fillna(-1).tolist()


@pytest.mark.parametrize("policy", ["fifo", "sjf", "qssf", "easy"])
def test_smaller_jobs_go_on_while_it_waits_for_the_virtual_cluster_to_grow_again(policy):
    shrinks = simulate(Scenario(JOBS, ClusterSpec({"vc": 2}), changes=[SizeChange(50, "vc", 1)]), policy)
    assert ends(shrinks) == [100, -1, 200]
    assert (shrinks.summary["jobs"], shrinks.summary["outgrown_jobs"]) == (2, 1)
    assert shrinks.jobs["state"].tolist() == ["completed", "pending", "completed"]
    regrows = [SizeChange(50, "vc", 1), SizeChange(500, "vc", 2)]
    again = simulate(Scenario(JOBS, ClusterSpec({"vc": 2}), changes=regrows), policy)
    assert ends(again) == [100, 600, 200]
    assert again.jobs["queuing_delay_s"][1] == 490


def test_a_job_that_comes_too_early_waits_beside_the_queue():
    result = simulate(Scenario(JOBS, ClusterSpec({"vc": 1}), changes=[SizeChange(300, "vc", 2)]), "fifo")
    assert ends(result) == [400, 500, 160]


def test_a_job_may_be_withdrawn_while_it_is_held():
    jobs = Workload((job(0, 0, 16, 100, cancel_time_s=70.0, withdrawn=True), job(1, 10, 8, 100)), {})
    changes = [SizeChange(900, "vc", 2)]
    recorder = WaitRecorder()
    result = simulate(Scenario(jobs, ClusterSpec({"vc": 1}), changes=changes), "fifo", recorder=recorder)
    assert result.jobs["state"].tolist() == ["cancelled", "completed"]
    assert ends(result) == [70, 110]
    assert recorder.table(result)["waited_for_gpus_s"].tolist() == [70, 0]


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("shape", ["loaded", "gangs"])
def test_every_policy_completes_what_fits_when_sizes_swing(policy, shape):
    workload, cluster = sample_workload(shape, seed=11, jobs=80)
    swings = [
        (300, "a", 2),
        (900, "b", 1),
        (2_000, "a", 12),
        (2_500, "b", 8),
        (6_000, "a", 1),
        (9_000, "b", 0),
    ]
    changes = [SizeChange(float(at_s), name, nodes) for at_s, name, nodes in swings]
    recorder = WaitRecorder()
    simulation = AuditedSimulation(
        Scenario(workload, cluster, changes=changes), load_policy(policy), name=policy, recorder=recorder
    )
    simulation.run()
    result = simulation.result()
    jobs = result.jobs
    left = jobs[jobs["state"] == "pending"]
    assert len(left) == result.summary["outgrown_jobs"]
    finally_there = {"a": 8, "b": 0, "c": 8}
    pairs = zip(left["gpus"], left["virtual_cluster"], strict=True)
    assert all(gpus > finally_there[name] for gpus, name in pairs)
    assert len(left) > 0 or shape == "loaded"
    done = (jobs["state"] == "completed").to_numpy()
    assert done.sum() + len(left) == len(jobs)
    check_work([view for view, ended in zip(simulation.jobs, done, strict=True) if ended], policy)
    waits = recorder.table(result)
    assert waits[list(CAUSE_COLUMNS.values())].sum(axis=1)[done].tolist() == pytest.approx(
        jobs["queuing_delay_s"][done].tolist()
    )


def test_files_and_words_say_that_it_still_waits(tmp_path):
    recorder = WaitRecorder()
    changes = [SizeChange(50, "vc", 1)]
    result = simulate(Scenario(JOBS, ClusterSpec({"vc": 2}), changes=changes), "fifo", recorder=recorder)
    assert result.jobs["jct_s"].isna().tolist() == [False, True, False]
    summary = json.loads(write_results({"fifo": result}, tmp_path)[1].read_text())[0]
    assert summary["virtual_clusters"][0]["jobs"] == summary["jobs"] == 2
    row = rows_of_job(recorder.table(result), "1")[0]
    assert explain_wait(row) == [
        "1 (16 GPUs, virtual cluster vc) still waits: its virtual cluster has become too small for it."
    ]
