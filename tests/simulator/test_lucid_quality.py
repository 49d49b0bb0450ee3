"""Lucid against its rivals: on the loaded Philly slice, and on traces where no job has to wait."""

import numpy as np
import pytest

from cluster_logs.synthetic.generator import synthesize
from experiments.artifact_rules.published_packing import read_published_pairs
from experiments.policies.agreement import load_slice
from experiments.policies.lucid_ideas import IDEAS, ideas_table
from experiments.policies.policy_comparison import SLICES
from pipeline.replay.log_scenario import PAIRS_FILE
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import MeasuredPairs
from simulator.workload.forecast import naive_forecast
from simulator.workload.workload import Workload
from tests.reference import ROOT

# The order as the paper has it, in which a gang may wait for as long as smaller jobs come.
UNBOUNDED = {"overtaking_bound_s": 0.0}


def mean_jct_s(policy, workload, cluster, *, settings=None, **more):
    return simulate(Scenario(workload, cluster, **more), policy, settings=settings).summary["mean_jct_s"]


def noisy(workload: Workload, seed: int) -> Workload:
    """Estimates that are off by a factor exp(N(0, 1)), as those of the reference slices are."""
    truth = np.array([job.duration_s for job in workload.jobs])
    noise = np.exp(np.random.default_rng(seed).normal(size=len(truth)))
    return workload.with_estimates(np.maximum(1.0, truth * noise))


@pytest.fixture(scope="module")
def slices():
    folder, packing = ROOT / "reference" / "lucid", ROOT / "data" / "packing"
    pairs = MeasuredPairs(read_published_pairs(packing / PAIRS_FILE))

    def load(name):
        jobs, nodes = SLICES[name]
        part = load_slice(folder / jobs, nodes if isinstance(nodes, int) else folder / nodes, packing)
        return part.workload, part.cluster, pairs

    return load


@pytest.mark.reference
@pytest.mark.parametrize("forecast", [False, True])
def test_the_loaded_slice_waits_little(slices, forecast):
    workload, cluster, pairs = slices("week1vc48")
    known = naive_forecast(workload) if forecast else None
    scenario = Scenario(workload, cluster, colocation=pairs, forecast=known)
    found = simulate(scenario, "lucid", settings=UNBOUNDED).summary
    assert found["mean_jct_s"] <= 10_400
    assert found["mean_queuing_delay_s"] <= 2_360
    assert found["p999_queuing_delay_s"] <= 60_000
    bounded = simulate(scenario, "lucid").summary
    assert bounded["mean_jct_s"] <= 1.02 * found["mean_jct_s"]
    assert bounded["longest_wait_s"] <= 0.8 * found["longest_wait_s"]


@pytest.mark.reference
@pytest.mark.parametrize("name", SLICES)
def test_never_slower_than_fifo_or_qssf_on_philly(slices, name):
    workload, cluster, pairs = slices(name)
    ours = mean_jct_s("lucid", workload, cluster, colocation=pairs)
    assert ours <= mean_jct_s("qssf", workload, cluster)
    assert ours <= mean_jct_s("fifo", workload, cluster)


@pytest.mark.slow
@pytest.mark.parametrize(("like", "days"), [("helios-venus", 3), ("helios-saturn", 2), ("philly", 4)])
def test_never_slower_than_fifo_or_qssf_on_synthetic_clusters(like, days):
    made = synthesize(like, days, seed=0)
    cluster = ClusterSpec.from_nodes(made.nodes)
    workload = noisy(Workload.from_jobs(made.jobs).that_fit(cluster), 0)
    ours = mean_jct_s("lucid", workload, cluster, settings=UNBOUNDED)
    assert ours <= mean_jct_s("qssf", workload, cluster)
    assert ours <= mean_jct_s("fifo", workload, cluster)


@pytest.mark.reference
def test_the_table_of_ideas_has_a_row_for_each():
    table = ideas_table(ROOT, IDEAS[:1]).splitlines()
    assert len(table) == 3
    assert table[2].startswith("| as it is | ")
    assert table[0].count("|") == table[2].count("|") == len(SLICES) + 2
