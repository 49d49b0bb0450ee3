"""What the experiments of an evaluation share: the trace, what its jobs run, and what policies believe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.reproduction import published
from experiments.reproduction.beliefs import WORDS, Beliefs, form_beliefs
from experiments.reproduction.runs import TRACE, Materials, Outcome, ReproductionRun
from experiments.reproduction.sections import name_of, ordered_policies
from experiments.reproduction.sharing import (
    MIXES,
    Measurements,
    Profiles,
    SharingScores,
    drawn_profiles,
    logged_profiles,
)
from experiments.reproduction.trace import ReproductionTrace
from foundation.progress import Progress, silent
from lucid_models.packing.model import PackingSettings
from parts.elastic.elastic_policy import ElasticPolicy
from parts.lending.workers.worker_policy import WorkerPolicy
from simulator.policies.registry import policy_class, policy_names
from simulator.workload.colocation import MeasuredPairs
from simulator.workload.workload import Workload

LUCID, CLARITY = "lucid", "clarity"  # the paper's policy, and our own
BASE = "log"  # the profiles of the end-to-end evaluation
# (medium_from, tiny_above) of section 4.5; the third is the paper's default and ours.
THRESHOLDS = ((0.75, 0.90), (0.75, 0.97), (0.85, 0.95), (0.80, 0.95), (0.85, 0.90), (0.85, 0.97))


@dataclass(frozen=True)
class Study:
    """An evaluation that is ready to run; `trace.jobs` and the workload have the same rows in order.

    `same_profiles` names, for profiles that turned out equal to others, those others: each is run once.
    """

    trace: ReproductionTrace
    policies: tuple[str, ...]
    beliefs: Beliefs
    measured: Measurements
    materials: Materials
    seed: int
    workers: int
    same_profiles: Mapping[str, str]

    def run(
        self,
        policy: str,
        settings: Mapping[str, Any] | None = None,
        *,
        profiles: str = BASE,
        estimates: str | None = None,
        forecast: bool = False,
    ) -> ReproductionRun:
        """Name a run on the trace."""
        return ReproductionRun(
            policy,
            tuple(sorted((settings or {}).items())),
            TRACE,
            self.beliefs.of(policy) if estimates is None else estimates,
            self.same_profiles.get(profiles, profiles),
            forecast,
        )

    def profiles_of(self, name: str) -> Profiles:
        """Return one profile a job."""
        return self.materials.profiles[self.same_profiles.get(name, name)]

    def remarks(self) -> list[str]:
        """Say what a reader must know before comparing with the paper."""
        facts = published.TABLE_2[self.trace.like]
        jobs, cluster = self.trace.jobs, self.trace.cluster
        said = list(self.trace.remarks)
        said.append(
            f"The paper's {self.trace.like.capitalize()} is {facts.jobs:,} jobs of "
            f"{facts.mean_duration_s:,.0f} s on average on {facts.gpus:,} GPUs ({facts.period}); this trace "
            f"is {len(jobs):,} jobs of {jobs['duration_s'].mean():,.0f} s on {cluster.total_gpus:,} GPUs. "
            "Absolute times can therefore not be expected to agree; what can be compared is the order of "
            "the policies and how far they lie apart."
        )
        if self.trace.has_job_types and self.trace.drawn_job_types:
            said.append(
                "The trace's job types were drawn at random for a comparison of simulators: what sharing "
                "GPUs gains here is not what it would gain on the cluster's real work."
            )
        elif not self.trace.has_job_types:
            said.append(
                "The log does not say what its jobs run: types are drawn from the measured configurations "
                f"(mix M, seed {self.seed}), as in the paper. What sharing gains is not that of the real "
                "work."
            )
        if "fair_share" in self.policies and not self.trace.jobs["user"].notna().any():
            said.append(
                "The log names no users: fair share takes all jobs of a virtual cluster for one user's."
            )
        if self.measured.simulated:
            said.append(
                "How jobs slow each other down on shared GPUs was measured on the simulated GPU, not a real "
                "one."
            )
        said.append(f"Policies that need estimates get {WORDS[self.beliefs.default]}.")
        said += [
            f"{name_of(policy)} gets {WORDS[kind]}."
            for policy, kind in self.beliefs.by_policy.items()
            if policy in self.policies
        ]
        said.append(
            "Our own rules apply (docs/simulator_fidelity.md), not those of the paper's simulator: "
            "profiling takes time, and jobs are packed only when no GPU is idle. The cluster starts empty."
        )
        return said


def rigid_policy_names() -> list[str]:
    """Return the names of the policies that leave a running job its GPUs, or stop it.

    Those over workers (Lyra and its rivals) are not among them: they are compared where jobs have workers.
    """
    resizing = (ElasticPolicy, WorkerPolicy)
    return [name for name in policy_names() if not issubclass(policy_class(name), resizing)]


def make_study(
    trace: ReproductionTrace,
    measured: Measurements,
    *,
    policies: Sequence[str] | None = None,
    seed: int = 0,
    workers: int = 2,
    progress: Progress = silent,
) -> Study:
    """Prepare an evaluation of `policies` (default: all that are registered).

    Raises UnknownNameError for a policy that does not exist.
    """
    chosen = list(dict.fromkeys(policies)) if policies else rigid_policy_names()
    for policy in chosen:
        policy_class(policy)
    scores = SharingScores(measured, PackingSettings(seed=seed))
    beliefs = form_beliefs(trace, progress=progress)
    workload = Workload.from_jobs(trace.jobs)
    rows = np.arange(len(workload)) if workload.rows is None else workload.rows
    # Rows follow the workload's order from here on, so that no later step needs to translate.
    ordered = replace(trace, jobs=trace.jobs.iloc[rows].reset_index(drop=True))
    beliefs = replace(beliefs, estimates={kind: found[rows] for kind, found in beliefs.estimates.items()})
    profiles = {BASE: logged_profiles(ordered.jobs, scores, seed)}
    profiles |= {mix: drawn_profiles(ordered.jobs, scores, mix, seed) for mix in MIXES}
    for medium_from, tiny_above in THRESHOLDS:
        other = SharingScores(
            measured, PackingSettings(medium_from=medium_from, tiny_above=tiny_above, seed=seed)
        )
        profiles[thresholds_name(medium_from, tiny_above)] = logged_profiles(ordered.jobs, other, seed)
    same = _repeated(profiles)
    materials = Materials(
        {TRACE: replace(workload, rows=None)},
        {TRACE: trace.cluster},
        beliefs.estimates,
        {name: found for name, found in profiles.items() if name not in same},
        MeasuredPairs(measured.pairs),
    )
    return Study(
        ordered,
        tuple(ordered_policies(chosen, published.POLICIES)),
        beliefs,
        measured,
        materials,
        seed,
        workers,
        same,
    )


def _repeated(profiles: Mapping[str, Profiles]) -> dict[str, str]:
    """Name the first of equal profiles for each later one."""
    same: dict[str, str] = {}
    names = list(profiles)
    for i, name in enumerate(names):
        first = next((other for other in names[:i] if profiles[other] == profiles[name]), None)
        if first is not None:
            same[name] = first
    return same


def thresholds_name(medium_from: float, tiny_above: float) -> str:
    """Name the profiles whose sharing scores were learned with these thresholds."""
    return f"thresholds {medium_from:.2f} {tiny_above:.2f}"


def figure_of(outcome: Outcome | None, name: str) -> float | None:
    """Return a summary figure of a run; None where it was not done, failed, or has no such figure."""
    if outcome is None or outcome.failed or outcome.summary[name] is None:
        return None
    return float(outcome.summary[name])
