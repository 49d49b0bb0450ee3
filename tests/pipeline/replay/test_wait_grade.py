"""A synthetic cluster, whose starts are known to be those of its declared order, has grade A."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT
from cluster_logs.synthetic.generator import SyntheticCluster, synthesize
from pipeline.replay.wait_grade import grade_of_replay
from simulator.cluster import ClusterSpec
from simulator.replay import simulate
from simulator.scenario import Scenario
from simulator.site_order import site_order
from simulator.wait_fidelity.grade import WaitGrade
from simulator.workload import Workload


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
