"""Why jobs waited: causes add up, agree with watching each job by itself, and read as plain language."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import UnknownNameError
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import sample_workload
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy, policy_names
from simulator.recorders.wait_clocks import CAUSE_COLUMNS, WaitCause
from simulator.recorders.waiting import WaitRecorder
from simulator.recorders.waiting_text import explain_wait, in_words, rows_of_job
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

CAUSES = list(CAUSE_COLUMNS.values())
CHANGES = (
    SizeChange(900.0, "a", 7),
    NodeFailure(1_500.0, "b", 2, 700.0),
    SizeChange(4_000.0, "a", 14),
    NodeFailure(4_200.0, "a", 0, 50.0),
)


class EachJobWatched(WaitRecorder):
    """Beside the clocks, classifies every waiting job by itself after every moment."""

    def __init__(self):
        super().__init__()
        self.left = {}  # job -> (whether it left the queue of its virtual cluster, when)
        self.seen = {}  # job -> [seconds by cause]
        self.passed_over = set()  # jobs that could be placed at the last decision, and ever since
        self.first = set()
        self.moment_s = None

    def note_left(self, now_s, job, pool):
        home = pool.name == job.job.virtual_cluster
        if not self.left.get(job.index, (False, 0))[0]:
            self.left[job.index] = (home, now_s)

    def started(self, now_s, job, pool):
        super().started(now_s, job, pool)
        self.note_left(now_s, job, pool)

    def attach(self, simulation):
        self.simulation = simulation

    def decided(self, now_s, pools):
        super().decided(now_s, pools)
        for pool in pools:
            for place, job in enumerate(pool.queue):
                self.passed_over.discard(job.index)
                self.first.discard(job.index)
                if pool.free.find(job.gpus) is not None:
                    self.passed_over.add(job.index)
                    if place == 0:
                        self.first.add(job.index)

    def cause(self, job, pool):
        if pool.name not in (job.job.virtual_cluster, f"{job.job.virtual_cluster}:cpu"):
            return WaitCause.PROFILER
        if pool.free.total < job.gpus:
            return WaitCause.GPUS
        if pool.free.find(job.gpus) is None:
            return WaitCause.PLACEMENT
        if job.index not in self.passed_over:
            return WaitCause.ROUND
        return WaitCause.POLICY if job.index in self.first else WaitCause.TURN

    def look(self):
        """Say what each job will wait for until something happens again."""
        waits = {}
        for pool in self.simulation.pools.values():
            for job in pool.queue:
                cause = waits[job.index] = self.cause(job, pool)
                if cause not in (WaitCause.TURN, WaitCause.POLICY):
                    self.passed_over.discard(job.index)
                    self.first.discard(job.index)
        return waits

    def follow(self):
        now_s, waits = 0.0, {}
        while self.simulation.step():
            for index, cause in waits.items():
                spent = self.seen.setdefault(index, [0.0] * len(WaitCause))
                spent[cause] += self.simulation.now_s - now_s
            now_s, waits = self.simulation.now_s, self.look()


def watched(workload, cluster, policy, changes=()):
    recorder = EachJobWatched()
    simulation = Simulation(
        Scenario(workload, cluster, changes=changes), load_policy(policy), name=policy, recorder=recorder
    )
    recorder.attach(simulation)
    recorder.follow()
    return recorder, simulation.result()


def check_overtaken(recorder, waits):
    """Counted one by one: jobs that came later to the same virtual cluster, and left its queue earlier."""
    rows = list(zip(waits["virtual_cluster"], waits["submit_time_s"], strict=True))
    left = [recorder.left[index][1] for index in range(len(rows))]
    for index, (cluster, submit_s) in enumerate(rows):
        overtakers = [
            other
            for other, (its_cluster, its_submit_s) in enumerate(rows)
            if its_cluster == cluster and its_submit_s > submit_s and left[other] < left[index]
        ]
        assert waits["overtaken_by"][index] == len(overtakers)


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("shape", ["loaded", "gangs"])
def test_causes_add_up_and_agree_with_watching_each_job(policy, shape):
    workload, cluster = sample_workload(shape, seed=3, jobs=80)
    recorder, result = watched(workload, cluster, policy)
    waits = recorder.table(result)
    assert (waits["queuing_delay_s"] > 0).any()
    assert waits[CAUSES].sum(axis=1).to_numpy() == pytest.approx(
        result.jobs["queuing_delay_s"].to_numpy(), rel=1e-12, abs=1e-9
    )
    assert (waits[CAUSES] >= -1e-6).all(axis=None)
    for index, row in enumerate(waits[CAUSES].itertuples(index=False, name=None)):
        assert row == pytest.approx(recorder.seen.get(index, [0.0] * len(WaitCause)), abs=1e-5), index
    check_overtaken(recorder, waits)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "lucid"])
def test_causes_add_up_when_nodes_come_leave_and_fail(policy):
    workload, cluster = sample_workload("loaded", seed=5, jobs=80)
    recorder, result = watched(workload, cluster, policy, CHANGES)
    waits = recorder.table(result)
    for index, row in enumerate(waits[CAUSES].itertuples(index=False, name=None)):
        assert row == pytest.approx(recorder.seen.get(index, [0.0] * len(WaitCause)), abs=1e-5), index
    assert waits[CAUSES].sum(axis=1).to_numpy() == pytest.approx(
        result.jobs["queuing_delay_s"].to_numpy(), rel=1e-12, abs=1e-9
    )


def jobs_of(rows):
    ordered = sorted(rows)
    return Workload(
        tuple(
            Job(f"j{i}", "vc", None, gpus, float(submit), float(duration), float(duration), i)
            for i, (submit, gpus, duration) in enumerate(ordered)
        ),
        {},
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 12), st.integers(0, 400)), min_size=1, max_size=25
    ),
    st.sampled_from(list(policy_names())),
)
def test_any_workload(rows, policy):
    workload = jobs_of(rows)
    first_s = workload.jobs[0].submit_time_s
    recorder, result = watched(workload, ClusterSpec({"vc": 3}, 4), policy)
    waits = recorder.table(result)
    assert first_s >= 0
    assert waits[CAUSES].sum(axis=1).tolist() == pytest.approx(result.jobs["queuing_delay_s"].tolist())
    check_overtaken(recorder, waits)
    unwaited = waits["queuing_delay_s"] == 0
    assert waits["released_by"][unwaited].isna().all()


def one(policy, rows, cluster, job):
    recorder, result = watched(jobs_of(rows), cluster, policy)
    waits = recorder.table(result)
    return waits.set_index("job_id").loc[job]


def test_who_is_ahead_and_whose_end_lets_it_start():
    # Two nodes of 4: j0 and j1 fill them, j2 (8 GPUs) needs both, j3 (2 GPUs) waits behind it under FIFO.
    rows = [(0, 4, 100), (0, 4, 300), (10, 8, 50), (20, 2, 10)]
    row = one("fifo", rows, ClusterSpec({"vc": 2}, 4), "j3")
    assert (row["jobs_ahead"], row["gpus_ahead"], row["free_gpus"]) == (1, 8, 0)
    assert row["queuing_delay_s"] == 330.0
    # Nothing is free until 100 s; then it could start, and j2 is ahead; from 300 to 350 s j2 has everything.
    assert row["waited_for_gpus_s"] == 80.0 + 50.0
    assert row["waited_for_turn_s"] == 200.0
    assert (row["released_by"], row["released_reason"]) == ("j2", "completed")
    assert row["overtaken_by"] == 0
    overtaken = one("sjf", rows, ClusterSpec({"vc": 2}, 4), "j2")
    assert overtaken["overtaken_by"] == 1


def test_scattered_gpus_are_told_from_missing_ones():
    # Half of each node is taken: 4 GPUs are free in all, and no node has 3.
    rows = [(0, 2, 100), (0, 3, 200), (0, 2, 60), (10, 4, 20)]
    row = one("fifo", rows, ClusterSpec({"vc": 2}, 4), "j3")
    assert row["waited_for_gpus_s"] + row["waited_for_placement_s"] == row["queuing_delay_s"]
    scattered = one("fifo", [(0, 3, 100), (0, 3, 200), (10, 2, 20)], ClusterSpec({"vc": 2}, 4), "j2")
    assert scattered["waited_for_placement_s"] == 90.0
    assert scattered["waited_for_gpus_s"] == 0.0
    assert scattered["released_by"] == "j0"


def test_a_round_is_waited_for():
    row = one("tiresias", [(0, 1, 100), (70, 1, 10)], ClusterSpec({"vc": 2}, 4), "j1")
    assert row["queuing_delay_s"] == row["waited_for_round_s"] == 50.0
    assert not isinstance(row["released_by"], str), "no job stood in its way"


def test_a_job_that_is_cancelled_while_it_waits_has_waited():
    jobs = (
        Job("runs", "vc", None, 4, 0.0, 500.0, 500.0, 0),
        Job("leaves", "vc", None, 4, 10.0, 90.0, 90.0, 1, cancel_time_s=100.0, withdrawn=True),
    )
    recorder, result = watched(Workload(jobs, {}), ClusterSpec({"vc": 1}, 4), "fifo")
    row = recorder.table(result).iloc[1]
    assert row["queuing_delay_s"] == row["waited_for_gpus_s"] == 90.0
    assert row["waits"] == 1


def test_it_reads_as_plain_language():
    rows = [(0, 4, 100), (0, 4, 300), (10, 8, 50), (20, 2, 10)]
    assert explain_wait(one("fifo", rows, ClusterSpec({"vc": 2}, 4), "j3").to_dict() | {"job_id": "j3"}) == [
        "j3 (2 GPUs, virtual cluster vc) waited 5 min 30 s.",
        "  3 min 20 s (61 %): it would have fitted, but others were ahead of it in the policy's order",
        "  2 min 10 s (39 %): too few GPUs were free in its virtual cluster",
        "  When it joined the queue 1 job for 8 GPUs was ahead of it; 0 GPUs were free.",
        "  It could start when j2 ended.",
    ]
    assert explain_wait(one("fifo", rows, ClusterSpec({"vc": 2}, 4), "j0").to_dict() | {"job_id": "j0"}) == [
        "j0 (4 GPUs, virtual cluster vc) did not wait."
    ]
    overtaken = one("sjf", rows, ClusterSpec({"vc": 2}, 4), "j2").to_dict() | {"job_id": "j2"}
    assert "  1 job submitted later started before it." in explain_wait(overtaken)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.4, "0.4 s"),
        (59.6, "1 min"),
        (3_725, "1 h 2 min"),
        (3_600, "1 h"),
        (90_061, "1 d 1 h"),
        (86_460, "1 d"),
    ],
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words


def test_a_job_that_was_not_replayed_is_an_error_that_names_others():
    recorder, result = watched(jobs_of([(0, 1, 10)]), ClusterSpec({"vc": 1}, 4), "fifo")
    waits = recorder.table(result)
    assert [row["job_id"] for row in rows_of_job(waits, "j0")] == ["j0"]
    with pytest.raises(UnknownNameError, match="j0"):
        rows_of_job(waits, "j1")
