"""Rule sets of simulators that replay in an engine of their own."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from foundation.progress import Progress
from simulator.policy import Policy
from simulator.result import SimulationResult
from simulator.rules import Rules
from simulator.scenario import Scenario


@dataclass(frozen=True)
class RulesWithEngine(Rules, ABC):
    """Rules under which no replay is made in our engine."""

    @abstractmethod
    def replay(
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        name: str | None,
        predict: bool,
        watched: bool,
        progress: Progress | None,
    ) -> SimulationResult:
        """Replay a scenario.

        `watched` says whether there is a recorder; raises BadInputError for what the engine cannot do.
        """
