"""What a replayed release lends: the load that it knows of, its settings, and the policy that borrows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parts.lending.replay.inference_service import InferenceService
from parts.lending.replay.loaning_policy import LoaningPolicy
from parts.lending.replay.settings import LoanSettings
from parts.lending.steps.lending_replay import KnownLoad, on_loan_at
from parts.lending.workers.worker_policy import WorkerPolicy
from pipeline.validation.contenders import ReplayContender
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.workload.columns import objects_in


@dataclass(frozen=True)
class Lending:
    """`load` spans the replay; `loans` are the orchestrator's settings."""

    load: KnownLoad
    loans: LoanSettings

    def beside(
        self, contender: ReplayContender, inputs: ReplayInputs
    ) -> tuple[ReplayContender, ReplayInputs]:
        """Return a contender that names its policy, and its inputs, with servers on loan."""
        assert isinstance(contender.policy, str)  # noqa: S101 - as releases and trials do
        policy = self.policy(contender.policy, contender.settings, in_workers=_in_workers(inputs))
        scenario = inputs.scenario.beside(self.service(inputs))
        return replace(contender, policy=policy, settings={}), replace(inputs, scenario=scenario)

    def policy(self, name: str, settings: Mapping[str, Any], *, in_workers: bool = False) -> Policy:
        """Return a policy of the registry with servers on loan.

        A policy over workers borrows by itself where jobs say in which workers they run (`in_workers`), and
        so which of them may run on loan. Where none does, any job may, as under every other policy.
        """
        own = load_policy(name, settings)
        if not isinstance(own, WorkerPolicy):
            return LoaningPolicy(own, self.loans)
        if in_workers:
            return load_policy(name, {**settings, **self.loans.to_data(), "loaning": True})
        return LoaningPolicy(load_policy(name, {**settings, "loaning": False}), self.loans)

    def service(self, inputs: ReplayInputs) -> InferenceService:
        """Return the service as a replay knows it."""
        return self.load.service(inputs.origin.timestamp())

    def short_pct(self, steps: Sequence[tuple[float, int]], inputs: ReplayInputs) -> float | None:
        """Return in how many of the window's measured five-minute steps inference lacked servers (%).

        `steps`: (s, servers on loan from then on), on the clock of the replay; None where nothing was
        measured.
        """
        times_s = self.load.replay_times_s(inputs.origin.timestamp())
        inside = (times_s >= inputs.start_s) & (times_s < inputs.end_s) & ~self.load.gap
        if not inside.any():
            return None
        short = self.load.short(on_loan_at(steps, times_s))
        return 100.0 * float(np.mean(short[inside]))


def _in_workers(inputs: ReplayInputs) -> bool:
    """Whether the jobs are replayed in the workers that the log says they run in."""
    workload = inputs.scenario.workload
    return sum(1 for _ in objects_in(workload.columns.workers)) == len(workload)
