"""Policies by name beside an inference service: those that borrow servers themselves, and any other."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from foundation.errors import BadInputError
from simulator.loaning.loaning_policy import LoaningPolicy
from simulator.loaning.settings import LoanSettings
from simulator.policies.registry import load_policy, policy_class
from simulator.policy import Policy
from simulator.rules import Rules
from simulator.workload_columns import objects_in

if TYPE_CHECKING:
    from simulator.scenario import Scenario

LOANING = "loaning"  # the setting that says whether servers are lent


def setting_names(name: str, rules: Rules) -> set[str]:
    """Return the names of a policy's own settings."""
    settings = getattr(policy_class(name, rules), "Settings", None)
    return set() if settings is None else {field.name for field in fields(settings)}


def borrows_itself(name: str, rules: Rules) -> bool:
    """Whether a policy decides on loans itself, for jobs in workers."""
    return LOANING in setting_names(name, rules)


def load_borrowing_policy(name: str, settings: Mapping[str, Any] | None, rules: Rules) -> Policy:
    """Make a policy from its name and settings, among which those of loans may be.

    A policy that does not borrow itself does with `loaning` true (`LoaningPolicy`); settings that are not its
    own are then those of `LoanSettings`, and mean nothing with `loaning` false. Raises as `load_policy`.
    """
    given = {**(settings or {})}
    if LOANING not in given or borrows_itself(name, rules):
        return load_policy(name, given, rules)
    own, lent = setting_names(name, rules), {each.name for each in fields(LoanSettings)}
    borrows = given.pop(LOANING)
    loans = {key: value for key, value in given.items() if key in lent - own}
    policy = load_policy(name, {key: value for key, value in given.items() if key not in loans}, rules)
    loan_settings = LoanSettings.from_data(loans)
    if not isinstance(borrows, bool):
        raise BadInputError(f"loaning is {borrows!r}.", remedy="Use true or false.")
    if not borrows:
        return policy
    if type(rules).replay is not Rules.replay:
        raise BadInputError(
            f"The simulator that the rules {rules.name!r} replay knows no servers on loan.",
            remedy="Use the rules default.",
        )
    return LoaningPolicy(policy, loan_settings)


def policy_for(scenario: "Scenario", name: str, settings: Mapping[str, Any] | None) -> Policy:
    """Make a policy for a scenario; raises BadInputError where its jobs cannot borrow under it."""
    policy = load_borrowing_policy(name, settings, scenario.rules)
    if scenario.inference is None:
        return policy
    in_workers = any(objects_in(scenario.workload.columns.workers))
    if isinstance(policy, LoaningPolicy) and in_workers:
        raise BadInputError(
            f"Policy {name!r} does not place jobs in workers on servers on loan.",
            remedy="Use one that does, as lyra, or the rules lyra.",
        )
    if borrows_itself(name, scenario.rules) and policy.settings.loaning and not in_workers:  # type: ignore[attr-defined]
        raise BadInputError(
            f"Policy {name!r} lends servers to jobs in workers, and the log has none.",
            remedy="Use another policy, as fifo or lucid, or do not lend.",
        )
    return policy
