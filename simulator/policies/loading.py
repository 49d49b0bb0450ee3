"""Policies made for a scenario: by name and settings, and as the parts have it that add to any policy.

A part may know settings that are not a policy's own, and what it makes of one that is given them
(`Part.policy_loader`): a function that stands around the loading, `LoadAround`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from foundation.parts import hooks
from simulator.policies.registry import load_policy
from simulator.policy import Policy
from simulator.rules import Rules
from simulator.scenario import Scenario


class Load(Protocol):
    """Makes a policy from its name and settings under a rule set, as `load_policy`."""

    def __call__(self, name: str, settings: Mapping[str, Any] | None, rules: Rules) -> Policy:
        """Raise UnknownNameError for a name or a setting that does not exist, BadInputError for a value."""


class LoadAround(Protocol):
    """What stands at `Part.policy_loader`: it takes its own settings out, and adds to what `load` makes."""

    def __call__(
        self,
        load: Load,
        name: str,
        settings: Mapping[str, Any] | None,
        rules: Rules,
        scenario: Scenario | None = None,
    ) -> Policy:
        """Raise BadInputError where the policy cannot replay the scenario (None: any)."""


def load_with_parts(
    name: str, settings: Mapping[str, Any] | None, rules: Rules, scenario: Scenario | None = None
) -> Policy:
    """Make a policy with settings that may be those of parts, too; raises as `load_policy`."""
    load: Load = load_policy
    for _, around in hooks("policy_loader"):
        load = partial(around, load, scenario=scenario)
    return load(name, settings, rules)


def policy_for(scenario: Scenario, name: str, settings: Mapping[str, Any] | None) -> Policy:
    """Make a policy for a scenario; raises BadInputError where its jobs cannot run under it."""
    return load_with_parts(name, settings, scenario.rules, scenario)
