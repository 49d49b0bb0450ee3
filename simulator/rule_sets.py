"""The rule sets by name: our own, that of Lyra's comparison, and those that other packages offer.

A package offers a rule set through an entry point of the group `lucid.rules`; the entry point's name is the
rule set's name and its value a function of the names of faults to leave out, which returns a `Rules`.
"""

from collections.abc import Callable, Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from simulator.loaning.comparison_rules import COMPARISON_RULES
from simulator.rules import DEFAULT, Rules

ENTRY_POINT_GROUP = "lucid.rules"
BUILT_IN = {rules.name: rules for rules in (DEFAULT, COMPARISON_RULES)}
WITHOUT = "-without:"  # between a rule set's name and the faults to leave out, separated by commas
OF_EXPERIMENTS = ("lucid-artifact", "helios-artifact", "pcs-artifact")


@cache
def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def rule_set_names() -> list[str]:
    """Return the names of all rule sets, our own first."""
    return [*BUILT_IN, *sorted(_offered())]


def load_rules(name: str) -> Rules:
    """Return a rule set by name.

    `lucid-artifact-without:lost_partner,free_profiling` is another simulator without some of its faults,
    `lucid-artifact-without:all` without any. Raises UnknownNameError with the alternatives, NotFoundError for
    one that belongs to the experiments where they are not installed.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    simulator, without, faults = name.partition(WITHOUT)
    if simulator not in _offered():
        if simulator in OF_EXPERIMENTS:
            raise NotFoundError(
                f"The rules {simulator!r} belong to the experiments, and they are not installed.",
                remedy="Install them from a checkout: pip install ./experiments",
            )
        partial = (f"{offered}{WITHOUT}FAULT,..." for offered in sorted(_offered()))
        raise UnknownNameError("rule set", name, (*rule_set_names(), *partial))
    make: Callable[[Collection[str]], Rules] = _offered()[simulator].load()
    rules = make(faults.split(",") if without else ())
    if not isinstance(rules, Rules):
        raise BadInputError(
            f"The rule set {simulator!r} is {rules!r}.",
            remedy="Its entry point must name a function that returns a simulator.rules.Rules.",
        )
    return rules
