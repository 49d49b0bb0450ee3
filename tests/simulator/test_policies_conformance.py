"""Every registered policy keeps the rules, and the rules catch policies that do not."""

from dataclasses import fields
from itertools import islice

import pytest

from experiments.artifact_rules.rule_sets import LUCID_ARTIFACT
from foundation import parts
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.parts import Part
from simulator.actions import Colocate, Preempt, Start
from simulator.cluster.placement import Placement
from simulator.conformance import SHAPES, ConformanceError, check_policy, sample_workload
from simulator.engine.simulation import PolicyError
from simulator.policies.fifo import Fifo
from simulator.policies.registry import (
    elastic_policy_names,
    load_policy,
    policy_class,
    policy_names,
    usable_policies,
)
from simulator.policies.sjf import Sjf
from simulator.policy import Policy
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario


@pytest.mark.slow
@pytest.mark.parametrize("name", policy_names())
def test_policy_conforms(name):
    assert list(check_policy(lambda: load_policy(name), name))


@pytest.mark.parametrize("name", policy_names())
def test_a_setting_of_another_kind_is_refused_in_words(name):
    """`--setting lucid.overtaking_bound_s=abc` is a slip of the user's, not a fault inside the policy."""
    settings = getattr(policy_class(name), "Settings", None)
    for field in fields(settings) if settings is not None else ():
        if field.type in (int, float, bool, float | None):
            with pytest.raises(BadInputError, match=f"{field.name} is 'abc'"):
                load_policy(name, {field.name: "abc"})


@pytest.mark.parametrize("name", [name for name in policy_names() if not policy_class(name).reads_profiles])
@pytest.mark.parametrize("shape", ["loaded", "churn"])
def test_a_policy_that_reads_no_profiles_does_the_same_without_them(name, shape):
    workload, cluster = sample_workload(shape, seed=3)
    known = simulate(Scenario(workload, cluster), name).jobs
    assert simulate(Scenario(workload.with_columns(profile=None, phase=None), cluster), name).jobs.equals(
        known
    )


@pytest.mark.parametrize("name", sorted(LUCID_ARTIFACT.policy_settings))
def test_policy_conforms_under_the_artifacts_rules(name):
    assert list(check_policy(lambda: load_policy(name, rules=LUCID_ARTIFACT), name, rules=LUCID_ARTIFACT))


@pytest.mark.parametrize("sharing", ["apathetic", "none"])
def test_lucid_conforms_with_every_strategy(sharing):
    assert list(check_policy(lambda: load_policy("lucid", {"sharing": sharing}), "lucid"))


def test_a_policy_that_hides_its_oracle_is_caught():
    class Hidden(Sjf):
        oracle = False

    with pytest.raises(ConformanceError, match="knows the future"):
        list(check_policy(Hidden, "hidden"))


class HighestResponseRatio(Policy):
    """(wait + estimate) / estimate, highest first: it ages jobs, and says nothing of it."""

    needs_estimates = True

    def priority(self, job):
        return job.index

    def order(self, pool, now_s):
        return sorted(pool.queue, key=lambda job: -(now_s - job.submit_time_s) / job.estimate_s)

    def decide(self, snapshot):
        starts = []
        for pool in snapshot.changed:
            plan = pool.plan()
            for job in self.order(pool, snapshot.now_s):
                placement = plan.place(job.gpus)
                if placement is None:
                    break
                starts.append(Start(job, placement))
        return starts


class OutspokenResponseRatio(HighestResponseRatio):
    """The same, asked again when the first of its queue is overtaken."""

    def next_change_s(self, pool, now_s):
        first, *others = self.order(pool, now_s) or [None]
        overtakes_s = (
            (job.submit_time_s * first.estimate_s - first.submit_time_s * job.estimate_s)
            / (first.estimate_s - job.estimate_s)
            for job in others
            if job.estimate_s < first.estimate_s
        )
        return min((at_s + 1e-5 for at_s in overtakes_s if at_s + 1e-5 > now_s), default=None)


def test_a_policy_that_ages_jobs_says_when_its_order_changes():
    with pytest.raises(
        ConformanceError, match=r"silent decides otherwise when it is asked in between: .*_s of"
    ):
        list(check_policy(HighestResponseRatio, "silent"))
    passed = list(check_policy(OutspokenResponseRatio, "outspoken"))
    assert [check for check in passed if check.endswith("when asked in between")] == [
        f"{shape}: the same schedule when asked in between" for shape in SHAPES
    ]


def test_a_policy_that_decides_at_events_only_says_so():
    class AtEvents(HighestResponseRatio):
        at_events_only = True

    of_two_shapes = islice(check_policy(AtEvents, "declared"), 6)
    assert not [check for check in of_two_shapes if "in between" in check]


class _StartsNobody(Fifo):
    def decide(self, snapshot):
        return []


class _OverbooksNodes(Fifo):
    def decide(self, snapshot):
        return [Start(job, Placement.of([(0, job.gpus)])) for pool in snapshot.changed for job in pool.queue]


class _SplitsGangs(Fifo):
    def decide(self, snapshot):
        return [
            Start(job, Placement.of([(0, 1)]))
            for pool in snapshot.changed
            for job in pool.queue
            if job.gpus > 1
        ]


class _PlacesOnPairs(Fifo):
    def decide(self, snapshot):
        return [Start(job, ((0, job.gpus),)) for pool in snapshot.changed for job in pool.queue]


class _PreemptsWaiting(Fifo):
    def decide(self, snapshot):
        return [Preempt(job) for pool in snapshot.changed for job in pool.queue]


class _SharesWithItself(Fifo):
    def decide(self, snapshot):
        return [Colocate(job, job) for pool in snapshot.changed for job in pool.queue]


class _NeverStops(Fifo):
    def decide(self, snapshot):
        actions = super().decide(snapshot)
        return [*actions, *(Preempt(action.job) for action in actions)]


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (_StartsNobody, "left 120 of 120 jobs incomplete"),
        (_OverbooksNodes, "taken GPUs"),
        (_SplitsGangs, "needs all of its"),
        (_PlacesOnPairs, "no placement"),
        (_PreemptsWaiting, "preempts"),
        (_SharesWithItself, "colocates"),
        (_NeverStops, "incomplete"),
    ],
)
def test_a_policy_that_breaks_the_rules_is_refused(broken, named):
    workload, cluster = sample_workload("loaded", seed=2)
    with pytest.raises(PolicyError, match=named):
        simulate(Scenario(workload, cluster), broken())


def test_unknown_names_list_the_alternatives():
    with pytest.raises(UnknownNameError, match="fair_share, fifo"):
        load_policy("fifoo")
    with pytest.raises(UnknownNameError, match="profiling_nodes"):
        load_policy("lucid", {"nodes": 1})
    with pytest.raises(BadInputError, match="no settings"):
        load_policy("fifo", {"nodes": 1})


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        ("lucid", {"sharing": "much"}, "apathetic"),
        ("lucid", {"profiling_limit_s": 0.0}, "profiling_limit_s"),
        ("lucid", {"profiling_nodes": -1}, "profiling_nodes"),
        ("tiresias", {"threshold_gpu_s": 0}, "threshold_gpu_s"),
        ("tiresias", {"round_s": -60}, "round_s"),
        ("srtf", {"selection": "best"}, "quota"),
        ("srtf", {"preemption_s": float("nan")}, "preemption_s"),
    ],
)
def test_bad_settings_name_the_value_and_the_alternatives(name, settings, named):
    with pytest.raises(BadInputError, match=named):
        load_policy(name, settings)


def test_policies_that_need_estimates_say_so():
    workload, cluster = sample_workload("quiet", seed=3)
    import numpy as np

    without = workload.with_estimates(np.full(len(workload), np.nan))
    for name in policy_names():
        if policy_class(name).needs_estimates:
            with pytest.raises(BadInputError, match="estimated durations"):
                simulate(Scenario(without, cluster), name)
        else:
            simulate(Scenario(without, cluster), name)


def test_results_of_all_policies_align_by_row():
    workload, cluster = sample_workload("loaded", seed=4)
    results = {name: simulate(Scenario(workload, cluster), name) for name in policy_names()}
    ids = [job.job_id for job in workload.jobs]
    assert all(result.jobs["job_id"].tolist() == ids for result in results.values())
    assert [result.summary["policy"] for result in results.values()] == policy_names()


def test_parts_offer_policies(monkeypatch):
    offered = {
        "shortest": "simulator.policies.sjf:Sjf",
        "not_one": "simulator.cluster.spec:ClusterSpec",
        "fifo": "simulator.policies.sjf:Sjf",  # ours keeps its name
    }
    monkeypatch.setattr(parts, "installed_parts", lambda: (Part("mine", "", policies=offered),))
    assert policy_names()[-2:] == ["not_one", "shortest"]
    assert isinstance(load_policy("shortest"), Sjf)
    assert isinstance(load_policy("fifo"), Fifo)
    with pytest.raises(BadInputError, match="subclass"):
        load_policy("not_one")


def test_a_policy_that_needs_a_part_which_is_not_installed_is_left_out_where_all_are_listed(
    tmp_path, monkeypatch
):
    (tmp_path / "parts").mkdir()
    (tmp_path / "on_another.py").write_text("from parts.not_there.policy import Policy\n")
    monkeypatch.syspath_prepend(tmp_path)
    offered = {"on_another": "on_another:Policy"}
    monkeypatch.setattr(parts, "installed_parts", lambda: (Part("mine", "", policies=offered),))
    assert set(usable_policies()) == set(policy_names()) - {"on_another"}
    assert "on_another" not in elastic_policy_names()
    with pytest.raises(NotFoundError, match=r"pip install \./parts/not_there"):
        load_policy("on_another")


def test_a_policy_that_is_said_to_need_another_part_is_not_offered_without_it(monkeypatch):
    offered = {"shortest": "simulator.policies.sjf:Sjf", "second": "simulator.policies.sjf:Sjf"}
    mine = Part("mine", "", policies=offered, needs={"shortest": "lending"})
    monkeypatch.setattr(parts, "installed_parts", lambda: (mine,))
    assert "shortest" not in policy_names()
    assert "second" in policy_names()
    with pytest.raises(NotFoundError, match=r"`policy shortest` needs the part 'lending'.*\./parts/lending"):
        load_policy("shortest")
    monkeypatch.setattr(parts, "installed_parts", lambda: (mine, Part("lending", "")))
    assert isinstance(load_policy("shortest"), Sjf)
