"""On the loaded week of Philly: the timeline and the waits add up to the jobs table, to the microsecond."""

import io
import json
from collections import Counter

import pytest

from cluster_logs.ingest import read_jobs_file
from simulator.cluster.spec import ClusterSpec
from simulator.recorder import together
from simulator.recorders.timeline import TimelineRecorder
from simulator.recorders.wait_clocks import CAUSE_COLUMNS
from simulator.recorders.waiting import WaitRecorder
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload
from tests.reference import ROOT

pytestmark = pytest.mark.reference


@pytest.mark.parametrize(("policy", "preempts"), [("fifo", False), ("tiresias", True)])
def test_a_loaded_week_adds_up(policy, preempts):
    log = ROOT / "reference" / "lucid" / "week1vc48_jobs.csv.gz"
    workload = Workload.from_jobs(read_jobs_file(str(log), "reference-csv")[0])
    cluster = ClusterSpec({workload.jobs[0].virtual_cluster: 48})
    file, waits = io.StringIO(), WaitRecorder()
    timeline = TimelineRecorder(file)
    result = simulate(Scenario(workload, cluster), policy, recorder=together([timeline, waits]))
    timeline.close()
    jobs = result.jobs
    held_us, runs = Counter(), Counter()
    for event in json.loads(file.getvalue())["traceEvents"]:
        if event["ph"] == "X":
            held_us[event["args"]["job"]] += event["dur"]
            runs[event["args"]["job"]] += "start_s" in event["args"]
    ran_s = (jobs["jct_s"] - jobs["queuing_delay_s"]) * jobs["gpus"]
    assert [held_us[job] for job in jobs["job_id"]] == (ran_s * 1e6).round().astype("int64").tolist()
    assert [runs[job] for job in jobs["job_id"]] == (jobs["preemptions"] + 1).tolist()
    assert bool(jobs["preemptions"].any()) is preempts
    causes = waits.table(result)[list(CAUSE_COLUMNS.values())]
    assert (causes >= 0).all(axis=None)
    assert causes.sum(axis=1).tolist() == jobs["queuing_delay_s"].tolist(), "whole seconds: exactly"
