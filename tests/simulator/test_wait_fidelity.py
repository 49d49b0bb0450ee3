"""The grade of replayed waits beside logged ones: A for a faithful replay, worse for a perturbed one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.cluster.changes import SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.wait_fidelity.explain import GpusInUse, ReplayedSite
from simulator.wait_fidelity.grade import RULE, WaitGrade, grade_waits
from simulator.wait_fidelity.logged_jobs import LoggedJobs, logged_jobs, other_jobs
from simulator.workload.job import Job
from simulator.workload.workload import Workload

FOUR_NODES = ClusterSpec({"all": 4}, 8)


def stream(seed: int, jobs: int = 500, limit_factors: tuple[float, ...] = (1.1, 2, 4, 8)) -> Workload:
    """A congested stream whose estimates are the limits that its users gave."""
    rng = np.random.default_rng(seed)
    duration_s = rng.lognormal(6.0, 1.3, jobs).clip(5, 20_000)
    gpus = rng.choice([1, 2, 4, 8, 16], jobs, p=[0.4, 0.2, 0.2, 0.15, 0.05])
    submit_s = np.sort(rng.uniform(0, (duration_s * gpus).sum() / 32, jobs))
    limit_s = duration_s * rng.choice(limit_factors, jobs)
    rows = zip(gpus.tolist(), submit_s.tolist(), duration_s.tolist(), limit_s.tolist(), strict=True)
    return Workload(
        tuple(
            Job(f"j{i}", "all", f"u{i % 7}", wanted, submitted, lasts, limit, i)
            for i, (wanted, submitted, lasts, limit) in enumerate(rows)
        ),
        {},
    )


def as_logged(workload: Workload, cluster: ClusterSpec = FOUR_NODES, policy: str = "easy") -> LoggedJobs:
    """What a log of the cluster would hold if it followed the policy."""
    jobs = simulate(Scenario(workload, cluster), policy).jobs
    times = ("submit_time_s", "first_start_time_s", "end_time_s", "estimated_duration_s")
    column = {name: jobs[name].to_numpy(dtype=np.float64) for name in times}
    return LoggedJobs(
        virtual_cluster=jobs["virtual_cluster"].to_numpy(dtype=object),
        gpus=jobs["gpus"].to_numpy(dtype=np.float64),
        submit_s=column["submit_time_s"],
        ready_s=column["submit_time_s"],
        start_s=column["first_start_time_s"],
        end_s=column["end_time_s"],
        limit_s=column["estimated_duration_s"],
    )


def graded(
    logged: LoggedJobs, workload: Workload, cluster: ClusterSpec = FOUR_NODES, policy: str = "easy"
) -> WaitGrade:
    starts_s = simulate(Scenario(workload, cluster), policy).jobs["first_start_time_s"].to_numpy(np.float64)
    return grade_waits(logged, starts_s, ReplayedSite(policy, cluster))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_faithful_replay_has_grade_a_and_perturbed_sites_are_worse(seed: int) -> None:
    workload = stream(seed)
    logged = as_logged(workload)
    assert graded(logged, workload).grade == "A"
    jobs = workload.jobs
    longest_s = max(job.estimated_duration_s or 0.0 for job in jobs)
    no_limits = replace(workload, jobs=tuple(replace(job, estimated_duration_s=longest_s) for job in jobs))
    perturbed = {
        "a node more": graded(logged, workload, ClusterSpec({"all": 5}, 8)),
        "a node less": graded(logged, workload, ClusterSpec({"all": 3}, 8)),
        "strictly first in, first out": graded(logged, workload, policy="fifo"),
        "shortest job first": graded(logged, workload, policy="sjf"),
        "no limits": graded(logged, no_limits),
    }
    assert {name: grade.grade for name, grade in perturbed.items() if grade.grade in (None, "A", "B")} == {}
    assert perturbed["a node more"].explains[0].name == "idle"
    assert perturbed["a node less"].explains[0].name == "nodes"


def test_a_scheduler_that_looks_every_half_minute_is_faithful() -> None:
    workload = stream(3)
    logged = as_logged(workload)
    late_s = logged.start_s + np.random.default_rng(0).uniform(0, 30, len(logged))
    grade = grade_waits(logged, late_s, ReplayedSite("easy", FOUR_NODES))
    assert grade.grade == "A"
    assert grade.sentence.startswith("Grade A: under easy the replayed jobs wait ")


def test_waits_of_a_few_seconds_are_the_same_wait() -> None:
    logged = as_logged(stream(4, jobs=60), ClusterSpec({"all": 400}, 8))
    assert logged.wait_s.max() == 0.0
    grade = grade_waits(logged, logged.start_s + 50.0, ReplayedSite("easy", FOUR_NODES))
    assert (grade.grade, grade.within_x2_pct, grade.kendall_tau) == ("A", 100.0, None)
    assert "hardly any job waits" in grade.why


def test_a_log_without_starts_is_not_graded_and_says_so() -> None:
    logged = as_logged(stream(5, jobs=60))
    without = replace(logged, start_s=np.full(60, np.nan))
    grade = grade_waits(without, logged.start_s, ReplayedSite("easy", FOUR_NODES))
    assert grade.grade is None
    assert grade.sentence == "Not graded: the log does not say when jobs started."
    few = grade_waits(logged.those(np.arange(60) < 5), logged.start_s[:5], ReplayedSite("easy", FOUR_NODES))
    assert few.sentence == "Not graded: the log has the starts of 5 jobs, fewer than 30."


def test_only_jobs_that_count_are_compared() -> None:
    workload = stream(6)
    logged = as_logged(workload)
    starts_s = logged.start_s.copy()
    starts_s[:250] += 1e6
    counted = np.arange(500) >= 250
    grade = grade_waits(logged, starts_s, ReplayedSite("easy", FOUR_NODES), counted=counted)
    assert (grade.grade, grade.jobs, grade.sum_ratio) == ("A", 250, 1.0)


def test_a_priority_that_the_order_does_not_know_is_named() -> None:
    workload = stream(7, limit_factors=(2.0,))
    jobs = tuple(replace(job, gpus=8, estimated_duration_s=1e5) for job in workload.jobs)
    alike = replace(workload, jobs=jobs)
    preferred = as_logged(alike, policy="sjf")
    grade = graded(preferred, alike, policy="fifo")
    assert grade.grade == "D"
    assert grade.explains[0].name == "order"
    assert "a later one of the same size and limit overtook" in grade.sentence


def test_jobs_of_before_the_replay_make_it_start_cold() -> None:
    workload = stream(8)
    logged = as_logged(workload)
    count = 4
    began_s = np.full(count, -500.0)
    earlier = LoggedJobs(
        np.full(count, "all", dtype=object),
        np.full(count, 8.0),
        began_s,
        began_s,
        began_s,
        np.full(count, float(logged.submit_s[40])),
        np.full(count, np.nan),
    )
    warm = grade_waits(
        replace(logged, start_s=logged.start_s + np.where(np.arange(500) < 40, 4_000.0, 0.0)),
        logged.start_s,
        ReplayedSite("easy", FOUR_NODES, others=earlier),
    )
    assert "edge" in {cause.name for cause in warm.explains}


def test_a_job_that_was_held_waited_for_the_cluster_from_then_on() -> None:
    at = pd.Timestamp("2026-03-02T08:00Z")
    frame = pd.DataFrame(
        {
            "job_id": ["a", "b"],
            "virtual_cluster": "vc",
            "gpus": 1,
            "submit_time": at,
            "eligible_time": [at + pd.Timedelta("1h"), pd.NaT],
            "start_time": at + pd.Timedelta("2h"),
            "end_time": at + pd.Timedelta("3h"),
            "duration_s": 3_600.0,
        }
    )
    logged = logged_jobs(frame, Workload.from_jobs(frame))
    assert logged.wait_s.tolist() == [3_600.0, 7_200.0]
    assert other_jobs(frame, at, "all").virtual_cluster.tolist() == ["all", "all"]


def test_gpus_in_use_beside_a_size_that_changes() -> None:
    logged = as_logged(stream(9, jobs=40), ClusterSpec({"all": 400}, 8))
    use = GpusInUse.of([logged], [(0.0, 3_200.0), (1e9, 0.0)])
    assert use.beyond_at(np.array([0.0, 2e9])).tolist() == [0.0, 0.0]
    free_s = use.enough_free_s(np.array([3_200.0, 0.0]), np.array([0.0, 0.0]), np.array([1e9, 1e9]))
    assert free_s[1] == 1e9
    assert 0.0 < free_s[0] < 1e9
    changed = replace(ReplayedSite("easy", FOUR_NODES), changes=(SizeChange(10.0, "all", 1),))
    grade = grade_waits(logged, logged.start_s + 500.0, changed)
    assert grade.explains[0].name == "nodes"


def test_the_grade_is_data_with_its_rule() -> None:
    workload = stream(10)
    data = graded(as_logged(workload), workload).to_data()
    assert data["rule"] == RULE
    assert data["waits"][0]["group"] == "all"
    assert set(data["waits"][0]["logged"]) == {"mean", "p50", "p90", "p999", "sum"}
    assert data["within_x2_pct"] == 100.0
    assert data["kendall_tau"] == pytest.approx(1.0)


def test_starts_of_other_jobs_are_refused() -> None:
    with pytest.raises(BadInputError, match="3 replayed starts for 40 logged jobs"):
        grade_waits(as_logged(stream(11, jobs=40)), np.zeros(3), ReplayedSite("easy", FOUR_NODES))


@given(st.floats(1.0, 1e6), st.integers(0, 5))
def test_a_replay_that_is_further_off_is_never_graded_better(factor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wait_s = rng.exponential(4_000.0, 100)
    submit_s = np.sort(rng.uniform(0, 1e6, 100))
    names = np.full(100, "all", dtype=object)
    ones = np.ones(100)
    logged = LoggedJobs(names, ones, submit_s, submit_s, submit_s + wait_s, submit_s + wait_s + 60, ones * 60)
    site = ReplayedSite("easy", FOUR_NODES)
    grades = [
        grade_waits(logged, submit_s + wait_s * times, site).grade or "E"
        for times in (1.0, factor, factor**2)
    ]
    assert grades == sorted(grades)
