"""Nodes that come, leave, fail and are lent; jobs that are withdrawn, that need CPUs only, that change."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, UnknownNameError
from simulator.actions import Colocate, Loan, Preempt, Reclaim
from simulator.cluster.changes import NodeFailure, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, check_work, sample_changes, sample_workload
from simulator.engine.simulation import PolicyError
from simulator.policies.registry import load_policy, policy_names
from simulator.policy import Policy, start_from_front
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import SummedUtilisation
from simulator.workload.forecast import ThroughputForecast
from simulator.workload.job import Job, JobProfile
from simulator.workload.skip_rules import BIGGER_THAN_VIRTUAL_CLUSTER, CPU_JOB
from simulator.workload.workload import Workload


def workload(*jobs: Job) -> Workload:
    return Workload(tuple(jobs), {})


def job(i: int, submit_s: float, gpus: int, duration_s: float, **others) -> Job:
    return Job(f"j{i}", "vc", "u", gpus, submit_s, duration_s, duration_s, order=i, **others)


def ends(result) -> list[float]:
    return result.jobs["end_time_s"].tolist()


def test_a_failed_node_kills_its_jobs_and_comes_back():
    jobs = workload(job(0, 0, 8, 100), job(1, 0, 8, 300))
    result = simulate(
        Scenario(jobs, ClusterSpec({"vc": 2}), changes=[NodeFailure(50, "vc", node=0, down_s=1_000)]), "fifo"
    )
    # The killed job starts again, from zero, on the other node when that is free: 300 + 100.
    assert ends(result) == [400, 300]
    assert result.jobs["lost_s"].tolist() == [50, 0]
    assert result.jobs["queuing_delay_s"].tolist() == [250, 0]
    assert result.summary["node_failures_suffered"] == 1
    repaired = simulate(
        Scenario(jobs, ClusterSpec({"vc": 2}), changes=[NodeFailure(50, "vc", node=0, down_s=20)]), "fifo"
    )
    assert ends(repaired) == [170, 300]


def test_two_failures_of_one_node_overlap():
    result = simulate(
        Scenario(
            workload(job(0, 0, 8, 100)),
            ClusterSpec({"vc": 1}),
            changes=[NodeFailure(10, "vc", 0, 100), NodeFailure(20, "vc", 0, 500)],
        ),
        "fifo",
    )
    assert ends(result) == [620]


def test_a_shrinking_virtual_cluster_drains_and_a_growing_one_serves():
    jobs = workload(job(0, 0, 8, 100), job(1, 0, 8, 100), job(2, 10, 8, 50), job(3, 10, 8, 50))
    shrunk = simulate(Scenario(jobs, ClusterSpec({"vc": 2}), changes=[SizeChange(5, "vc", 1)]), "fifo")
    assert ends(shrunk) == [100, 100, 150, 200]  # no job is killed, and one node serves what comes later
    grown = simulate(Scenario(jobs, ClusterSpec({"vc": 2}), changes=[SizeChange(20, "vc", 4)]), "fifo")
    assert ends(grown) == [100, 100, 70, 70]
    assert grown.summary["utilisation_pct"] == pytest.approx(100 * 8 * 300 / (16 * 20 + 32 * 80))


def test_a_job_that_fits_only_later_waits_and_one_that_never_fits_is_counted():
    jobs = workload(job(0, 0, 16, 100), job(1, 0, 64, 100))
    result = simulate(Scenario(jobs, ClusterSpec({"vc": 1}), changes=[SizeChange(500, "vc", 2)]), "fifo")
    assert ends(result) == [600]
    assert result.summary["skipped"] == {BIGGER_THAN_VIRTUAL_CLUSTER: 1}


def test_a_job_that_its_virtual_cluster_outgrows_is_counted_and_not_lost():
    jobs = workload(job(0, 0, 8, 100), job(1, 0, 16, 100))
    result = simulate(Scenario(jobs, ClusterSpec({"vc": 2}), changes=[SizeChange(50, "vc", 1)]), "fifo")
    assert result.jobs["state"].tolist() == ["completed", "pending"]
    assert (result.summary["jobs"], result.summary["outgrown_jobs"]) == (1, 1)


def test_withdrawn_jobs_hold_their_place_until_they_leave_or_would_start_and_never_a_gpu():
    jobs = workload(
        job(0, 0, 8, 100),
        job(1, 0, 8, 100, cancel_time_s=30.0, withdrawn=True),  # leaves before its turn
        job(2, 0, 8, 100, cancel_time_s=900.0, withdrawn=True),  # its turn comes first
        job(3, 0, 8, 100, cancel_time_s=float("inf"), withdrawn=True),  # when it left is unknown
        job(4, 0, 8, 100),
    )
    result = simulate(Scenario(jobs, ClusterSpec({"vc": 1})), "fifo")
    assert result.jobs["state"].tolist() == ["completed", *3 * ["cancelled"], "completed"]
    assert ends(result) == [100, 30, 100, 100, 200]
    assert result.jobs["would_have_started"].tolist() == [False, False, True, True, False]
    assert result.jobs["first_start_time_s"].isna().tolist() == [False, True, True, True, False]
    counts = ("jobs", "completed_jobs", "left_waiting", "would_have_started", "withdrawn_that_ran")
    assert [result.summary[name] for name in counts] == [2, 2, 3, 2, 0]
    assert result.summary["mean_queuing_delay_s"] == 50
    assert result.summary["mean_jct_s"] == 150
    ran = simulate(Scenario(jobs.running_what_was_withdrawn(), ClusterSpec({"vc": 1})), "fifo")
    assert ends(ran) == [100, 200, 300, 400, 500]
    assert [ran.summary[name] for name in counts] == [2, 2, 0, 0, 3]


def test_nobody_is_preempted_for_a_job_that_was_withdrawn():
    jobs = workload(job(0, 0, 8, 1_000), job(1, 10, 8, 5, cancel_time_s=500.0, withdrawn=True))
    result = simulate(Scenario(jobs, ClusterSpec({"vc": 1})), "srtf")
    assert ends(result) == [1_000, 10]
    assert result.summary["preemptions"] == 0


def test_many_jobs_may_leave_at_one_moment():
    jobs = workload(
        job(0, 0, 8, 100),
        *(job(i, 1, 8, 100, cancel_time_s=900.0, withdrawn=True) for i in range(1, 12_000)),
    )
    result = simulate(Scenario(jobs, ClusterSpec({"vc": 1})), "fifo")
    assert result.summary["would_have_started"] == 11_999
    assert set(ends(result)) == {100}


def test_cpu_jobs_are_served_from_the_cores_set_aside():
    jobs = workload(job(0, 0, 8, 100), job(1, 0, 0, 50, cpus=4), job(2, 0, 0, 50, cpus=4))
    result = simulate(Scenario(jobs, ClusterSpec({"vc": 1}, cpu_cores_per_node=4)), "fifo")
    assert ends(result) == [100, 50, 100]
    assert (result.summary["jobs"], result.summary["cpu_jobs"]) == (1, 2)
    assert result.summary["cpu_jobs_mean_queuing_delay_s"] == 25
    without = simulate(Scenario(jobs, ClusterSpec({"vc": 1})), "fifo")
    assert without.summary["skipped"] == {CPU_JOB: 2}


def test_a_change_of_needs_is_seen_and_slows_the_pair():
    calm, wild = JobProfile(30, 10, 1_000, sharing_score=0), JobProfile(100, 10, 1_000, sharing_score=2)
    jobs = workload(job(0, 0, 8, 1_000, profile=calm, phase=(500.0, wild)), job(1, 0, 8, 1_000, profile=wild))
    seen = []

    class Pack(Policy):
        def priority(self, job):
            return job.submit_time_s

        def decide(self, snapshot):
            pool = snapshot.pools["vc"]
            seen.extend((snapshot.now_s, one.job.job_id, one.unstable) for one in pool.running)
            actions = list(start_from_front(pool))
            started = [action.job for action in actions]
            return [*actions, *(Colocate(one, started[0]) for one in pool.queue if one not in started)]

    result = simulate(Scenario(jobs, ClusterSpec({"vc": 1}), colocation=SummedUtilisation()), Pack())
    # 30 % + 100 %: both at 0.85 until the first has done 500 s of work; then 200 %: both at 0.5.
    change_s = 500 / 0.85
    assert (pytest.approx(change_s), "j0", True) in seen
    assert ends(result) == pytest.approx([change_s + 500 / 0.5, change_s + 500 / 0.5])


class Borrower(Policy):
    """Serves `b` with an idle node of `a`, and gives it back when `a` has jobs waiting."""

    def priority(self, job):
        return job.submit_time_s

    def decide(self, snapshot):
        a, b = snapshot.pools["a"], snapshot.pools["b"]
        moves = []
        if len(a.queue):
            moves = [Reclaim(b, guest) for guest in b.guests if b.free.on_node(guest) == 8]
        elif len(b.queue) and b.free.find(b.queue.first.gpus) is None:
            moves = [Loan(a, b, node) for node in a.free.idle_nodes()[:1]]
        return moves or [*start_from_front(a), *start_from_front(b)]


def test_a_borrowed_node_serves_and_goes_home():
    jobs = (
        Job("b0", "b", None, 8, 0.0, 100.0),
        Job("b1", "b", None, 8, 1.0, 100.0, order=1),
        Job("a0", "a", None, 8, 50.0, 100.0, order=2),
    )
    simulation = AuditedSimulation(
        Scenario(Workload(jobs, {}), ClusterSpec({"a": 1, "b": 1})), Borrower(), name="b"
    )
    simulation.run()
    assert ends(simulation.result()) == [100, 101, 201]  # a0 waits for its node until b1 has left it
    assert not simulation.pools["b"].guests
    assert simulation.pools["a"].total_gpus == simulation.pools["b"].total_gpus == 8


def test_a_lent_node_that_fails_takes_the_guest_with_it():
    jobs = (Job("b0", "b", None, 8, 0.0, 100.0), Job("b1", "b", None, 8, 1.0, 100.0, order=1))
    result = simulate(
        Scenario(Workload(jobs, {}), ClusterSpec({"a": 1, "b": 1}), changes=[NodeFailure(50, "a", 0, 10)]),
        Borrower(),
    )
    assert result.jobs["lost_s"].tolist() == [0, 49]
    assert ends(result) == [100, 160]  # repaired at 60, still on loan


def test_an_evicted_job_starts_from_zero():
    class EvictOnce(Policy):
        evicted = False

        def priority(self, job):
            return job.submit_time_s

        def decide(self, snapshot):
            pool = snapshot.pools["vc"]
            if snapshot.now_s == 40 and not self.evicted:
                self.evicted = True
                return [Preempt(next(iter(pool.running)), keeps_progress=False)]
            return start_from_front(pool)

        def next_change_s(self, pool, now_s):
            return 40.0 if now_s < 40 else None

    result = simulate(Scenario(workload(job(0, 0, 8, 100)), ClusterSpec({"vc": 1})), EvictOnce())
    assert ends(result) == [140]
    assert result.jobs["lost_s"].tolist() == [40]
    assert result.jobs["overhead_s"].tolist() == [0]


def test_what_cannot_be_is_refused():
    jobs = workload(job(0, 0, 8, 100))
    with pytest.raises(UnknownNameError, match="nowhere"):
        simulate(Scenario(jobs, ClusterSpec({"vc": 1}), changes=[SizeChange(5, "nowhere", 1)]), "fifo")
    with pytest.raises(BadInputError, match="it has 1 nodes"):
        simulate(Scenario(jobs, ClusterSpec({"vc": 1}), changes=[NodeFailure(5, "vc", 3, 10)]), "fifo")
    with pytest.raises(BadInputError, match="no node failure"):
        NodeFailure(5, "vc", 0, 0)

    class LendsBusyNodes(Borrower):
        def decide(self, snapshot):
            a, b = snapshot.pools["a"], snapshot.pools["b"]
            return [*start_from_front(a), Loan(a, b, 0)]

    with pytest.raises(PolicyError, match="not idle"):
        simulate(
            Scenario(Workload((Job("a0", "a", None, 1, 0.0, 10.0),), {}), ClusterSpec({"a": 1, "b": 1})),
            LendsBusyNodes(),
        )


def test_a_forecast_is_looked_up_by_time():
    forecast = ThroughputForecast(600, [1, 2], [3, 4], [5, 6], [7, 8])
    assert forecast.at(599).jobs_per_hour == 1
    assert forecast.at(600) == (2, 4, 6, 8)
    assert forecast.at(1e9) == (2, 4, 6, 8)
    with pytest.raises(BadInputError, match="bins"):
        ThroughputForecast(600, [1], [1, 2], [1], [1])


@pytest.mark.parametrize("name", policy_names())
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_policy_keeps_its_books_while_nodes_come_and_go(name, seed):
    jobs, cluster = sample_workload("churn", seed, jobs=40)
    simulation = AuditedSimulation(
        Scenario(
            jobs, cluster, colocation=SummedUtilisation(), changes=sample_changes("churn", seed, cluster)
        ),
        load_policy(name),
        name=name,
    )
    simulation.run()
    result = simulation.result()
    check_work(simulation.jobs, name)
    summary = result.summary
    counted = sum(summary[name] for name in ("completed_jobs", "left_waiting", "cpu_jobs"))
    cpu_cancelled = ((result.jobs["gpus"] == 0) & (result.jobs["state"] == "cancelled")).sum()
    assert counted + summary["outgrown_jobs"] == len(result.jobs)
    assert cpu_cancelled <= summary["cpu_jobs"]
    assert len(result.jobs) + sum(summary["skipped"].values()) == len(jobs)
