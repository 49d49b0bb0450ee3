"""Which of the simulator's policies orders a live cluster, and with which settings."""

from dataclasses import fields, replace

from foundation.errors import BadInputError
from live_scheduler.live_settings import LiveSettings
from lucid_models.releases.manifest import DEFAULT_POLICY, ReleaseManifest
from simulator.policies.registry import load_policy, policy_class, policy_names
from simulator.policy import Policy


def settings_in_force(settings: LiveSettings, manifest: ReleaseManifest | None = None) -> LiveSettings:
    """Return the settings with the policy that counts, and all of its settings.

    The release names both, unless the operator's settings do; what they set of its policy goes before what it
    pins.
    """
    ran = DEFAULT_POLICY if manifest is None else manifest.policy
    policy = settings.policy or ran
    pinned = dict(manifest.settings) if manifest is not None and policy == manifest.policy else {}
    setting_names = _settings_of(policy_class(policy))
    pinned_settings = {name: value for name, value in pinned.items() if name in setting_names}
    return replace(settings, policy=policy, policy_settings={**pinned_settings, **settings.policy_settings})


def live_policy(settings: LiveSettings) -> Policy:
    """Return the policy that orders a live cluster; `settings` are those in force.

    Raises UnknownNameError for a name, BadInputError for a policy that no live cluster can follow.
    """
    name = settings.policy or DEFAULT_POLICY
    policy = policy_class(name)
    why_not = policy.live_objection()
    if why_not is not None:
        raise BadInputError(
            f"The policy {name!r} {why_not}, which no live cluster allows.",
            remedy=f"Choose one of: {', '.join(live_policy_names())}.",
        )
    prescribed = policy.live_settings(shares_gpus=bool(settings.shared_partitions))
    return load_policy(name, {**settings.policy_settings, **prescribed})


def live_policy_names() -> list[str]:
    """Return the policies that a live cluster can follow: no oracle, no preemption."""
    return [name for name in policy_names() if policy_class(name).live_objection() is None]


def _settings_of(policy: type[Policy]) -> frozenset[str]:
    settings_class = getattr(policy, "Settings", None)
    return (
        frozenset() if settings_class is None else frozenset(field.name for field in fields(settings_class))
    )
