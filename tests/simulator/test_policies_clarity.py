"""Clarity: who shares GPUs, when, and what it may know."""

import pytest

from cluster_logs.errors import BadInputError
from simulator.cluster import ClusterSpec
from simulator.engine import simulate
from simulator.policies.registry import load_policy
from simulator.workload import Job, JobProfile, Workload

LIGHT = JobProfile(20.0, 10.0, 2_000.0, job_type="light")
HEAVY = JobProfile(100.0, 80.0, 20_000.0, job_type="heavy")


class Speeds:
    """Pairs with a heavy job are slow, light ones are not."""

    def speeds(self, first, second):
        return (0.5, 0.5) if HEAVY in (first, second) else (1.0, 1.0)


def job(name, submit_s, duration_s, gpus=8, profile=LIGHT, template=None):
    return Job(
        name,
        "vc",
        "user",
        gpus,
        float(submit_s),
        float(duration_s),
        estimated_duration_s=float(duration_s),
        order=int(name[1:]),
        profile=profile,
        template=profile.job_type if template is None and profile else template,
    )


def run(jobs, nodes=1, **settings):
    workload = Workload(tuple(jobs), {})
    result = simulate(
        workload, ClusterSpec({"vc": nodes}, 8), "clarity", settings=settings, colocation=Speeds()
    )
    return result.jobs.set_index("job_id")


def test_a_waiting_job_joins_a_measured_one_that_it_does_not_hurt():
    found = run([job("j0", 0, 5_000), job("j1", 1_000, 5_000)])
    assert found.loc["j1", "first_start_time_s"] == 1_000
    assert found.loc["j1", "end_time_s"] == 6_000


def test_a_program_that_nobody_has_measured_yet_runs_alone():
    found = run([job("j0", 0, 5_000), job("j1", 10, 5_000)])
    # At 10 s nothing was measured, and nothing happens before j0 ends.
    assert found.loc["j1", "first_start_time_s"] == 5_000
    assert not found["colocated"].any()


def test_without_templates_a_queued_job_is_never_known():
    found = run([job("j0", 0, 5_000), job("j1", 1_000, 5_000)], templates=False)
    assert not found["colocated"].any()


def test_memory_is_a_hard_limit():
    found = run([job("j0", 0, 5_000), job("j1", 1_000, 5_000)], gpu_memory_mib=4_000.0)
    assert not found["colocated"].any()


def test_nobody_shares_while_gpus_are_idle_and_nobody_had_to_wait():
    found = run([job(f"j{i}", 1_000 * i, 50_000) for i in range(4)], nodes=4)
    assert not found["colocated"].any()
    assert (found["queuing_delay_s"] == 0).all()


def test_after_a_shortage_large_jobs_go_together_while_gpus_are_idle():
    # Two nodes full, j2 finds none: from then on nodes are kept free for the next burst.
    jobs = [job("j0", 0, 900), job("j1", 0, 50_000), job("j2", 100, 50), job("j3", 2_000, 50_000)]
    together = run(jobs, nodes=2)
    assert together.loc["j3", "colocated"]
    assert not run(jobs, nodes=2, price_idle=0.0).loc["j3", "colocated"]
    assert not run(jobs, nodes=2, headroom=0.0).loc["j3", "colocated"]
    assert not run(jobs, nodes=2, calm_s=500.0).loc["j3", "colocated"]


def test_a_job_that_does_not_fit_does_not_hold_up_later_ones():
    jobs = [
        job("j0", 0, 5_000, gpus=4, profile=None),
        job("j1", 1, 10, gpus=8, profile=None),
        job("j2", 2, 9_000, gpus=4, profile=None),
    ]
    assert run(jobs).loc["j2", "first_start_time_s"] == 2


def test_what_was_seen_of_a_pair_replaces_the_prediction():
    # The rule on utilisation takes two programs of 45 % each for harmless; here they are not.
    quiet = JobProfile(45.0, 10.0, 2_000.0, job_type="quiet")

    class Surprising:
        def speeds(self, first, second):
            return (0.5, 0.5)

    jobs = [
        job("j0", 0, 5_000, gpus=1, profile=quiet),
        job("j1", 100, 4_000, gpus=1, profile=quiet),
        job("j2", 1_000, 10, gpus=1, profile=None),
        job("j3", 20_000, 5_000, gpus=1, profile=quiet),
        job("j4", 20_100, 4_000, gpus=1, profile=quiet),
    ]
    cluster = ClusterSpec({"vc": 1}, 1)

    def colocated(**settings):
        result = simulate(
            Workload(tuple(jobs), {}), cluster, "clarity", settings=settings, colocation=Surprising()
        )
        return result.jobs["colocated"].tolist()

    assert colocated() == [True, True, False, False, False]
    assert colocated(learns_speeds=False) == [True, True, False, True, True]
    assert colocated(pair_speeds=Surprising()) == [False] * 5


def test_bad_settings_name_the_value():
    with pytest.raises(BadInputError, match="price_short"):
        load_policy("clarity", {"price_short": -1.0})
