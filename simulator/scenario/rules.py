"""A rule set: what differs from one simulator to another beside the policies.

The defaults are our own rules, and every hook of `Rules` does nothing there. Other simulators are subclasses
elsewhere, so that the engine knows none of them: parts offer them by name, as places of functions of the
faults to leave out that return a `Rules` (`Part.rules`).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foundation.errors import BadInputError, UnknownNameError
from foundation.parts import at_place, lacking, offered
from simulator.cluster.placement import Remainder
from simulator.job_view import JobView
from simulator.workload.colocation import ColocationModel, MeasuredPairs
from simulator.workload.workload import Workload, refuse_negative_estimates

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Rules:
    """Data that a simulation is made with, and hooks that it calls.

    - `remainder`: the node that takes the remainder of a job larger than a node.
    - `labelled_scores`: sharing scores are the labels of the published table, not a model's predictions.
    - `fractional`: elastic policies share the GPUs of a virtual cluster in fractions, as one pool without
      nodes (`simulator.replay.RulesWithEngine`); others cannot run.
    - `policies`: policies (subclasses of `Policy`) by name that stand in for those that are registered.
    - `policy_settings`: settings by policy.
    - `faults`: the names of the mistakes of another simulator that are in it.
    """

    name: str
    remainder: Remainder = "fullest"
    labelled_scores: bool = False
    fractional: bool = False
    policies: Mapping[str, type[Any]] = field(default_factory=dict)
    policy_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    def check_estimates(self, workload: Workload, policy: str) -> None:
        """Raise BadInputError for estimates that no policy may order by."""
        refuse_negative_estimates(workload, policy)

    def labelled_tables(self, singles: Path, pairs: Path) -> "tuple[pd.DataFrame, pd.DataFrame] | None":
        """Return measured tables of which the labels count as they are; None: the packing model scores types.

        The first has the fields of `JobProfile` but `believed`, the second `colocation.PAIR_COLUMNS`.
        """
        return None

    def labelled_pairs(self, pairs: "pd.DataFrame") -> ColocationModel:
        """Return the speeds of the pairs of `labelled_tables`."""
        return MeasuredPairs(pairs)

    def pair_speeds(self, model: ColocationModel) -> ColocationModel:
        """Return the speeds of pairs as this rule set has them."""
        return model

    def end_of_run_s(self, end_s: float) -> float:
        """Return when a run ends that has done its work at `end_s`."""
        return end_s

    def speeds_up_alone(self, job: JobView) -> bool:
        """Whether a job that its partner has left runs at full speed again.

        One that does not keeps its speed, and shares its GPUs no more.
        """
        return True


DEFAULT = Rules("default")
BUILT_IN = {DEFAULT.name: DEFAULT}
WITHOUT = "-without:"  # between a rule set's name and the faults to leave out, separated by commas


def rule_set_names() -> list[str]:
    """Return the names of all rule sets, our own first."""
    return [*BUILT_IN, *sorted(offered("rules"))]


def load_rules(name: str) -> Rules:
    """Return a rule set by name.

    `lucid-artifact-without:lost_partner,free_profiling` is another simulator without some of its faults,
    `lucid-artifact-without:all` without any. Raises UnknownNameError with the alternatives, NotFoundError for
    one of a part that is not installed.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    simulator, without, faults = name.partition(WITHOUT)
    places = offered("rules")
    if simulator not in places:
        partial = (f"{each}{WITHOUT}FAULT,..." for each in sorted(places))
        raise lacking().get(f"rules {simulator}") or UnknownNameError(
            "rule set", name, (*rule_set_names(), *partial)
        )
    make: Callable[[Collection[str]], Rules] = at_place(places[simulator])
    rules = make(faults.split(",") if without else ())
    if not isinstance(rules, Rules):
        raise BadInputError(
            f"The rule set {simulator!r} is {rules!r}.",
            remedy="It must be a function that returns a simulator.scenario.rules.Rules.",
        )
    return rules
