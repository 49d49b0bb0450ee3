"""What a plan can vary by a part: at the place `planned` of a `Part`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from foundation.errors import BadInputError, check_names
from foundation.parts import hooks, lacking

if TYPE_CHECKING:
    from pipeline.planning.planned_log import PlannedLog
    from pipeline.planning.planned_run import PlannedRun
    from pipeline.planning.questions import PlanAnswer, Questions
    from pipeline.replay.log_companion import LogCompanion
    from simulator.scenario.scenario import Scenario


class AskedOfLog(NamedTuple):
    """What can be asked of a log, by which run, and what to say of the rest."""

    asked: Any
    run: "PlannedRun"
    remarks: tuple[str, ...] = ()


class ClusterOfLake(NamedTuple):
    """A cluster with its log in the lake."""

    lake_uri: str
    cluster: str


class BesidePlan(NamedTuple):
    """What acts beside the policies in all replays of a plan, and options of `lucid simulate` that say so."""

    companions: "tuple[LogCompanion, ...]" = ()
    words: tuple[str, ...] = ()


class PlannedPart(ABC):
    """A part that a plan's runs may have, with a value of its own in each (`PlannedRun.parts`).

    - `key`: of the value in a run and in its record; `absent`: the value of a run without the part.
    - `nothing`: what is asked where no person asks anything.
    - `fields`: of the plan's form that say what is asked; `log_fields`: that say what lies beside the log.
    - `rules_of_formats`: the rule set that a format of logs is replayed by.
    - `figures`: of a replay's summary that rows show; `kept_figures`: that are stored, too.
    - `columns`: those of them that tables for people show, with their headings.
    """

    key: str
    absent: Any
    nothing: Any
    fields: tuple[str, ...] = ()
    log_fields: tuple[str, ...] = ()
    rules_of_formats: Mapping[str, str] = {}
    figures: tuple[str, ...] = ()
    kept_figures: tuple[str, ...] = ()
    columns: Mapping[str, str] = {}

    # -- what is asked ---------------------------------------------------------------------------------------

    @abstractmethod
    def of_form(self, stated: Mapping[str, Any]) -> Any:
        """Return what stated fields of a form ask; raises BadInputError for a bad value."""

    def run_settings(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Return the policy's settings that stated fields of a form give."""
        return {}

    @abstractmethod
    def check(self, asked: Any, run: "PlannedRun") -> "PlannedRun":
        """Return the run with most of the part; raises BadInputError for what cannot be asked of any log."""

    @abstractmethod
    def for_log(self, asked: Any, run: "PlannedRun", log: "PlannedLog") -> AskedOfLog:
        """Return what can be asked of a log; raises BadInputError for what is asked and cannot be."""

    @abstractmethod
    def values(self, asked: Any) -> Sequence[Any]:
        """Return the values that are compared, the one without the part first."""

    # -- the log ---------------------------------------------------------------------------------------------

    def check_log(self, stated: Mapping[str, Any], source_format: str | None) -> None:  # noqa: B027
        """Raise BadInputError where what stated fields say does not go with a format (None: the lake's)."""

    def beside_log(
        self,
        stated: Mapping[str, Any],
        in_lake: ClusterOfLake | None,
        replays_uri: str,
    ) -> BesidePlan:
        """Return what acts beside the policies; what comes from the lake is first written below a URI."""
        return BesidePlan()

    # -- a run with it ---------------------------------------------------------------------------------------

    def policy_settings(self, value: Any) -> dict[str, Any]:
        """Return the policy's settings that a run's value stands for."""
        return {}

    def replayed(self, scenario: "Scenario", value: Any, seed: int) -> "Scenario":
        """Return the scenario that a run with this value replays."""
        return scenario

    @abstractmethod
    def words(self, value: Any) -> str:
        """Name the value for people; empty: it changes nothing."""

    @abstractmethod
    def command_words(self, value: Any) -> list[str]:
        """Return the words of `lucid simulate` that say it."""

    def nodes_off(self, figures: Mapping[str, Any]) -> float:
        """Return how many of a replay's nodes draw nothing on average."""
        return 0.0

    # -- answers ---------------------------------------------------------------------------------------------

    @abstractmethod
    def answers(
        self,
        questions: "Questions",
        run: "PlannedRun",
        nodes: "Sequence[PlanAnswer]",
        sizes: Mapping[str, int],
    ) -> "list[PlanAnswer]":
        """Return what the part changes in a run; none in one without it.

        `nodes`: how many keep the limit in each variant so far. `sizes`: of the cluster, by what they are.
        """

    def closing_answers(self, asked: Any, run: "PlannedRun", log: "PlannedLog") -> "list[PlanAnswer]":
        """Return what needs no replay of jobs."""
        return []


def planned_parts() -> tuple[PlannedPart, ...]:
    """Return what installed parts add, by the parts' names."""
    return tuple(part for _, part in hooks("planned"))


def check_parts(asked: Iterable[str], known: Iterable[str]) -> None:
    """Raise NotFoundError for the first name that a part which is not installed would bring, UnknownNameError
    for another that is not known.
    """
    names, missing = list(known), lacking()
    for name in asked:
        if name not in names and f"setting {name}" in missing:
            raise missing[f"setting {name}"]
    check_names("field of a plan", asked, names)


def combinations(values: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return every combination of settings' values; a value that is no list is the only one."""
    if not isinstance(values, Mapping):
        raise BadInputError(f"{values!r} are no settings.", remedy='Write {"buffer_nodes": [1, 5]}.')
    tried = {name: value if isinstance(value, list | tuple) else [value] for name, value in values.items()}
    return tuple(dict(zip(tried, combined, strict=True)) for combined in product(*tried.values()) if combined)
