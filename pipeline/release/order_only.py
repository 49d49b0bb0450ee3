"""A release that orders jobs and lets none share GPUs: the way in for a log without measured GPUs.

What a packing model learned from the simulated GPU says nothing of a cluster's own, so nothing may be decided
by it there. The order of jobs needs no profile: such a release runs Lucid's orchestrator alone, without
sharing and without the profiler's nodes, until GPUs of the cluster are measured.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.building import choose_versions, provenance_of
from lucid_models.releases.manifest import DEFAULT_POLICY, MODEL_KINDS
from lucid_models.releases.store import ALLOW_SIMULATED
from simulator.policies.registry import policy_class

WHY_ORDER_ONLY = (
    "It orders jobs and lets none share GPUs: no GPU of the cluster was measured (profile_workloads measures "
    "them)."
)


@dataclass(frozen=True)
class DecidedSharing:
    """A release's settings, and why it lets no job share GPUs; empty: it goes by its policy."""

    settings: Mapping[str, Any]
    sentence: str = ""


def decide_sharing(
    site: Site,
    settings: Mapping[str, Any],
    policy: str,
    *,
    versions: Mapping[str, int],
    stated: Collection[str] = (),
) -> DecidedSharing:
    """Lucid's settings, without sharing where the packing model learned from simulated profiles and the log
    is a real one.

    `stated`: settings that a person named; they stay as they are, and so does a release that may go live on
    simulated profiles. Raises BadInputError or NotFoundError for versions that do not fit (`build_release`).
    """
    if policy != DEFAULT_POLICY or settings.get(ALLOW_SIMULATED) is True or "sharing" in stated:
        return DecidedSharing(settings)
    pinned = {kind: number for kind, number in versions.items() if kind in MODEL_KINDS}
    provenance = provenance_of(choose_versions(Registry(site.registry), site.cluster, pinned))
    if not provenance.simulated_profiles or provenance.synthetic_logs:
        return DecidedSharing(settings)
    without = policy_class(policy).live_settings(shares_gpus=False)
    chosen = {name: value for name, value in without.items() if name not in stated}
    return DecidedSharing({**settings, **chosen}, WHY_ORDER_ONLY)
