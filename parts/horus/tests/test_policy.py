"""Horus' rules on workloads small enough to follow by hand, and what holds for all."""

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from parts.horus.policy import Horus, HorusSettings, UtilisationQueues, slowdown
from simulator.actions import Colocate, Preempt
from simulator.cluster.changes import NodeFailure
from simulator.cluster.placement import FreeGpus
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import AuditedSimulation, check_policy
from simulator.job_view import JobView, RunState
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload
from tests.needs_part import needs_part

NODE = ClusterSpec({"vc": 1}, 8)


def job(i, submit, gpus, duration, util=30.0, mem=5_000.0, *, vc="vc", outgrows=None):
    """`outgrows`: (after s, true memory)."""
    profile = None if util is None else JobProfile(util, 10, mem)
    phase = None if outgrows is None else (float(outgrows[0]), JobProfile(util, 10, outgrows[1]))
    return Job(f"j{i}", vc, "u", gpus, float(submit), float(duration), None, i, profile, phase=phase)


def run(*jobs, cluster=NODE, **chosen):
    return simulate(Scenario(Workload(jobs, {}), cluster), Horus(HorusSettings(**chosen))).jobs


def test_idle_gpus_cost_least():
    jobs = run(job(0, 0, 4, 100), job(1, 0, 4, 100))
    assert jobs["colocated"].tolist() == [False, False]


def test_a_job_joins_the_partner_with_whom_memory_and_slowdown_are_least():
    running = [job(0, 0, 4, 1_000, util=90), job(1, 0, 4, 1_000, util=20)]
    assert run(*running, job(2, 1, 4, 100, util=60))["colocated"].tolist() == [False, True, True]
    # Both sums stay below 100 %: memory decides.
    light = [job(0, 0, 4, 1_000, util=20, mem=9_000), job(1, 0, 4, 1_000, util=30, mem=1_000)]
    assert run(*light, job(2, 1, 4, 100, util=60))["colocated"].tolist() == [False, True, True]
    weighed = run(*running, job(2, 1, 4, 100, util=60), slowdown_weight=0.0)
    assert weighed["colocated"].tolist() == [True, False, True]  # equal memory: who started first


def test_slowdown_begins_at_the_whole_gpu_and_grows_with_the_square():
    assert slowdown(99.0) == slowdown(100.0) == 0
    assert slowdown(150.0) == pytest.approx(0.75)
    assert slowdown(200.0) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "second",
    [
        job(1, 1, 8, 100, mem=20_000),  # 25,000 MiB on a GPU of 24,576
        job(1, 1, 4, 100),  # another demand
        job(1, 1, 8, 100, util=None),  # nothing is predicted
    ],
)
def test_jobs_that_do_not_belong_together_wait(second):
    assert run(job(0, 0, 8, 500), second)["first_start_time_s"].tolist() == [0, 500]


def test_a_job_that_outgrows_its_memory_fails_and_runs_alone_later():
    jobs = run(job(0, 0, 8, 1_000), job(1, 10, 8, 300, mem=6_000, outgrows=(20, 21_000)))
    assert jobs["lost_s"].tolist() == [0, 20]
    assert jobs["preemptions"].tolist() == [0, 1]
    assert jobs["end_time_s"].tolist() == [1_000, 1_300]  # the other never knew; this one starts from zero
    first_outgrows = run(job(0, 0, 8, 1_000, outgrows=(50, 22_000)), job(1, 10, 8, 300, mem=6_000))
    assert first_outgrows["lost_s"].tolist() == [50, 0]  # who outgrew its prediction fails
    assert first_outgrows["end_time_s"].tolist() == [1_310, 310]


def test_what_is_seen_of_a_running_job_counts_more_than_what_was_predicted():
    grown = run(job(0, 0, 8, 1_000, outgrows=(50, 22_000)), job(1, 100, 8, 300, mem=6_000))
    assert grown["first_start_time_s"].tolist() == [0, 1_000]
    # Also when both happen in the same second.
    grown = run(job(0, 0, 8, 1_000, outgrows=(100, 22_000)), job(1, 100, 8, 300, mem=6_000))
    assert grown["first_start_time_s"].tolist() == [0, 1_000]
    shrunk = run(job(0, 0, 8, 1_000, mem=22_000, outgrows=(50, 5_000)), job(1, 10, 8, 300, mem=6_000))
    assert shrunk["first_start_time_s"].tolist() == [0, 50]


def test_a_wrong_prediction_that_still_fits_does_no_harm():
    jobs = run(job(0, 0, 8, 1_000), job(1, 10, 8, 300, outgrows=(20, 12_000)))
    assert jobs["preemptions"].tolist() == [0, 0]


def queues_of(classes, *jobs):
    pool = NodePool("vc", FreeGpus(1, 8))
    for i, row in enumerate(jobs):
        view = JobView(row, i)
        view.state, view.pool = RunState.PENDING, "vc"
        pool.queue.add(view.submit_time_s, view)
    queues = UtilisationQueues(classes)
    queues.follow(pool)
    return queues


def test_a_longer_queue_goes_first_but_is_not_served_for_ever():
    low = [job(i, 0, 1, 1, util=10) for i in range(6)]
    high = [job(6 + i, 0, 1, 1, util=90) for i in range(2)]
    queues = queues_of(2, *low, *high)
    served = []
    while (queue := queues.in_turn(100.0, set())) is not None:
        first = queue.first(1)[0]
        queues.serve(first)
        served.append("low" if first.index < 6 else "high")
    # Length x (1 + times passed over): 6 to 2, 5 to 4, 4 to 6; then 4 x 2 to 1, 3 to 2, 2 to 3.
    assert served == ["low", "low", "high", "low", "low", "high", "low", "low"]


def test_of_equally_long_queues_the_one_that_has_waited_longer_goes_first():
    queues = queues_of(3, job(0, 0, 1, 1, util=90), job(1, 90, 1, 1, util=10))
    assert queues.in_turn(100.0, set()).first(1)[0].index == 0


def test_a_large_job_that_was_overtaken_too_often_has_nodes_kept_for_it():
    stream = [job(i, 5 * i, 4, 100, util=None) for i in range(300)]
    large = job(300, 12, 16, 50, util=None)
    rows = sorted([*stream, large], key=lambda row: row.submit_time_s)
    workload = Workload(tuple(Job(**{**fields_of(row), "order": i}) for i, row in enumerate(rows)), {})
    cluster = ClusterSpec({"vc": 3}, 8)

    def waited(patience):
        made = Horus(HorusSettings(patience=patience))
        return simulate(Scenario(workload, cluster), made).jobs.set_index("job_id")["queuing_delay_s"]["j300"]

    assert waited(10) < 300
    assert waited(10_000) > 1_000


def fields_of(row):
    return {name: getattr(row, name) for name in Job.__dataclass_fields__}


class _Watched(Horus):
    """Checks each decision against the rules that it must keep."""

    def decide(self, snapshot):
        actions = super().decide(snapshot)
        for action in actions:
            if isinstance(action, Colocate):
                mine, theirs = action.job.profile, action.partner.profile
                assert mine.gpu_mem_mib + theirs.gpu_mem_mib <= self.settings.gpu_memory_mib
                assert action.job not in self._failed
                assert action.partner not in self._failed
            if isinstance(action, Preempt):
                assert not action.keeps_progress
        return actions


@st.composite
def workloads(draw):
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 300),
                st.sampled_from([1, 2, 4, 8, 12]),
                st.integers(1, 400),
                st.none() | st.integers(1, 100),
                st.integers(1_000, 23_000),
                st.none() | st.tuples(st.integers(1, 300), st.integers(1_000, 24_000)),
            ),
            min_size=1,
            max_size=40,
        )
    )
    rows.sort(key=lambda row: row[0])
    return Workload(
        tuple(
            job(i, at, gpus, took, util, float(mem), outgrows=None if util is None else outgrows)
            for i, (at, gpus, took, util, mem, outgrows) in enumerate(rows)
        ),
        {},
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    workload=workloads(),
    queues=st.integers(1, 5),
    buffer=st.integers(1, 5),
    patience=st.integers(0, 20),
    fails_at=st.none() | st.integers(0, 500),
)
def test_memory_is_never_promised_twice_and_who_failed_once_runs_alone(
    workload, queues, buffer, patience, fails_at
):
    made = _Watched(HorusSettings(queues=queues, buffer=buffer, patience=patience))
    changes = [] if fails_at is None else [NodeFailure(float(fails_at), "vc", 0, 100.0)]
    simulation = AuditedSimulation(
        Scenario(workload, ClusterSpec({"vc": 2}, 8), changes=changes), made, name="horus"
    )
    simulation.run()
    jobs = simulation.result().jobs
    assert (jobs["preemptions"] <= 1).all()


class _TriesAllAgain(Horus):
    """Serves the queues at every decision, whether or not anything was freed."""

    def decide(self, snapshot):
        self._gained.clear()
        return super().decide(snapshot)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(workload=workloads(), buffer=st.integers(1, 3), patience=st.integers(0, 20))
def test_not_trying_again_what_cannot_have_changed_changes_nothing(workload, buffer, patience):
    cluster = ClusterSpec({"vc": 2}, 8)
    stable = replace(workload, jobs=tuple(replace(row, phase=None) for row in workload.jobs))
    chosen = HorusSettings(buffer=buffer, patience=patience)
    lazy, eager = (simulate(Scenario(stable, cluster), made(chosen)).jobs for made in (Horus, _TriesAllAgain))
    assert lazy["end_time_s"].tolist() == eager["end_time_s"].tolist()


@pytest.mark.parametrize("name", ["queues", "buffer", "patience", "gpu_memory_mib", "memory_weight"])
def test_bad_settings_are_named(name):
    with pytest.raises(BadInputError, match=name):
        load_policy("horus", {name: -1})


@pytest.mark.parametrize("chosen", [{"queues": 5, "buffer": 1, "patience": 0}, {"gpu_memory_mib": 80_000.0}])
def test_other_settings_conform(chosen):
    assert list(check_policy(lambda: load_policy("horus", chosen), "horus"))


@pytest.mark.slow
@needs_part("experiments")
def test_it_conforms_where_an_artifact_loses_partners():
    from experiments.artifact_rules.rule_sets import LUCID_ARTIFACT

    assert list(check_policy(lambda: load_policy("horus"), "horus", rules=LUCID_ARTIFACT))


def test_it_says_that_it_knows_equal_nodes_only():
    unequal = ClusterSpec.from_nodes(
        pd.DataFrame(
            {
                "virtual_cluster": ["vc", "vc"],
                "nodes": [1, 1],
                "gpus_per_node": [8, 4],
                "partitions": [None, None],
            }
        )
    )
    with pytest.raises(BadInputError, match="knows equal nodes only"):
        simulate(Scenario(Workload((job(0, 0, 1, 10),), {}), unequal), "horus")
