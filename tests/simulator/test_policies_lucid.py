"""Lucid's stages on workloads small enough to follow by hand."""

import pytest

from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

CLUSTER = ClusterSpec({"vc": 10}, 8)  # one node of the ten goes to the profiler at the default share
# Every job that is small enough goes to the profiler, on its own nodes.
STRICT = {"profiling_in_place": False, "borrowed_nodes_max": 0}
SHARED = {"profiling_share_max": 0.5, "profiling_nodes": 1}


def job(
    i: int, submit: float, gpus: int, duration: float, *, score: int | None = 0, mem=5_000.0, estimate=None
):
    profile = None if score is None else JobProfile(30, 10, mem, job_type="t", sharing_score=score)
    return Job(f"j{i}", "vc", "u", gpus, submit, duration, estimate or duration, i, profile)


def run(*jobs: Job, cluster: ClusterSpec = CLUSTER, **settings):
    return simulate(Scenario(Workload(jobs, {}), cluster), "lucid", settings={**STRICT, **settings})


def test_a_short_job_ends_on_the_profiler_and_a_long_one_starts_again_from_zero():
    result = run(job(0, 0, 1, 150), job(1, 0, 1, 1_000))
    assert result.jobs["end_time_s"].tolist() == [150, 1_200]
    assert result.jobs["ended_in_profiling"].tolist() == [True, False]
    assert result.jobs["lost_s"].tolist() == [0, 200]
    assert result.jobs["queuing_delay_s"].tolist() == [0, 0]
    assert result.summary["profiling_nodes"] == 1


def test_a_job_that_ends_exactly_at_the_limit_has_ended():
    result = run(job(0, 0, 1, 200))
    assert result.jobs["end_time_s"].tolist() == [200]


def test_the_profiler_serves_fewest_gpus_first_and_large_jobs_skip_it():
    jobs = [job(0, 0, 8, 100), job(1, 1, 8, 100), job(2, 2, 2, 100), job(3, 3, 16, 50)]
    result = run(*jobs)
    assert result.jobs["first_start_time_s"].tolist() == [0, 200, 100, 3]
    assert result.jobs["profiled"].tolist() == [True, True, True, False]


def test_profiling_time_shrinks_in_a_burst():
    burst = run(*[job(i, 0, 8, 1_000) for i in range(4)], profiling_limit_min_s=60.0)
    # 4 nodes' worth waits for one node: T_prof = 200 / 4, but at least 60 s; then 3 wait, 2, and 1.
    assert burst.jobs["lost_s"].tolist() == pytest.approx([60, 200 / 3, 100, 200])
    fixed = run(*[job(i, 0, 8, 1_000) for i in range(4)], profiling_limit_min_s=200.0)
    assert fixed.jobs["lost_s"].tolist() == [200, 200, 200, 200]


def packed(*jobs: Job, **settings) -> list[bool]:
    """One node, and one of the two for the profiler: an 8-GPU job fills the cluster."""
    result = run(*jobs, cluster=ClusterSpec({"vc": 2}, 8), **{**SHARED, **settings})
    return result.jobs["colocated"].tolist()


def test_jobs_that_fit_together_share_when_no_gpu_is_idle():
    assert packed(job(0, 0, 8, 5_000), job(1, 0, 8, 4_000)) == [True, True]


def test_idle_gpus_come_before_packing():
    assert packed(job(0, 0, 4, 5_000), job(1, 0, 4, 4_000)) == [False, False]


@pytest.mark.parametrize(
    ("second", "settings"),
    [
        (job(1, 0, 4, 4_000), {}),  # another GPU demand
        (job(1, 0, 8, 4_000, mem=20_000), {}),  # 25,000 MiB on a GPU of 24,576
        (job(1, 0, 8, 4_000, score=None), {}),  # not scored
        (job(1, 0, 8, 40_000), {"priority_ratio_max": 2.0}),  # far longer than its partner
        (job(1, 0, 8, 4_000), {"sharing": "none"}),
        (job(1, 0, 8, 4_000), {"profiling_nodes": 0}),  # the one that waits is not measured
        (job(1, 0, 8, 4_000, score=2), {"sharing": "apathetic"}),
        (job(1, 0, 8, 4_000), {"partner_min_remaining_s": 10_000.0}),
    ],
)
def test_the_packing_rules_keep_jobs_apart(second, settings):
    assert packed(job(0, 0, 8, 5_000), second, **settings) == [False, False]


@pytest.mark.parametrize(
    ("scores", "sharing", "together"),
    [
        ((1, 1), "default", True),
        ((2, 1), "default", False),
        ((1, 1), "apathetic", False),
        ((0, 1), "apathetic", True),
    ],
)
def test_sharing_scores_sum_to_at_most_the_strategys_capacity(scores, sharing, together):
    jobs = (job(0, 0, 8, 5_000, score=scores[0]), job(1, 0, 8, 4_000, score=scores[1]))
    assert packed(*jobs, sharing=sharing) == [together, together]


def test_at_most_two_jobs_share():
    jobs = [job(i, 0, 8, 5_000) for i in range(3)]
    result = run(*jobs, cluster=ClusterSpec({"vc": 2}, 8), **SHARED, profiling_limit_min_s=200.0)
    starts = result.jobs["first_start_time_s"].tolist()
    assert starts == [0, 200, 400]
    # j2 reaches the main node at 600 and has to wait for one of the pair to end.
    assert result.jobs["queuing_delay_s"].iloc[2] > 4_000


def test_no_profiler_is_set_aside_where_every_node_is_needed():
    result = run(job(0, 0, 80, 10), job(1, 5, 1, 10))
    assert result.summary["profiling_nodes"] == 0
    assert result.jobs["first_start_time_s"].tolist() == [0, 10]


def test_ageing_bounds_how_much_later_a_job_may_come_and_still_overtake():
    # The large job waits from 1 on; small ones, a tenth of its service each, keep coming until the end.
    small = [job(2 + i, 5 + 10 * i, 8, 10) for i in range(60)]
    waits = {}
    for ageing_s in (0.0, 40.0):
        large = job(1, 5, 8, 100)
        result = run(job(0, 0, 8, 10), large, *small, cluster=ClusterSpec({"vc": 1}, 8), ageing_s=ageing_s)
        starts = result.jobs.set_index("job_id")["first_start_time_s"]
        waits[ageing_s] = starts[large.job_id] - 5
    assert waits[0.0] > 550, "for as long as small ones come"
    # ln(10) x 40 s = 92 s; jobs that came earlier than that go first, one after the other.
    assert 92 <= waits[40.0] <= 92 + 30
