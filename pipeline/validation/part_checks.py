"""What the gate asks of a release for what a part adds to it: at the place `gate_check` of a `Part`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from foundation.parts import hooks
from foundation.progress import Progress
from foundation.site import Site
from lucid_models.releases.lifecycle import ReleaseModels
from pipeline.validation.contenders import ReplayContender
from pipeline.validation.contest import Candidates, Contest
from pipeline.validation.replay_inputs import ReplayInputs
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Constraint
from simulator.results.result import SimulationResult


@dataclass(frozen=True)
class JudgedRelease:
    """A challenger with all that was replayed on the held-out days before its parts were asked.

    `results`: by contender, without those of releases that could not be replayed.
    """

    candidates: Candidates
    contest: Contest
    results: Mapping[str, SimulationResult]
    inputs: ReplayInputs
    site: Site
    rules: GateRules

    @property
    def models(self) -> ReleaseModels:
        """The release that is judged."""
        return self.candidates.challenger.models

    def contender(self, name: str) -> ReplayContender | None:
        """Return a release as it was replayed; None where its predictions were unusable."""
        return next((one for one in self.contest.contenders if one.name == name), None)


@dataclass(frozen=True)
class PartFindings:
    """Constraints of a part, and the releases' schedules with it by name: rows of the table of policies."""

    constraints: Sequence[Constraint] = ()
    replays: Mapping[str, SimulationResult] = field(default_factory=dict)


class GateCheck(ABC):
    """What a part asks of a release; `step` says what is done meanwhile ("letting nodes sleep")."""

    step: str

    @abstractmethod
    def check(self, judged: JudgedRelease) -> PartFindings:
        """Return what was found; nothing of a release without the part's settings."""


def part_findings(judged: JudgedRelease, progress: Progress) -> Iterator[PartFindings]:
    """Yield what each installed part finds of a release, by the parts' names."""
    contenders = len(judged.contest.contenders)
    for _, check in hooks("gate_check"):
        progress(contenders, contenders, check.step)
        yield check.check(judged)
