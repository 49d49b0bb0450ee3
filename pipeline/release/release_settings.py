"""What an operator may set: the policy's settings that a release pins, and the gate's rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast, get_args

from foundation.errors import BadInputError, UnknownNameError, check_names
from foundation.parts import lacking
from lucid_models.releases.manifest import DEFAULT_POLICY
from lucid_models.releases.store import ALLOW_SIMULATED
from pipeline.replay.job_types import JobTypes
from pipeline.replay.warm_up import WARM_UP_DAYS, check_warm_up_days
from simulator.gate.installed_rules import installed_rules
from simulator.gate.rules import GateRules
from simulator.policies.registry import load_policy, policy_class

PREFERRED = ("objective", "jct_price_pct")  # what a release's choice says of the gate's rules


@dataclass(frozen=True)
class GateSettings:
    """How a release is validated.

    - `rules`: objective, margins and limits.
    - `warm_up_days`: days before the window: their jobs fill the cluster and are not counted.
    - `job_types`: profiles that the log lacks are "drawn" from the measured ones (seeded with `seed`), or,
      with "log", such jobs never share their GPUs.
    - `stated`: the rules that a person stated for this validation, which makes it a study and no verdict; the
      others go by what the release was chosen for, then by the installation.
    """

    rules: GateRules = field(default_factory=GateRules)
    warm_up_days: float = WARM_UP_DAYS
    job_types: JobTypes = "drawn"
    seed: int = 0
    stated: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_warm_up_days(self.warm_up_days)

    def preferring(self, choice: Mapping[str, Any] | None) -> "GateSettings":
        """Return the settings with the objective and the price that a release was chosen for."""
        preferred = {
            name: choice[name] for name in PREFERRED if choice and name in choice and name not in self.stated
        }
        return replace(self, rules=GateRules.from_data(self.rules.to_data() | preferred))


def pinned_settings(chosen: Mapping[str, Any] | None = None, policy: str = DEFAULT_POLICY) -> dict[str, Any]:
    """Return all settings of a policy as JSON can hold them, the chosen ones in place of their defaults.

    A release pins every one, so that a new default changes no old release. It is for a real cluster
    (`Policy.release_settings`).

    Raises UnknownNameError for a policy or a setting that does not exist, BadInputError for a bad value, for
    a setting that a release may not state, and for a policy that reads true run times.
    """
    stated = dict(chosen or {})
    allowed = {ALLOW_SIMULATED: stated.pop(ALLOW_SIMULATED)} if ALLOW_SIMULATED in stated else {}
    loaded = load_policy(policy, policy_class(policy).release_settings(stated))
    if loaded.oracle:
        raise BadInputError(
            f"A release cannot run {policy!r}: it reads true run times, which no scheduler knows.",
            remedy="Choose a policy that goes by estimates.",
        )
    return loaded.pinned_settings() | allowed


def own_settings(policy: str, pinned: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a release's settings that are the policy's, where they are not its defaults."""
    settings_class = getattr(policy_class(policy), "Settings", None)
    if settings_class is None:
        return {}
    default = settings_class()
    names = [field.name for field in fields(settings_class) if field.name in pinned]
    return {name: pinned[name] for name in names if pinned[name] != getattr(default, name)}


def allowing_simulated(settings: Mapping[str, Any], *, allow: bool) -> dict[str, Any]:
    """A release's settings; with `allow`, it may be published though it learned from simulated profiles."""
    return {**settings, ALLOW_SIMULATED: True} if allow else dict(settings)


def gate_settings(rules: Mapping[str, Any], job_types: str = "drawn") -> GateSettings:
    """Return how to validate: by the installation's rules (LUCID_GATE_RULES), the given ones in their place.

    Raises UnknownNameError for a rule or a way to find job types that does not exist, BadInputError for a bad
    value.
    """
    names = GateRules.names()
    for name in rules:
        if name not in names:
            raise lacking().get(f"gate rule {name}") or UnknownNameError("rule of the gate", name, names)
    check_names("way to find job types", [job_types], get_args(JobTypes))
    return GateSettings(
        rules=GateRules.from_data({**installed_rules(), **rules}),
        job_types=cast("JobTypes", job_types),
        stated=tuple(sorted(rules)),
    )
