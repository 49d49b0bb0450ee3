"""What a replayed release lends: the load that it knows of, its settings, and the policy that borrows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import pandas as pd

from pipeline.loaning.lending_replay import KnownLoad, on_loan_at
from simulator.loaning.inference_service import InferenceService
from simulator.loaning.loaning_policy import LoaningPolicy
from simulator.loaning.settings import LoanSettings
from simulator.policies.registry import load_policy
from simulator.policy import Policy

LoanStepsSeen = Sequence[tuple[float, int]]


class ReplayClock(Protocol):
    """What is read of the inputs of a replay: when its clock is at 0, and the window that counts (s)."""

    @property
    def origin(self) -> pd.Timestamp:
        """Second 0."""

    @property
    def start_s(self) -> float:
        """When the window begins."""

    @property
    def end_s(self) -> float:
        """When it ends."""


@dataclass(frozen=True)
class Lending:
    """`known` spans the replay; `loans` are the orchestrator's settings."""

    known: KnownLoad
    loans: LoanSettings

    def policy(self, name: str, settings: Mapping[str, Any]) -> Policy:
        """Return a policy of the registry with servers on loan; one that borrows itself gets the settings."""
        own = load_policy(name, settings)
        if isinstance(getattr(own, "settings", None), LoanSettings):
            loans = {each.name: getattr(self.loans, each.name) for each in fields(LoanSettings)}
            return load_policy(name, {**settings, **loans})
        return LoaningPolicy(own, self.loans)

    def service(self, clock: ReplayClock) -> InferenceService:
        """Return the service as a replay knows it."""
        return self.known.service(clock.origin.timestamp())

    def short_pct(self, steps: LoanStepsSeen, clock: ReplayClock) -> float | None:
        """Return in how many of the window's measured five-minute steps inference lacked servers (%).

        `steps`: (s, servers on loan from then on), on the clock of the replay; None where nothing was
        measured.
        """
        times_s = self.known.replay_times_s(clock.origin.timestamp())
        inside = (times_s >= clock.start_s) & (times_s < clock.end_s) & ~self.known.gap
        if not inside.any():
            return None
        short = self.known.short(on_loan_at(steps, times_s))
        return 100.0 * float(np.mean(short[inside]))
