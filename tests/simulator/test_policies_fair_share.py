"""Fair share: usage that decays, and which jobs go first because of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, check_policy, sample_changes, sample_workload
from simulator.policies.fair_share import DecayedUsage, FairShare, FairShareSettings
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload

NODE = ClusterSpec({"vc": 1}, 8)
DAY = 86_400.0


def job(i, submit, gpus, duration, user, vc="vc"):
    return Job(f"j{i}", vc, user, gpus, float(submit), float(duration), float(duration), i)


def starts(*jobs, cluster=NODE, **chosen):
    made = FairShare(FairShareSettings(**chosen))
    return simulate(Scenario(Workload(jobs, {}), cluster), made).jobs["first_start_time_s"].tolist()


def test_the_heavier_user_waits():
    # "heavy" was first with everything; both then want the node again.
    jobs = [
        job(0, 0, 8, 1_000, "heavy"),
        job(1, 1, 8, 10, "heavy"),
        job(2, 2, 8, 10, "heavy"),
        job(3, 3, 8, 10, "light"),
    ]
    assert starts(*jobs) == [0, 1_010, 1_020, 1_000]
    assert starts(*jobs[:3], job(3, 3, 8, 10, "heavy")) == [0, 1_000, 1_010, 1_020]  # one user: FIFO


def test_a_larger_share_makes_up_for_more_usage():
    jobs = [job(0, 0, 8, 300, "a"), job(1, 1, 8, 100, "b"), job(2, 2, 8, 10, "a"), job(3, 3, 8, 10, "b")]
    assert starts(*jobs) == [0, 300, 410, 400]
    assert starts(*jobs, shares={"a": 4.0}) == [0, 300, 400, 410]


def test_usage_is_forgotten_with_the_half_life():
    # Long ago "old" used four times as much as "new" did just now.
    past = [job(0, 0, 8, 4_000, "old"), job(1, 10 * DAY, 8, 1_000, "new")]
    present = [
        job(2, 10 * DAY + 1_000, 8, 100, "x"),
        job(3, 10 * DAY + 1_001, 8, 10, "new"),
        job(4, 10 * DAY + 1_002, 8, 10, "old"),
    ]
    at = 10 * DAY + 1_100
    assert starts(*past, *present, half_life_s=DAY)[3:] == [at + 10, at]
    assert starts(*past, *present, half_life_s=100 * DAY)[3:] == [at, at + 10]


def test_running_jobs_count_while_they_run():
    # Neither has ended a job, but "a" holds more.
    cluster = ClusterSpec({"vc": 2}, 8)
    jobs = [
        job(0, 0, 8, 900, "a"),
        job(1, 0, 2, 900, "b"),
        job(2, 0, 6, 100, "c"),
        job(3, 1, 6, 9, "a"),
        job(4, 2, 6, 9, "b"),
    ]
    assert starts(*jobs, cluster=cluster)[3:] == [109, 100]


def test_users_compete_inside_their_virtual_cluster():
    cluster = ClusterSpec({"vc": 1, "other": 1}, 8)
    jobs = [
        job(0, 0, 8, 500, "a", "other"),
        job(1, 0, 8, 500, "b"),
        job(2, 1, 8, 10, "b"),
        job(3, 2, 8, 10, "a"),
    ]
    assert starts(*jobs, cluster=cluster)[2:] == [510, 500]


def test_jobs_of_unknown_users_are_one_users():
    jobs = [job(0, 0, 8, 500, None), job(1, 1, 8, 10, None), job(2, 2, 8, 10, "u")]
    assert starts(*jobs) == [0, 510, 500]


spans = st.tuples(st.sampled_from("ab"), st.integers(1, 16), st.floats(0, 100), st.floats(0, 100))


@settings(max_examples=200)
@given(runs=st.lists(spans, max_size=20), half_life=st.floats(0.3, 50), later=st.floats(0, 50))
def test_usage_is_the_decayed_integral_of_gpus(runs, half_life, later):
    """The books against the integral itself, jobs cut off at `now`; a short half-life moves the origin."""
    now = 60.0 + later
    events = []
    expected = {"a": 0.0, "b": 0.0}
    for user, gpus, start, length in runs:
        end = min(now, start + length)
        if start <= now:
            events.append((start, 0, user, gpus))
            if start + length <= now:
                events.append((start + length, 1, user, gpus))
            log2 = 0.6931471805599453
            weight = half_life / log2 * (2 ** ((end - now) / half_life) - 2 ** ((start - now) / half_life))
            expected[user] += gpus * weight
    usage = DecayedUsage(half_life)
    for at, stops, user, gpus in sorted(events):
        (usage.stop if stops else usage.start)(user, gpus, at)
    for user, gpu_s in expected.items():
        assert usage.of(user, now) == pytest.approx(gpu_s, rel=1e-6, abs=1e-6)


def test_a_long_log_does_not_overflow():
    usage = DecayedUsage(60.0)
    for hour in range(24 * 365):
        usage.start("u", 8, 3_600.0 * hour)
        usage.stop("u", 8, 3_600.0 * hour + 60)
    assert usage.of("u", 3_600.0 * (24 * 365 - 1) + 60) == pytest.approx(8 * 60 / 0.6931471805599453 / 2)


def test_a_job_may_run_for_thousands_of_half_lives():
    usage = DecayedUsage(1.0)
    usage.start("u", 8, 0.0)
    usage.start("v", 1, 9_999.0)
    assert usage.of("u", 10_000.0) == pytest.approx(8 / 0.6931471805599453)
    usage.stop("u", 8, 20_000.0)
    assert usage.of("u", 20_001.0) == pytest.approx(4 / 0.6931471805599453)


class _Recounts(FairShare):
    """Compares what is charged with what runs, and the order of starts with the order of usage."""

    def decide(self, snapshot):
        usable = {pool: list(pool.running) for pool in snapshot.changed}
        actions = super().decide(snapshot)
        for pool, running in usable.items():
            begun = [action.job for action in actions if action.job.pool == pool.name]
            assert set(self._books[pool.name].charged) == {*running, *begun}
        return actions


@pytest.mark.parametrize("shape", ["loaded", "burst", "churn"])
def test_exactly_the_running_jobs_are_charged(shape):
    workload, cluster = sample_workload(shape, seed=3)
    changes = sample_changes(shape, 3, cluster)
    simulation = AuditedSimulation(
        Scenario(workload, cluster, changes=changes), _Recounts(), name="fair_share"
    )
    simulation.run()
    assert len(simulation.result().jobs) == len(workload)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1_000), gap=st.integers(20, 60))
def test_of_two_users_who_always_want_the_node_each_gets_half(seed, gap):
    """One floods the queue, the other asks for one job at a time; in the end both have run as much."""
    flood = [job(i, 0, 8, 50, "flood") for i in range(100)]
    steady = [job(100 + i, gap * i, 8, 50, "steady") for i in range(100)]
    rows = sorted([*flood, *steady], key=lambda row: row.submit_time_s)
    rows = tuple(job(i, row.submit_time_s, 8, 50, row.user) for i, row in enumerate(rows))
    done = simulate(Scenario(Workload(rows, {}), NODE), "fair_share").jobs
    half = done[done["end_time_s"] <= 100 * 50]
    assert abs((half["user"] == "flood").sum() - (half["user"] == "steady").sum()) <= 4


@pytest.mark.parametrize(
    ("chosen", "named"), [({"half_life_s": 0.0}, "half_life_s"), ({"shares": {"u": -1.0}}, "share of 'u'")]
)
def test_bad_settings_are_named(chosen, named):
    with pytest.raises(BadInputError, match=named):
        load_policy("fair_share", chosen)


def test_other_settings_conform():
    chosen = {"half_life_s": 600.0, "shares": {"user1": 10.0}}
    assert list(check_policy(lambda: load_policy("fair_share", chosen), "fair_share"))
