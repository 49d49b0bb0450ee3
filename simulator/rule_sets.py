"""The rule sets by name: our own, and those that parts offer.

A part (`foundation.parts`) offers rule sets by name, each the place of a function of the names of faults to
leave out, which returns a `Rules`.
"""

from collections.abc import Callable, Collection

from foundation.errors import BadInputError, UnknownNameError
from foundation.parts import at_place, lacking, offered
from simulator.rules import DEFAULT, Rules

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
            remedy="It must be a function that returns a simulator.rules.Rules.",
        )
    return rules
