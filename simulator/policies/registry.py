"""The policies by name: those of this folder, and those that parts offer.

A part (`foundation.parts`) offers policies by name, each the place of a `Policy` subclass. A policy with
settings has a nested frozen dataclass `Settings` and takes one as its only argument. Light to
import, so that forms may list the names.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from foundation.checked_settings import CheckedSettings, as_declared, refuse_misfits
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.parts import at_place, lacking, offered

if TYPE_CHECKING:
    from simulator.policy import Policy
    from simulator.scenario.rules import Rules

# name = file stem -> class in that file
BUILT_IN: Mapping[str, str] = {
    "fifo": "Fifo",
    "sjf": "Sjf",
    "srtf": "Srtf",
    "qssf": "Qssf",
    "tiresias": "Tiresias",
    "lucid": "Lucid",
    "clarity": "Clarity",
    "fair_share": "FairShare",
    "easy": "Easy",
    "tsafrir_easy": "TsafrirEasy",
    "site": "SitePolicy",
}


def policy_names() -> list[str]:
    """Return the names of all policies, our own first."""
    return [*BUILT_IN, *sorted(offered("policies").keys() - BUILT_IN)]


def elastic_policy_names() -> list[str]:
    """Return the names of the policies that resize elastic jobs while they run."""
    return [name for name, policy in usable_policies().items() if policy.elastic]


def usable_policies() -> "dict[str, type[Policy]]":
    """Return all policies by name, without those of a part that needs another, which is not installed."""
    found = {}
    for name in policy_names():
        with suppress(NotFoundError):
            found[name] = policy_class(name)
    return found


def policy_class(name: str, rules: "Rules | None" = None) -> "type[Policy]":
    """Return the class of a policy under a rule set (None: the default one).

    Raises UnknownNameError with the alternatives, BadInputError for a place that holds no policy.
    """
    from simulator.policy import Policy

    if rules is not None and name in rules.policies:
        return rules.policies[name]
    if name in BUILT_IN:
        policy = getattr(import_module(f"simulator.policies.{name}"), BUILT_IN[name])
    elif (place := offered("policies").get(name)) is not None:
        policy = at_place(place)
    else:
        raise lacking().get(f"policy {name}") or UnknownNameError("policy", name, policy_names())
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise BadInputError(
            f"Policy {name!r} is {policy!r}.", remedy="It must be a subclass of simulator.policy.Policy."
        )
    return policy


def policy_sentence(name: str) -> str:
    """Return a policy's rule in one sentence, as its class says it; empty where it says nothing."""
    return (policy_class(name).__doc__ or "").strip().partition("\n")[0]


def load_policy(
    name: str, settings: Mapping[str, Any] | None = None, rules: "Rules | None" = None
) -> "Policy":
    """Make a policy from its name and settings by field name, which change those of the rule set.

    Raises UnknownNameError for a name or a setting that does not exist, BadInputError for a bad value.
    """
    policy: Callable[..., Policy] = policy_class(name, rules)
    of_rules = rules.policy_settings.get(name, {}) if rules is not None else {}
    settings = {**of_rules, **(settings or {})}
    settings_class = getattr(policy, "Settings", None)
    if settings_class is None:
        if settings:
            raise BadInputError(f"Policy {name!r} has no settings, but got {', '.join(sorted(settings))}.")
        return policy()
    names = [field.name for field in fields(settings_class)]
    for key in settings:
        if key not in names:
            raise UnknownNameError(f"setting of policy {name!r}:", key, names)
    refuse_misfits(settings_class, settings)
    if not issubclass(settings_class, CheckedSettings):  # which do it themselves
        settings = as_declared(settings_class, settings)
    return policy(settings_class(**settings))
