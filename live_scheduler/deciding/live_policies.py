"""Which policy of the simulator orders a live cluster, by which settings, and what it believes of pairs."""

from dataclasses import dataclass, fields, replace
from typing import Protocol

from foundation.errors import BadInputError
from live_scheduler.live_settings import LiveSettings
from lucid_models.packing.pairwise import PairwiseScorer
from lucid_models.releases.manifest import DEFAULT_POLICY, ReleaseManifest
from simulator.policies.registry import load_policy, policy_class, usable_policies
from simulator.policy import Policy
from simulator.workload.colocation import BelievedPairs
from simulator.workload.job import JobProfile


class PairModel(Protocol):
    """What is read of a packing model."""

    @property
    def pairwise(self) -> PairwiseScorer | None:
        """Its pairwise part, if it has one."""


@dataclass(frozen=True)
class PredictedPairs:
    """A pairwise packing model as the simulator's `ColocationModel`.

    The model says how fast the slower one of two jobs is, not which of them that is. Here it is the first
    one, so only the mean and the lower of the two speeds mean anything.
    """

    scorer: PairwiseScorer

    def speeds(self, first: JobProfile | None, second: JobProfile | None) -> tuple[float, float]:
        """Return the lower and the higher speed, relative to running alone."""
        mean, low = self.scorer.predict_one(_metrics(first), _metrics(second))
        return low, 2.0 * mean - low


def believed_pairs(packing: PairModel) -> BelievedPairs | None:
    """Return what a packing model predicts of pairs; None: it gives Sharing Scores only."""
    scorer = packing.pairwise
    return None if scorer is None else BelievedPairs(PredictedPairs(scorer), scorer.mean_speed_min)


def _metrics(profile: JobProfile | None) -> tuple[float, float, float, float]:
    """In the order of packing.model.FEATURES; NaN where unknown."""
    if profile is None:
        return (float("nan"),) * 4
    return (*profile.belief, float(profile.amp))


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
    return [name for name, policy in usable_policies().items() if policy.live_objection() is None]


def _settings_of(policy: type[Policy]) -> frozenset[str]:
    settings_class = getattr(policy, "Settings", None)
    return (
        frozenset() if settings_class is None else frozenset(field.name for field in fields(settings_class))
    )
