"""All policies side by side on the reference slices, and what the rules of some of them are worth.

A third table compares policies that know users, on a synthetic log, because the reference slices name none.

`python -m experiments.policies.policy_comparison DATA` prints the tables; DATA is the folder that
LUCID_REFERENCE_DATA names. With `--write docs/policies.md` they go between that page's markers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from cluster_logs.synthetic.generator import synthesize
from experiments.artifact_rules.published_packing import read_published_pairs
from experiments.pages import run_study
from experiments.policies.agreement import load_slice
from experiments.reproduction.study import rigid_policy_names
from foundation.markdown import markdown_table
from pipeline.replay.log_scenario import PAIRS_FILE
from simulator.cluster.spec import ClusterSpec
from simulator.policies.registry import BUILT_IN
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import MeasuredPairs
from simulator.workload.user_history_estimates import user_history_estimates
from simulator.workload.workload import Workload

SLICES: Mapping[str, tuple[str, int | str]] = {
    "week1vc48": ("week1vc48_jobs.csv.gz", 48),
    "week1vc64": ("week1vc48_jobs.csv.gz", 64),
    "week": ("week_jobs.csv.gz", "week_nodes.csv"),
}
PREDICTION_ERROR = 0.3  # standard deviation of its logarithm
COLUMNS = (
    "mean JCT s",
    "mean queuing s",
    "median queuing s",
    "P99.9 queuing s",
    "packed jobs",
    "preemptions",
)


def _exact(workload: Workload) -> Workload:
    return workload.with_estimates(np.array([job.duration_s for job in workload.jobs]))


def _unknown_profiles(workload: Workload) -> Workload:
    return replace(workload, jobs=tuple(replace(job, profile=None) for job in workload.jobs))


def _predicted(workload: Workload) -> Workload:
    """Profiles as predictions that are off by a log-normal factor; what is true shows after a minute."""
    random = np.random.default_rng(0)
    jobs = []
    for job in workload.jobs:
        util, memory = np.exp(random.normal(0.0, PREDICTION_ERROR, 2)).tolist()
        if job.profile is not None:
            believed = replace(
                job.profile,
                gpu_util_pct=min(100.0, util * job.profile.gpu_util_pct),
                gpu_mem_mib=memory * job.profile.gpu_mem_mib,
            )
            job = replace(job, profile=believed, phase=(60.0, job.profile))
        jobs.append(job)
    return replace(workload, jobs=tuple(jobs))


SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED = "helios-venus", 21, 3
NODES_LEFT = 0.7  # of each virtual cluster


@dataclass(frozen=True)
class PolicyVariant:
    """A policy with other settings, or with other knowledge."""

    policy: str
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    knowing: Callable[[Workload], Workload] = lambda workload: workload


VARIANTS = (
    PolicyVariant("easy", "as it is"),
    PolicyVariant("easy", "exact estimates", knowing=_exact),
    PolicyVariant("tsafrir_easy", "as it is"),
    PolicyVariant("tsafrir_easy", "predictions not capped by the given estimates", {"capped": False}),
    PolicyVariant("horus", "as it is"),
    PolicyVariant("horus", "one queue", {"queues": 1}),
    PolicyVariant("horus", "the first job of a queue holds up the others", {"buffer": 1}),
    PolicyVariant("horus", "nodes kept for a job overtaken 100 times", {"patience": 100}),
    PolicyVariant("horus", "cost of memory only", {"slowdown_weight": 0.0}),
    PolicyVariant("horus", "predictions off by 30 %; a job out of memory fails", knowing=_predicted),
    PolicyVariant("horus", "nothing predicted: no job shares", knowing=_unknown_profiles),
)


class Replays:
    """The reference slices with the published packing measurements."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._packing = data / "data" / "packing"
        self._pairs = MeasuredPairs(read_published_pairs(self._packing / PAIRS_FILE))

    def row(self, slice_name: str, variant: PolicyVariant) -> tuple[str, ...]:
        """Replay a slice under our own rules; return the figures of `COLUMNS`."""
        folder = self._data / "reference" / "lucid"
        jobs, nodes = SLICES[slice_name]
        part = load_slice(folder / jobs, nodes if isinstance(nodes, int) else folder / nodes, self._packing)
        workload = variant.knowing(part.workload)
        found = simulate(
            Scenario(workload, part.cluster, colocation=self._pairs),
            variant.policy,
            settings=variant.settings,
        ).summary
        return (
            f"{found['mean_jct_s']:.1f}",
            f"{found['mean_queuing_delay_s']:.1f}",
            f"{found['median_queuing_delay_s']:.0f}",
            f"{found['p999_queuing_delay_s']:.0f}",
            f"{found['colocated_jobs']:,}",
            f"{found['preemptions']:,}",
        )


def policies_table(replays: Replays) -> str:
    """Return the Markdown table of all policies on all slices."""
    rows = [
        (name, policy, *replays.row(name, PolicyVariant(policy, policy)))
        for name in SLICES
        for policy in rigid_policy_names()
        if policy in BUILT_IN
    ]
    return markdown_table(("slice", "policy", *COLUMNS), rows, align_numbers=False)


def variants_table(replays: Replays) -> str:
    """Return the Markdown table of the variants on the loaded slice."""
    rows = [(variant.policy, variant.label, *replays.row("week1vc48", variant)) for variant in VARIANTS]
    return markdown_table(("policy", "variant", *COLUMNS), rows, align_numbers=False)


def users_table() -> str:
    """Return the Markdown table of the policies of Slurm sites on a synthetic log with users.

    The virtual clusters have fewer nodes than the log was made for, so that users compete; estimates are
    Tsafrir's (`user_history_estimates`).
    """
    made = synthesize(SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED)
    whole = ClusterSpec.from_nodes(made.nodes)
    nodes = {name: max(1, ceil(NODES_LEFT * count)) for name, count in whole.virtual_clusters.items()}
    cluster = ClusterSpec(nodes, whole.gpus_per_node)
    workload = Workload.from_jobs(made.jobs).that_fit(cluster)
    workload = workload.with_estimates(user_history_estimates(workload))
    rows = []
    for policy in ("fifo", "qssf", "easy", "tsafrir_easy", "fair_share"):
        found = simulate(Scenario(workload, cluster), policy).summary
        rows.append(
            (
                policy,
                f"{found['mean_jct_s']:.0f}",
                f"{found['mean_queuing_delay_s']:.0f}",
                f"{found['median_queuing_delay_s']:.0f}",
                f"{found['p999_queuing_delay_s']:.0f}",
                f"{found['bounded_slowdown_mean']:.1f}",
                f"{found['jain_users']:.3f}",
            )
        )
    return markdown_table(
        ("policy", *COLUMNS[:4], "mean bounded slowdown", "Jain's index of users"), rows, align_numbers=False
    )


def tables(data: Path) -> dict[str, str]:
    """Return the tables by the names of their markers."""
    replays = Replays(data)
    return {
        "policies": policies_table(replays),
        "variants": variants_table(replays),
        "users": users_table(),
    }


if __name__ == "__main__":
    run_study("experiments.policies.policy_comparison", __doc__, tables)
