"""What the authors' simulators share: rules that are data, and faults that can be left out one by one."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.artifact_rules.free_profiling import FreeProfiling
from experiments.artifact_rules.lucid_ways import ArtifactLucid
from experiments.artifact_rules.pair_speed_rules import PairsInOrder, RuledSpeeds
from experiments.artifact_rules.published_packing import (
    has_labels,
    read_labelled_profiles,
    read_published_pairs,
)
from foundation.errors import UnknownNameError
from simulator.job_view import JobView
from simulator.policy import Policy
from simulator.replay import ByEngine, RulesAroundEngine
from simulator.results.result import SimulationResult
from simulator.scenario.rules import WITHOUT
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import ColocationModel
from simulator.workload.workload import Workload

ALL = "all"
STEP_TOLERANCE = 1e-6  # of a step: what rounding leaves over is not work


@dataclass(frozen=True)
class ArtifactRules(RulesAroundEngine):
    """The rules of an authors' simulator.

    - `ends_on_s`: the ends of runs fall on multiples of it, upwards; None: where they are.
    - `restores_partner`: whether the second job of a pair runs at full speed again, and may share again, once
      the first has ended. The first always does when the second has.
    - `pair_speed_max`: no job of a pair runs faster than this; None: as fast as was measured.
    - `full_speed_models`: a pair with one of these models runs at full speed, whatever was measured.
    - `negative_estimates`: policies order by estimates below 0 as they are; without, they are refused.
    """

    ends_on_s: float | None = None
    restores_partner: bool = True
    pair_speed_max: float | None = None
    full_speed_models: tuple[str, ...] = ()
    negative_estimates: bool = False

    def check_estimates(self, workload: Workload, policy: str) -> None:
        """Take estimates below 0 as they are, if the artifact does."""
        if not self.negative_estimates:
            super().check_estimates(workload, policy)

    def labelled_tables(self, singles: Path, pairs: Path) -> tuple[pd.DataFrame, pd.DataFrame] | None:
        """Return the published tables, if labels count and the first has them."""
        if not self.labelled_scores or not has_labels(singles):
            return None
        # What is measured, and the label; no beliefs are there yet.
        profiles = [asdict(profile) for profile in read_labelled_profiles(singles).values()]
        return pd.DataFrame(profiles).drop(columns="believed"), read_published_pairs(pairs)

    def labelled_pairs(self, pairs: pd.DataFrame) -> ColocationModel:
        """Return the speeds of published pairs, whose order counts."""
        return PairsInOrder(pairs)

    def pair_speeds(self, model: ColocationModel) -> ColocationModel:
        """Cap the speeds of pairs, and run some models at full speed."""
        if self.pair_speed_max is None and not self.full_speed_models:
            return model
        return RuledSpeeds(model, self.pair_speed_max, self.full_speed_models)

    def end_of_run_s(self, end_s: float) -> float:
        """Round up to whole steps."""
        if self.ends_on_s is None:
            return end_s
        return ceil(end_s / self.ends_on_s - STEP_TOLERANCE) * self.ends_on_s

    def speeds_up_alone(self, job: JobView) -> bool:
        """The job that joined a pair may stay as slow as it was."""
        return self.restores_partner or not job.joined

    def replay_around(self, scenario: Scenario, policy: Policy, by_engine: ByEngine) -> SimulationResult:
        """Play the profiler to its end first, for a policy whose profiling takes no time."""
        inner = getattr(policy, "inner", policy)  # a part may have wrapped it, as for servers on loan
        if not (isinstance(inner, ArtifactLucid) and inner.ways.free_profiling):
            return by_engine(scenario)
        prepass = FreeProfiling(scenario.workload, scenario.cluster, inner.ways, self)
        scenario = replace(scenario, workload=prepass.workload, cluster=prepass.cluster)
        return prepass.joined(by_engine(scenario, prepass.mark))


@dataclass(frozen=True)
class Fault:
    """What an artifact's simulator does and should not: `meaning`, and how it changes rules and settings."""

    name: str
    meaning: str
    policy_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)

    def added_to(self, rules: ArtifactRules) -> ArtifactRules:
        """Return the rules with this fault."""
        settings = {policy: dict(values) for policy, values in rules.policy_settings.items()}
        for policy, values in self.policy_settings.items():
            settings[policy] = {**settings.get(policy, {}), **values}
        return replace(
            rules, **{**self.rules, "policy_settings": settings, "faults": (*rules.faults, self.name)}
        )


@dataclass(frozen=True)
class Artifact:
    """An authors' simulator: its rules without faults, and its faults in the order of their effect."""

    sound: ArtifactRules
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """The name of the rule set with all faults."""
        return self.sound.name

    def rules(self, without: Collection[str] = ()) -> ArtifactRules:
        """Return the rule set with all faults but those named; raises UnknownNameError for an unknown one."""
        names = [fault.name for fault in self.faults]
        for name in without:
            if name not in (*names, ALL):
                raise UnknownNameError(f"fault of {self.name}", name, (*names, ALL))
        left_out = set(names) if ALL in without else set(without)
        rules = self.sound
        for fault in self.faults:
            if fault.name not in left_out:
                rules = fault.added_to(rules)
        if left_out:
            omitted = ALL if len(left_out) == len(names) else ",".join(n for n in names if n in left_out)
            rules = replace(rules, name=f"{self.name}{WITHOUT}{omitted}")
        return rules
