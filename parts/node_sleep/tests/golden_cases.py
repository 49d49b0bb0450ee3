"""A replay whose nodes sleep, whose result tests/golden/bless.py keeps."""

from parts.node_sleep.replay.node_sleep import NodeSleep
from parts.node_sleep.replay.power_history import PowerTotals, power_figures
from parts.node_sleep.replay.settings import SleepSettings
from simulator.conformance import sample_workload
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from tests.golden.bless import JOBS, SEED, kept_of


def sleeping() -> dict[str, object]:
    """Return what is kept of a case in which nodes sleep behind a buffer, and some boots fail."""
    workload, cluster = sample_workload("quiet", SEED, JOBS)
    sleep = NodeSleep(SleepSettings(buffer_nodes=2, keep_bins=1), boot_failure_share=0.1, seed=SEED)
    result = simulate(Scenario(workload, cluster, companions=(sleep,)), "qssf")
    return kept_of(result, "quiet", ("mean_queuing_delay_s", *power_figures(PowerTotals(), 0.0)))


CASES = {"simulate_qssf_node_sleep": sleeping}
