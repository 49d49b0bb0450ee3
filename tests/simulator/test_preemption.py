"""The preemptive policies decide as the rules in plain words do, only faster."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.artifact_rules.rule_sets import LUCID_ARTIFACT
from simulator.actions import Preempt, Start
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import sample_changes, sample_workload
from simulator.mechanisms.preemption import PreemptionSettings
from simulator.policies.srtf import Srtf
from simulator.policies.tiresias import Tiresias, TiresiasSettings
from simulator.replay import simulate
from simulator.scenario.rules import DEFAULT
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job
from simulator.workload.workload import Workload


def plain_fit(pool, rank):
    """`preempt_to_fit`, by trying: everybody is ranked and every victim is tried at each decision."""
    plan = pool.plan()
    actions = []
    victims = sorted(pool.running, key=rank)  # stable: on ties the last started goes first
    for job in pool.queue:
        chosen, trial = [], plan.copy()
        found = trial.find(job.gpus)
        for victim in reversed(victims):
            if found is not None or rank(victim) <= rank(job):
                break
            trial.give(victim.placement)
            chosen.append(victim)
            found = trial.find(job.gpus)
        if found is None:
            continue
        nodes = {node for node, _ in found}
        for victim in chosen:
            if any(node in nodes for node, _ in victim.placement):
                actions.append(Preempt(victim))
                victims.remove(victim)
                plan.give(victim.placement)
        plan.take(found)
        actions.append(Start(job, found))
    return actions


def plain_quota(pool, rank, waiting_first):
    """`quota_walk`, by walking."""
    waiting = [(rank(job), not waiting_first, i, job) for i, job in enumerate(pool.queue)]
    running = [(rank(job), waiting_first, i, job) for i, job in enumerate(pool.running)]
    quota, chosen, actions, plan = pool.total_gpus, [], [], pool.plan()
    for *_, job in sorted(waiting + running, key=lambda entry: entry[:3]):
        if job.gpus <= quota:
            quota -= job.gpus
            if job not in pool.running:
                chosen.append(job)
        elif job in pool.running:
            actions.append(Preempt(job))
            plan.give(job.placement)
    for job in chosen:
        found = plan.place(job.gpus)
        if found is not None:
            actions.append(Start(job, found))
    return actions


class PlainSrtf(Srtf):
    def decide(self, snapshot):
        def rank(job):
            return job.remaining_at(snapshot.now_s)

        return [
            action
            for pool in snapshot.changed
            if len(pool.queue)
            for action in (
                plain_fit(pool, rank)
                if self.settings.selection == "fit"
                else plain_quota(pool, rank, waiting_first=True)
            )
        ]


class PlainTiresias(Tiresias):
    def decide(self, snapshot):
        def rank(job):
            lower = job.attained_at(snapshot.now_s) * job.gpus > self.settings.threshold_gpu_s
            return (lower, job.submit_time_s)

        return [
            action
            for pool in snapshot.changed
            if len(pool.queue)
            for action in (
                plain_fit(pool, rank)
                if self.settings.selection == "fit"
                else plain_quota(pool, rank, waiting_first=False)
            )
        ]


@st.composite
def crowded(draw):
    """Few nodes, jobs of all sizes, many at the same second and many of the same length."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 400),
                st.sampled_from([1, 1, 1, 2, 3, 4, 6, 8, 12]),
                st.sampled_from([0, 1, 10, 50, 100, 150, 400]),
            ),
            min_size=5,
            max_size=60,
        )
    )
    rows.sort(key=lambda row: row[0])
    return Workload(
        tuple(
            Job(f"j{i}", "vc", None, gpus, float(submit), float(duration), order=i)
            for i, (submit, gpus, duration) in enumerate(rows)
        ),
        {},
    )


POLICIES = {
    "srtf": (Srtf, PlainSrtf, PreemptionSettings),
    "tiresias": (Tiresias, PlainTiresias, TiresiasSettings),
}
CASES = [
    ("srtf", {"preemption_s": 7.0}),
    ("srtf", {"preemption_s": 0.0}),
    ("srtf", {"selection": "quota", "preemption_s": 5.0, "completion_s": 1.0}),
    ("tiresias", {"threshold_gpu_s": 120.0, "round_s": 10.0, "preemption_s": 5.0}),
    ("tiresias", {"threshold_gpu_s": 120.0, "round_s": None, "preemption_s": 5.0}),
    ("tiresias", {"selection": "quota", "threshold_gpu_s": 120.0, "round_s": 10.0, "completion_s": 1.0}),
]


def schedules(name, given_settings, workload, cluster, **how):
    fast, plain, settings_class = POLICIES[name]
    made = settings_class(**given_settings)
    return [simulate(Scenario(workload, cluster, **how), policy(made)).jobs for policy in (fast, plain)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given_settings"), CASES, ids=str)
@settings(max_examples=20, deadline=None)
@given(workload=crowded())
def test_crowded_nodes(name, given_settings, workload):
    fast, plain = schedules(name, given_settings, workload, ClusterSpec({"vc": 3}, 4))
    assert fast.equals(plain)


@pytest.mark.parametrize(("name", "given_settings"), CASES, ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_nodes_that_come_leave_and_fail(name, given_settings, seed):
    workload, cluster = sample_workload("churn", seed)
    changes = sample_changes("churn", seed, cluster)
    assert changes
    for rules in (DEFAULT, LUCID_ARTIFACT):
        fast, plain = schedules(name, given_settings, workload, cluster, changes=changes, rules=rules)
        assert fast.equals(plain)
        assert fast["preemptions"].sum() > 0
