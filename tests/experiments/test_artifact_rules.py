"""Rule sets by name, and what each fault of the authors' simulators does, worked out by hand."""

import pandas as pd
import pytest

from experiments.artifact_rules.artifact import ALL
from experiments.artifact_rules.pair_speed_rules import PairsInOrder, RuledSpeeds
from experiments.artifact_rules.pcs_rules import ARTIFACTS
from experiments.artifact_rules.rule_sets import (
    HELIOS_SIMULATOR,
    LUCID_ARTIFACT,
    LUCID_SIMULATOR,
)
from experiments.pages import written
from foundation import parts
from foundation.errors import BadInputError, LucidError, NotFoundError, UnknownNameError
from foundation.parts import Part
from simulator.cluster.spec import ClusterSpec
from simulator.conformance import check_policy
from simulator.policies.registry import load_policy
from simulator.replay import simulate
from simulator.scenario.rules import DEFAULT, load_rules
from simulator.scenario.scenario import Scenario
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload

ONE_NODE = ClusterSpec({"a": 1}, 8)


def job(name, gpus, submit, duration, estimate=None, *, kind="VGG/x/1/0", score=0, vc="a"):
    return Job(
        name,
        vc,
        None,
        gpus,
        float(submit),
        float(duration),
        float(duration if estimate is None else estimate),
        profile=JobProfile(60.0, 60.0, 5_000.0, False, kind, score),
    )


def replay(policy, jobs, *, rules="lucid-artifact", cluster=ONE_NODE, speeds=(0.5, 0.8), settings=None):
    """Return job_id -> (start, end). `speeds`: of the job that joins, and of the one that is there."""
    workload = Workload(tuple(jobs), {})
    pairs = pd.DataFrame(
        [("VGG/x/1/0", speeds[0], "VGG/x/1/0", speeds[1])],
        columns=["job_type_1", "speed_1", "job_type_2", "speed_2"],
    )
    result = simulate(
        Scenario(workload, cluster, rules=load_rules(rules), colocation=PairsInOrder(pairs)),
        policy,
        settings=settings,
    )
    rows = result.jobs
    return dict(
        zip(rows["job_id"], zip(rows["first_start_time_s"], rows["end_time_s"], strict=True), strict=True)
    )


NO_PROFILER = {"profiling_nodes": 0, "profiling_max_gpus": 0}


class TestNames:
    def test_each_rule_set_answers_to_its_name(self):
        for name in ("default", "lucid-artifact", "helios-artifact"):
            assert load_rules(name).name == name

    @pytest.mark.parametrize(
        "name", ["lucid", "lucid-artifact-without:", "default-without:all", "x-without:all"]
    )
    def test_an_unknown_name_lists_the_alternatives(self, name):
        with pytest.raises(UnknownNameError, match=r"helios-artifact|lost_partner"):
            load_rules(name)

    def test_an_unknown_fault_lists_the_faults(self):
        with pytest.raises(UnknownNameError, match="lost_partner") as raised:
            load_rules("lucid-artifact-without:lost_partners")
        assert "lost_partners" in str(raised.value)

    def test_faults_can_be_left_out_one_by_one(self):
        rules = load_rules("lucid-artifact-without:lost_partner,free_profiling")
        assert rules.restores_partner
        assert "free_profiling" not in rules.policy_settings["lucid"]
        assert set(LUCID_ARTIFACT.faults) - set(rules.faults) == {"lost_partner", "free_profiling"}

    def test_leaving_out_every_fault_is_leaving_out_all(self):
        names = [fault.name for fault in LUCID_SIMULATOR.faults]
        assert load_rules(f"lucid-artifact-without:{','.join(names)}") == load_rules(
            "lucid-artifact-without:all"
        )

    @pytest.mark.parametrize("artifact", ARTIFACTS.values(), ids=lambda artifact: artifact.name)
    def test_every_fault_changes_the_rules(self, artifact):
        whole = artifact.rules()
        for fault in artifact.faults:
            less = artifact.rules([fault.name])
            assert (less.policy_settings, vars(less)) != (whole.policy_settings, vars(whole))
        assert artifact.rules([ALL]).faults == ()


class TestOffers:
    def test_without_the_experiments_their_rules_say_what_to_install(self, monkeypatch):
        monkeypatch.setattr(parts, "installed_parts", tuple)
        with pytest.raises(NotFoundError, match=r"pip install \./experiments"):
            load_rules("lucid-artifact-without:lost_partner")
        with pytest.raises(UnknownNameError, match="Choose one of: default"):
            load_rules("lucid")
        assert load_rules("default") is DEFAULT

    def test_what_is_no_rule_set_is_refused(self, monkeypatch):
        monkeypatch.setattr(
            parts, "installed_parts", lambda: (Part("mine", "", rules={"mine": "builtins:list"}),)
        )
        with pytest.raises(BadInputError, match=r"must be a function"):
            load_rules("mine")

    def test_settings_of_an_artifact_are_settings_under_its_rules_only(self):
        with pytest.raises(UnknownNameError, match="free_profiling"):
            load_policy("lucid", {"free_profiling": True})
        assert load_policy("lucid", {"free_profiling": False}, LUCID_ARTIFACT).settings.first_partner
        with pytest.raises(BadInputError, match="service"):
            load_policy("qssf", {"fresh_queue": "lifo"}, LUCID_ARTIFACT)


class TestPacking:
    def test_a_job_is_packed_before_idle_gpus_are_tried(self):
        jobs = [job("first", 1, 0, 100), job("second", 1, 10, 100)]
        packed = replay("lucid", jobs, settings=NO_PROFILER, speeds=(0.5, 0.8))
        # first: 10 s alone, then 0.8: 90 / 0.8 = 112.5 -> 122.5, up to 123, and a second late.
        assert packed["first"] == (0, 124)
        # second stays at half speed for good: 10 + 200 + 1.
        assert packed["second"] == (10, 211)
        alone = replay("lucid", jobs, settings=NO_PROFILER, rules="lucid-artifact-without:packs_before_idle")
        assert alone == {"first": (0, 101), "second": (10, 111)}

    def test_the_second_of_a_pair_is_restored_without_the_fault(self):
        jobs = [job("first", 1, 0, 100), job("second", 1, 10, 100)]
        found = replay("lucid", jobs, settings=NO_PROFILER, rules="lucid-artifact-without:lost_partner")
        # second has done (124 - 10) / 2 = 57 s when first ends; 43 s remain, and a second late.
        assert found == {"first": (0, 124), "second": (10, 168)}

    def test_the_first_of_a_pair_is_always_restored(self):
        jobs = [job("first", 1, 0, 1000), job("second", 1, 0, 10, 1000)]
        found = replay("lucid", jobs, settings=NO_PROFILER)
        # second: 10 / 0.5 + 1 = 21; first has done 0.8 x 21 = 16.8 by then: 21 + 983.2 -> 1005, and 1.
        assert found == {"first": (0, 1006), "second": (0, 21)}

    def test_a_lost_partner_is_nobodys_partner(self):
        jobs = [
            job("first", 8, 0, 10, 400),
            job("second", 8, 0, 400, 400),
            job("third", 8, 30, 10, 400),
        ]
        lost = replay("lucid", jobs, settings=NO_PROFILER)
        assert lost["third"][0] == lost["second"][1] == 801
        found = replay("lucid", jobs, settings=NO_PROFILER, rules="lucid-artifact-without:lost_partner")
        assert found["third"][0] == 30

    def test_the_first_partner_is_taken_and_not_the_best(self):
        jobs = [
            job("jumbo", 8, 0, 1000, score=2),
            job("tiny", 8, 0, 1000, score=0),
            job("new", 8, 10, 100, 1000, score=0),
        ]
        two_nodes = ClusterSpec({"a": 2}, 8)
        # The jumbo and the tiny fit together (2 + 0): they are a pair already, so keep them apart by score.
        jobs[1] = job("tiny", 8, 0, 1000, score=1)
        found = replay("lucid", jobs, cluster=two_nodes, settings=NO_PROFILER)
        assert found["jumbo"][1] > found["tiny"][1] == 1001
        best = replay(
            "lucid",
            jobs,
            cluster=two_nodes,
            settings=NO_PROFILER,
            rules="lucid-artifact-without:first_partner",
        )
        assert best["tiny"][1] > best["jumbo"][1] == 1001

    def test_jobs_that_nobody_measured_are_packed(self):
        jobs = [job("first", 8, 0, 100), job("second", 8, 0, 100)]
        assert replay("lucid", jobs, settings=NO_PROFILER)["second"][0] == 0
        honest = replay("lucid", jobs, settings=NO_PROFILER, rules="lucid-artifact-without:packs_unmeasured")
        assert honest["second"] == (101, 202)

    def test_faster_than_alone(self):
        jobs = [job("first", 1, 0, 100), job("second", 1, 0, 100)]
        fast = replay("lucid", jobs, settings=NO_PROFILER, speeds=(1.25, 1.0))
        assert fast["second"] == (0, 81)
        capped = replay(
            "lucid",
            jobs,
            settings=NO_PROFILER,
            speeds=(1.25, 1.0),
            rules="lucid-artifact-without:uncapped_speeds",
        )
        assert capped["second"] == (0, 101)


class TestSpeeds:
    PAIRS = pd.DataFrame(
        [("VGG/x/1/0", 0.5, "VGG/x/1/0", 0.8), ("NeuMF/x/1/0", 0.4, "VGG/x/1/0", 1.2)],
        columns=["job_type_1", "speed_1", "job_type_2", "speed_2"],
    )
    VGG = JobProfile(60.0, 60.0, 5_000.0, False, "VGG/x/1/0", 0)
    NEUMF = JobProfile(60.0, 60.0, 5_000.0, False, "NeuMF/x/1/0", 0)

    def test_of_two_jobs_of_one_type_the_one_that_joins_is_the_first(self):
        assert PairsInOrder(self.PAIRS).speeds(self.VGG, self.VGG) == (0.5, 0.8)

    def test_other_pairs_are_symmetric(self):
        model = PairsInOrder(self.PAIRS)
        assert model.speeds(self.NEUMF, self.VGG) == (0.4, 1.2)
        assert model.speeds(self.VGG, self.NEUMF) == (1.2, 0.4)

    def test_some_models_run_at_full_speed_whatever_was_measured(self):
        model = LUCID_ARTIFACT.pair_speeds(PairsInOrder(self.PAIRS))
        assert model.speeds(self.VGG, self.NEUMF) == (1.0, 1.0)
        honest = LUCID_SIMULATOR.rules([ALL]).pair_speeds(PairsInOrder(self.PAIRS))
        assert honest.speeds(self.VGG, self.NEUMF) == (1.0, 0.4)

    def test_our_own_rules_leave_a_model_as_it_is(self):
        model = PairsInOrder(self.PAIRS)
        assert DEFAULT.pair_speeds(model) is model

    def test_nothing_is_faster_than_the_greatest_speed(self):
        assert RuledSpeeds(PairsInOrder(self.PAIRS), 0.6).speeds(self.VGG, self.VGG) == (0.5, 0.6)


class TestFreeProfiling:
    CLUSTER = ClusterSpec({"a": 3, "b": 1}, 8)

    def test_a_job_is_in_its_virtual_cluster_while_the_profiler_still_has_it(self):
        long = [job(f"long{i}", 4, 0, 500, kind="BERT/x/1/0", score=2) for i in range(6)]
        late = job("late", 1, 1, 500, kind="BERT/x/1/0", score=2)
        found = replay("lucid", [*long, late], cluster=self.CLUSTER)
        # Two profiling nodes hold four of the six; two nodes of `a` went to the profiler, one is left.
        assert [found[f"long{i}"][0] for i in range(2)] == [0, 0]
        result = simulate(
            Scenario(Workload((*long, late), {}), self.CLUSTER, rules=load_rules("lucid-artifact")), "lucid"
        )
        rows = result.jobs.set_index("job_id")
        # late waits from 1 to 80 for the profiler, and not for its cluster only because others hold it.
        assert rows.loc["long5", "queuing_delay_s"] >= 80
        assert result.summary["profiling_nodes"] == 2
        assert rows["profiled"].all()
        assert not rows["ended_in_profiling"].any()

    def test_who_ends_in_the_profiler_never_queues_elsewhere(self):
        found = replay("lucid", [job("short", 1, 0, 80), job("longer", 1, 0, 81)], cluster=self.CLUSTER)
        assert found == {"short": (0, 80), "longer": (0, 82)}

    def test_profiling_takes_time_without_the_fault(self):
        found = replay(
            "lucid",
            [job("longer", 1, 0, 81)],
            cluster=self.CLUSTER,
            rules="lucid-artifact-without:free_profiling",
        )
        assert found["longer"][1] == 80 + 81 + 1

    def test_the_nodes_come_from_the_largest_virtual_cluster(self):
        # Two of the three nodes of `a` profile: its 8-GPU jobs take turns on the third.
        jobs = [job(f"j{i}", 8, 0, 100, kind="BERT/x/1/0", score=2) for i in range(2)]
        assert replay("lucid", jobs, cluster=self.CLUSTER)["j1"][0] == 101
        elsewhere = [job(f"j{i}", 8, 0, 100, kind="BERT/x/1/0", score=2, vc="b") for i in range(2)]
        assert replay("lucid", elsewhere, cluster=self.CLUSTER)["j1"][0] == 101

    def test_rows_and_totals_cover_both_stages(self):
        jobs = [job("short", 1, 0, 10), job("longer", 2, 5, 200), job("large", 8, 6, 50)]
        result = simulate(
            Scenario(Workload(tuple(jobs), {}), self.CLUSTER, rules=load_rules("lucid-artifact")), "lucid"
        )
        assert list(result.jobs["job_id"]) == ["short", "longer", "large"]
        assert list(result.jobs["virtual_cluster"]) == ["a", "a", "a"]
        assert list(result.jobs["ended_in_profiling"]) == [True, False, False]
        assert list(result.jobs["lost_s"]) == [0, 80, 0]
        assert result.summary["jobs"] == 3
        held = 1 * 10 + 2 * 80 + 2 * 201 + 8 * 51
        assert result.summary["utilisation_pct"] == pytest.approx(
            100 * held / (32 * result.summary["makespan_s"])
        )


class TestHelios:
    def test_what_a_preemption_costs_depends_on_the_gpus(self):
        for gpus, overhead in ((1, 7), (2, 30), (8, 30), (16, 60)):
            cluster = ClusterSpec({"a": -(-gpus // 8)}, min(8, gpus))
            jobs = [job("long", gpus, 0, 100), job("short", gpus, 10, 20)]
            found = replay("srtf", jobs, rules="helios-artifact", cluster=cluster)
            # short runs from 10 to 30 and holds its GPUs for a second; long then has 90 s and the overhead.
            assert found["short"] == (10, 31)
            assert found["long"] == (0, 31 + 90 + overhead + 1)

    def test_a_job_that_finds_no_place_keeps_its_share(self):
        # On two nodes, 5 + 5 run. At 1 the quota covers all (6 + 5 + 5 = 16), but no node has 6 free.
        # At 2 `one` makes it 17, y is preempted for that, and six finds a node.
        jobs = [job("x", 5, 0, 100), job("y", 5, 0, 100), job("six", 6, 1, 10), job("one", 1, 2, 50)]
        found = replay("srtf", jobs, rules="helios-artifact", cluster=ClusterSpec({"a": 2}, 8))
        assert found["six"][0] == 2
        assert found["y"][1] > found["x"][1] == 101
        fit = replay(
            "srtf", jobs, rules="helios-artifact-without:quota_walk", cluster=ClusterSpec({"a": 2}, 8)
        )
        assert fit["six"][0] == 1

    def test_the_remainder_goes_to_the_freest_node(self):
        # Nodes: 8 free, 4 free after x. A 12-GPU job takes an idle node and the freest other one.
        jobs = [job("x", 4, 0, 100), job("twelve", 12, 1, 100), job("four", 4, 2, 10)]
        cluster = ClusterSpec({"a": 3}, 8)
        assert replay("fifo", jobs, rules="helios-artifact", cluster=cluster)["four"][0] == 2
        jobs[2] = job("eight", 8, 2, 10)
        freest = replay("fifo", jobs, rules="helios-artifact", cluster=cluster)
        assert freest["eight"][0] > 2  # the freest node was an idle one
        fullest = replay("fifo", jobs, rules="helios-artifact-without:freest_remainder", cluster=cluster)
        assert fullest["eight"][0] == 2

    def test_a_fresh_queue_goes_by_gpus(self):
        jobs = [job("wide", 8, 0, 10, 1), job("narrow", 1, 0, 100, 1000)]
        assert replay("qssf", jobs, rules="helios-artifact")["narrow"][0] == 0
        assert replay("qssf", jobs, rules="helios-artifact-without:fresh_queue_by_gpus")["wide"][0] == 0

    def test_estimates_below_zero_come_first_where_the_artifact_has_them(self):
        jobs = [job("holder", 8, 0, 10), job("sure", 8, 1, 10, 1), job("below", 8, 2, 10, -50)]
        assert replay("qssf", jobs, rules="helios-artifact")["below"][0] == 10
        for rules in ("default", "helios-artifact-without:negative_estimates"):
            with pytest.raises(BadInputError, match="'below' with -50"):
                replay("qssf", jobs, rules=rules)

    @pytest.mark.parametrize("policy", ["qssf", "srtf"])
    def test_its_policies_pass_the_suite_that_every_policy_passes(self, policy):
        rules = HELIOS_SIMULATOR.rules()
        assert list(check_policy(lambda: load_policy(policy, rules=rules), policy, rules=rules))

    def test_it_has_no_rule_for_policies_that_it_does_not_run(self):
        assert set(HELIOS_SIMULATOR.rules().policy_settings) == {"srtf", "qssf"}


def test_a_page_without_markers_is_refused():
    with pytest.raises(LucidError, match="described: begin"):
        written("nothing", {"described": ""})
