"""A synthetic cluster, whose starts are known to be those of its declared order, has grade A."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from cluster_logs.site.rules import SchedulerRules, SiteRules
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT
from cluster_logs.synthetic.generator import SyntheticCluster, synthesize
from pipeline.replay.site_grade import grade_jobs
from pipeline.replay.wait_grade import grade_of_replay
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.site_order import site_order
from simulator.wait_fidelity.grade import WaitGrade
from simulator.workload.workload import Workload


@pytest.fixture(scope="module")
def made() -> SyntheticCluster:
    return synthesize("helios-venus", days=4, seed=0)


def graded(jobs: pd.DataFrame, earlier: pd.DataFrame, nodes: pd.DataFrame, *, declared: bool) -> WaitGrade:
    """The grade of the order of a cluster whose jobs come after `earlier` ones, of which nothing is known."""
    workload = Workload.from_jobs(jobs)
    scenario = Scenario(workload, ClusterSpec.from_nodes(nodes))
    order = site_order(workload, FIRST_IN_FIRST_OUT if declared else None)
    result = simulate(scenario, order.policy, settings=order.settings)
    return grade_of_replay(jobs, scenario, order, result, earlier=earlier)


def test_the_declared_order_is_graded_a_and_an_undeclared_one_worse(made: SyntheticCluster) -> None:
    nothing = made.jobs.iloc[:0]
    faithful = graded(made.jobs, nothing, made.nodes, declared=True)
    assert (faithful.grade, faithful.jobs) == ("A", len(made.jobs))
    assert faithful.waits[0].group == "all"
    guessed = graded(made.jobs, nothing, made.nodes, declared=False)
    assert (guessed.grade or "A") > "A"
    fewer = made.nodes.assign(nodes=np.maximum(1, made.nodes["nodes"] - 1))
    assert (graded(made.jobs, nothing, fewer, declared=True).grade or "A") > "A"


def test_jobs_of_before_the_replay_explain_that_it_starts_cold(made: SyntheticCluster) -> None:
    jobs = made.jobs
    late = jobs["submit_time"] >= jobs["submit_time"].min() + timedelta(days=2)
    cold = graded(jobs[late].reset_index(drop=True), jobs[~late], made.nodes, declared=True)
    assert cold.grade is not None
    assert "edge" in {cause.name for cause in cold.explains}


def test_a_perturbed_declaration_has_a_worse_grade() -> None:
    rng = np.random.default_rng(5)
    count = 300
    gpus = rng.choice([1, 2, 4, 8], count, p=[0.4, 0.3, 0.2, 0.1])
    run_s = rng.lognormal(7.0, 1.0, count).clip(60, 20_000).round()
    submit = pd.Timestamp("2026-03-02", tz="UTC") + pd.to_timedelta(
        np.sort(rng.uniform(0, (gpus * run_s).sum() / 16, count)).round(), unit="s"
    )
    jobs = pd.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(count)],
            "virtual_cluster": "vc",
            "user": [f"u{i % 5}" for i in range(count)],
            "gpus": gpus,
            "submit_time": submit,
            "duration_s": run_s,
            "time_limit_s": (run_s * rng.choice([1.2, 3, 10], count)).round(),
            "state": "COMPLETED",
        }
    )
    declared = SiteRules(scheduler=SchedulerRules(bf_interval_s=30))
    scenario = Scenario(Workload.from_jobs(jobs), ClusterSpec({"vc": 2}, 8))
    order = site_order(scenario.workload, declared)
    assert order.policy == "site"
    made = simulate(scenario, order.policy, settings=order.settings).jobs
    second_0 = jobs["submit_time"].iloc[0]
    logged = jobs.assign(
        start_time=second_0 + pd.to_timedelta(made["first_start_time_s"].to_numpy(), unit="s"),
        end_time=second_0 + pd.to_timedelta(made["end_time_s"].to_numpy(), unit="s"),
    )
    sizes = pd.DataFrame({"virtual_cluster": ["vc"], "nodes": 2, "gpus_per_node": 8, "from_time": pd.NaT})
    sizes["from_time"] = pd.to_datetime(sizes["from_time"], utc=True)
    assert grade_jobs(logged, sizes, declared).grade == "A"
    perturbed = {
        "no backfilling": grade_jobs(logged, sizes, FIRST_IN_FIRST_OUT),
        "a node more": grade_jobs(logged, sizes.assign(nodes=3), declared),
        "one job looked at": grade_jobs(
            logged, sizes, SiteRules(scheduler=SchedulerRules(bf_interval_s=30, bf_max_job_test=1))
        ),
    }
    assert {name: grade.grade for name, grade in perturbed.items() if (grade.grade or "A") == "A"} == {}
