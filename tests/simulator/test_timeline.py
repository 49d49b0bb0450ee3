"""The timeline keeps the format's rules, shows every run once, and adds up to the jobs table."""

import gzip
import io
import json
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from foundation.errors import BadInputError
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy, policy_names
from simulator.recorders.timeline import CUT, TimelineRecorder, TimelineWindow, open_timeline
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

# Trace Event Format: what each phase that we write must have beside name, ph, pid, tid and ts.
PHASES = {"X": {"dur", "args"}, "C": {"args"}, "i": {"s"}, "M": {"args"}}


class EveryRun(TimelineRecorder):
    """Beside the timeline, notes each run as the simulation tells it."""

    def __init__(self, file, window=None):
        super().__init__(file, window)
        self.begun, self.seen = {}, []

    def started(self, now_s, job, pool):
        super().started(now_s, job, pool)
        self.begun[job.index] = now_s

    def stopped(self, now_s, job, pool, reason):
        super().stopped(now_s, job, pool, reason)
        if job.index in self.begun:
            self.seen.append((job.job.job_id, self.begun.pop(job.index), now_s, job.gpus, reason))


def recorded(workload, cluster, policy, *, window=None, changes=()):
    file = io.StringIO()
    recorder = EveryRun(file, window)
    simulation = Simulation(
        Scenario(workload, cluster, changes=changes), load_policy(policy), name=policy, recorder=recorder
    )
    simulation.run()
    result = simulation.result()
    recorder.close({"policy": policy}, changes)
    return json.loads(file.getvalue()), result, recorder, simulation


def slices(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def check_format(trace):
    """The rules of the format, as its publisher and the Perfetto importer state them."""
    assert set(trace) == {"displayTimeUnit", "traceEvents", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    tracks, names = defaultdict(list), {}
    for event in trace["traceEvents"]:
        assert set(event) >= {"ph", "name", "pid", "tid", "ts"} | PHASES[event["ph"]]
        assert isinstance(event["name"], str)
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert isinstance(event["dur"], int)
            assert event["dur"] >= 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
        elif event["ph"] == "i":
            assert event["s"] in ("g", "p", "t")
        elif event["name"] == "thread_name":
            assert (event["pid"], event["tid"]) not in names
            names[event["pid"], event["tid"]] = event["args"]["name"]
    assert set(tracks) <= set(names)
    processes = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert {pid for pid, _ in tracks} <= set(processes)
    for track in tracks.values():
        track.sort()
        for (_, end), (start, _) in pairwise(track):
            assert end <= start, "slices of one thread must nest; ours follow one another"
    return processes, names


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("shape", ["burst", "gangs"])
def test_every_run_is_there_once_and_adds_up_to_the_jobs_table(policy, shape):
    workload, cluster = sample_workload(shape, seed=2, jobs=90)
    trace, result, recorder, _ = recorded(workload, cluster, policy)
    check_format(trace)
    shown, held_us = Counter(), Counter()
    for event in slices(trace):
        job, run = event["args"]["job"], event["args"]["run"]
        held_us[job] += event["dur"]
        if "gpus" in event["args"]:
            args = event["args"]
            shown[job, args["start_s"], args["end_s"], args["gpus"], args["ended"]] += 1
        assert run >= 1
    assert shown == Counter(recorder.seen)
    assert set(shown.values()) == {1}
    assert recorder.runs == len(recorder.seen) == trace["otherData"]["runs"]
    assert recorder.slices == len(slices(trace)) == sum(gpus for *_, gpus, _ in recorder.seen)
    jobs = result.jobs
    ran_s = jobs["jct_s"] - jobs["queuing_delay_s"]
    assert [held_us[job] / 1e6 for job in jobs["job_id"]] == pytest.approx(
        (ran_s * jobs["gpus"]).tolist(), abs=64e-6 * (1 + int(jobs["preemptions"].max()))
    )
    # GPUs that two jobs share count once: what is left is what the summary calls utilised.
    together_s = float((jobs["colocated_s"] * jobs["gpus"]).sum()) / 2
    held_s = sum(held_us.values()) / 1e6 - together_s
    capacity_s = cluster.total_gpus * result.summary["makespan_s"]
    assert 100 * held_s / capacity_s == pytest.approx(result.summary["utilisation_pct"], rel=1e-9)


def test_whole_seconds_add_up_exactly():
    workload, cluster = sample_workload("loaded", seed=4, jobs=120)
    trace, result, _, _ = recorded(workload, cluster, "srtf")
    held_us = Counter()
    for event in slices(trace):
        held_us[event["args"]["job"]] += event["dur"]
    jobs = result.jobs
    expected = ((jobs["jct_s"] - jobs["queuing_delay_s"]) * jobs["gpus"] * 1e6).astype("int64")
    assert [held_us[job] for job in jobs["job_id"]] == expected.tolist()
    assert jobs["preemptions"].sum() > 0
    preempted = [e for e in trace["traceEvents"] if e["ph"] == "i" and e["name"].endswith("preempted")]
    assert len(preempted) == jobs["preemptions"].sum()


def test_packed_jobs_lie_on_the_shared_thread_of_the_same_gpus():
    workload, cluster = sample_workload("burst", seed=2, jobs=90)
    trace, result, _, _ = recorded(workload, cluster, "lucid")
    _, names = check_format(trace)
    assert result.jobs["colocated"].any()
    packed = {job for job, was in zip(result.jobs["job_id"], result.jobs["colocated"], strict=True) if was}
    leads = [event for event in slices(trace) if "gpus" in event["args"]]
    assert {e["args"]["job"] for e in leads if "packed_with" in e["args"]} == packed
    by_job = defaultdict(list)
    for event in leads:
        by_job[event["args"]["job"]].append(event)
    for event in leads:
        for other in event["args"].get("packed_with", []):
            mine = names[event["pid"], event["tid"]].removesuffix(" shared")
            theirs = {names[e["pid"], e["tid"]].removesuffix(" shared") for e in by_job[other]}
            assert mine in theirs


def test_counters_follow_queue_and_free_gpus():
    jobs = (Job("a", "vc", "u", 4, 0.0, 100.0), Job("b", "vc", "u", 4, 10.0, 50.0))
    trace, _, _, _ = recorded(Workload(jobs, {}), ClusterSpec({"vc": 1}, 4), "fifo")
    counts = [
        (event["name"], event["ts"] // 1_000_000, event["args"]["count"])
        for event in trace["traceEvents"]
        if event["ph"] == "C"
    ]
    assert counts == [
        ("waiting jobs", 0, 0),
        ("free GPUs", 0, 0),
        ("waiting jobs", 10, 1),
        ("waiting jobs", 100, 0),
        ("free GPUs", 150, 4),
    ]


def test_failures_and_cancelled_jobs_are_marked():
    jobs = (
        Job("long", "vc", None, 4, 0.0, 1000.0),
        Job("gone", "vc", None, 8, 10.0, 90.0, cancel_time_s=100.0, withdrawn=True, order=1),
    )
    changes = (NodeFailure(200.0, "vc", 0, 60.0), SizeChange(5000.0, "vc", 2))
    trace, result, _, _ = recorded(Workload(jobs, {}), ClusterSpec({"vc": 2}, 4), "fifo", changes=changes)
    marks = [e["name"] for e in trace["traceEvents"] if e["ph"] == "i"]
    assert marks == ["gone cancelled while it waited", "long failed", "node 0 down for 60 s"]
    runs = [event["args"] for event in slices(trace) if "gpus" in event["args"]]
    assert [(run["start_s"], run["end_s"], run["ended"]) for run in runs] == [
        (0.0, 200.0, "failed"),
        (200.0, 1200.0, "completed"),
    ]
    assert result.jobs["end_time_s"].tolist() == [1200.0, 100.0]


def test_a_window_holds_just_what_happened_in_it():
    workload, cluster = sample_workload("loaded", seed=4, jobs=100)
    whole, _, _, _ = recorded(workload, cluster, "fifo")
    window = TimelineWindow(600.0, 2_400.0)
    part, _, _, _ = recorded(workload, cluster, "fifo", window=window)
    check_format(part)
    assert all(600e6 <= e["ts"] <= 2400e6 for e in part["traceEvents"] if e["ph"] != "M")

    def held_inside(trace):
        spans = ((e["ts"], e["ts"] + e["dur"]) for e in slices(trace))
        return sum(max(0, min(end, 2_400_000_000) - max(start, 600_000_000)) for start, end in spans)

    assert held_inside(part) == sum(event["dur"] for event in slices(part)) == held_inside(whole)
    assert 0 < len(slices(part)) < len(slices(whole))


def test_the_limit_cuts_the_timeline_at_one_moment():
    workload, cluster = sample_workload("loaded", seed=4, jobs=100)
    whole, _, _, _ = recorded(workload, cluster, "fifo")
    cut, _, recorder, _ = recorded(workload, cluster, "fifo", window=TimelineWindow(max_slices=60))
    check_format(cut)
    until_s = cut["otherData"]["complete_until_s"]
    assert recorder.ended_s == until_s
    until_us = round(until_s * 1e6)
    held = sum(min(e["ts"] + e["dur"], until_us) - e["ts"] for e in slices(whole) if e["ts"] <= until_us)
    assert sum(event["dur"] for event in slices(cut)) == held
    assert {event["args"]["ended"] for event in slices(cut) if "ended" in event["args"]} == {
        "completed",
        CUT,
    }
    assert len(slices(cut)) < 60 + cluster.total_gpus


def test_the_file_may_be_compressed_and_the_same_run_gives_the_same_bytes(tmp_path):
    workload, cluster = sample_workload("quiet", seed=4, jobs=30)
    for name in ("a.json.gz", "b.json.gz", "c.json"):
        with open_timeline(tmp_path / "deep" / name) as file:
            recorder = TimelineRecorder(file)
            Simulation(Scenario(workload, cluster), load_policy("sjf"), recorder=recorder).run()
            recorder.close()
    first, again, plain = (
        (tmp_path / "deep" / name).read_bytes() for name in ("a.json.gz", "b.json.gz", "c.json")
    )
    assert first == again
    assert gzip.decompress(first) == plain
    check_format(json.loads(plain))


def test_cpu_jobs_show_once_a_node():
    jobs = (Job("cpu", "vc", None, 0, 0.0, 100.0, cpus=6), Job("gpu", "vc", None, 2, 0.0, 100.0, order=1))
    cluster = ClusterSpec({"vc": 1}, 4, cpu_cores_per_node=8)
    trace, _, _, _ = recorded(Workload(jobs, {}), cluster, "fifo")
    processes, names = check_format(trace)
    assert sorted(processes.values()) == ["vc", "vc:cpu"]
    assert sorted(names.values()) == ["events", "events", "node 0 GPU 0", "node 0 GPU 1", "node 0 core 0"]
    assert [e["args"]["cores"] for e in slices(trace) if "cores" in e["args"]] == [6]


@pytest.mark.parametrize("window", [(10.0, 10.0, 5), (0.0, 10.0, 0)])
def test_a_window_must_hold_something(window):
    with pytest.raises(BadInputError):
        TimelineWindow(*window)
