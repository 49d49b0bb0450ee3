"""Policies by name beside an inference service: those that borrow servers themselves, and any other."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from foundation.errors import BadInputError
from parts.lending.replay.loaning_policy import LoaningPolicy
from parts.lending.replay.settings import LoanSettings
from simulator.policies.registry import policy_class
from simulator.policy import Policy
from simulator.replay import Load, RulesWithEngine
from simulator.scenario.rules import Rules
from simulator.scenario.scenario import Scenario
from simulator.workload.columns import objects_in

LOANING = "loaning"  # the setting that says whether servers are lent


def setting_names(name: str, rules: Rules) -> set[str]:
    """Return the names of a policy's own settings."""
    settings = getattr(policy_class(name, rules), "Settings", None)
    return set() if settings is None else {field.name for field in fields(settings)}


def borrows_itself(name: str, rules: Rules) -> bool:
    """Whether a policy decides on loans itself, for jobs in workers."""
    return LOANING in setting_names(name, rules)


def load_borrowing_policy(
    load: Load,
    name: str,
    settings: Mapping[str, Any] | None,
    rules: Rules,
    scenario: Scenario | None = None,
) -> Policy:
    """Make a policy from its name and settings, among which those of loans may be (`LoadAround`).

    A policy that does not borrow itself does with `loaning` true (`LoaningPolicy`); settings that are not its
    own are then those of `LoanSettings`, and mean nothing with `loaning` false. Raises as `load_policy`, and
    BadInputError where the scenario's jobs cannot borrow under it.
    """
    policy = _load(load, name, settings, rules)
    if scenario is not None and scenario.lender is not None:
        _check_jobs(policy, name, scenario)
    return policy


def _load(load: Load, name: str, settings: Mapping[str, Any] | None, rules: Rules) -> Policy:
    given = {**(settings or {})}
    if LOANING not in given or borrows_itself(name, rules):
        return load(name, given, rules)
    own, lent = setting_names(name, rules), {each.name for each in fields(LoanSettings)}
    borrows = given.pop(LOANING)
    loans = {key: value for key, value in given.items() if key in lent - own}
    policy = load(name, {key: value for key, value in given.items() if key not in loans}, rules)
    loan_settings = LoanSettings.from_data(loans)
    if not isinstance(borrows, bool):
        raise BadInputError(f"loaning is {borrows!r}.", remedy="Use true or false.")
    if not borrows:
        return policy
    if isinstance(rules, RulesWithEngine):
        raise BadInputError(
            f"The simulator that the rules {rules.name!r} replay knows no servers on loan.",
            remedy="Use the rules default.",
        )
    return LoaningPolicy(policy, loan_settings)


def _check_jobs(policy: Policy, name: str, scenario: Scenario) -> None:
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
