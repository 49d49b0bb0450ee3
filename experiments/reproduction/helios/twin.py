"""A synthetic month like Venus: QSSF by its own estimates, where the cluster's log is not public."""

import numpy as np
import pandas as pd

from experiments.reproduction.helios.replays import RULES, ReplayedSlice
from experiments.reproduction.trace import synthesize_trace
from foundation.progress import Progress, silent
from lucid_models.qssf.estimates import qssf_estimates_s
from lucid_models.qssf.rules import AS_SHIPPED, PUBLISHED
from lucid_models.qssf.trees import TreeUpdates
from simulator.replay import simulate
from simulator.scenario.rules import load_rules
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

LIKE = "helios-venus"
TWIN_DAYS = 30
ESTIMATED = {"QSSF, the paper's rules": PUBLISHED, "QSSF, the artifact's rules": AS_SHIPPED}


def replay_twin(days: int = TWIN_DAYS, seed: int = 0, progress: Progress = silent) -> ReplayedSlice:
    """Replay `days` synthetic days by the artifact's rules, after as many to learn from.

    QSSF's trees are fitted once, at the beginning of the replayed days, as in the paper.
    """
    trace = synthesize_trace(LIKE, days=days, seed=seed, history_days=days, progress=progress)
    scenario = Scenario(Workload.from_jobs(trace.jobs), trace.cluster, rules=load_rules(RULES))
    by_scheme = {name.upper(): simulate(scenario, name).jobs for name in ("fifo", "sjf", "srtf")}
    workload, earlier = scenario.workload, len(trace.earlier)
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    history = pd.concat([trace.earlier, trace.jobs], ignore_index=True)
    for scheme, rules in ESTIMATED.items():
        updates = TreeUpdates(first_fit_days=days, refit_days=None, seed=seed)
        estimates_s = qssf_estimates_s(history, rules, updates, progress=progress)[earlier:][rows]
        estimated = Scenario(workload.with_estimates(estimates_s), trace.cluster, rules=scenario.rules)
        by_scheme[scheme] = simulate(estimated, "qssf").jobs
    return ReplayedSlice(f"{days} synthetic days like {LIKE}", by_scheme)
