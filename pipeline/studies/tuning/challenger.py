"""Turns a proposal into a challenger: a release with the tuned settings, which the gate then judges.

The models are those of the release that was tuned; when the thresholds changed, the packing model is trained
anew with them and that version is pinned. The champion is left alone.
"""

from collections.abc import Mapping
from typing import Any

from foundation.errors import BadInputError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.building import SettingsOrigin
from lucid_models.releases.lifecycle import ReleaseInfo, build_release, show_release
from lucid_models.releases.optional_parts import PartSettings
from lucid_models.training import train_packing
from pipeline.profiling.profile_store import read_profile_set
from pipeline.release.release_settings import pinned_settings
from pipeline.studies.tuning.proposal import Proposal
from pipeline.studies.tuning.space import (
    policy_part,
    thresholds_of,
    with_thresholds,
)
from pipeline.studies.tuning.study import TuningStudy
from pipeline.studies.tuning.tuned_part import tuned_parts
from pipeline.validation.held_out_days import record_held_out

SETTINGS_DATASET = "settings"  # in a manifest's training.datasets: the study that chose the settings


def build_challenger(site: Site, study: TuningStudy, proposal: Proposal) -> ReleaseInfo:
    """Build a proposal's release, which becomes the challenger; the same proposal again is the same release.

    Raises BadInputError when the proposal did not pass its guard, or when a model learned later than the
    study's window ends; NotFoundError when a model was never trained.
    """
    if not proposal.proposed:
        raise BadInputError(
            f"There is nothing to build: {proposal.sentence}", remedy="Keep the current settings."
        )
    versions: dict[str, int] = {}
    pinned: Mapping[str, Any] = study.settings
    parts: PartSettings = {}
    if study.base_release is not None:
        base = show_release(tracking_uri=site.registry, cluster=study.cluster, version=study.base_release)
        versions = {kind: int(pin["version"]) for kind, pin in base.models.items()}
        pinned, parts = base.settings, base.parts
    for part in tuned_parts():
        if part.field in parts:
            pinned_part = part.pinned({**parts[part.field], **part.of(proposal.values)})
            parts = {**parts, part.field: pinned_part}
    if proposal.changes_packing:
        versions["packing"] = _train_packing(study, proposal, site.registry)
    release = build_release(
        tracking_uri=site.registry,
        cluster=study.cluster,
        versions=versions,
        policy=study.policy,
        settings=pinned_settings({**pinned, **policy_part(proposal.values)}, study.policy),
        training_until=study.windows.until,
        origin=SettingsOrigin(datasets={SETTINGS_DATASET: study.sha256}),
        parts=parts,
    )
    record_held_out(site, release, study.hold_out_days)
    registry = Registry(site.registry)
    for key, value in _tags(study, proposal).items():
        registry.set_version_tag(release.name, release.version, key, value)
    return release


def _train_packing(study: TuningStudy, proposal: Proposal, tracking_uri: str) -> int:
    profiles = read_profile_set(Site(lake=study.inputs_uri, cluster=study.cluster))
    settings = with_thresholds(study.packing, thresholds_of({**study.space.current, **proposal.values}))
    report = train_packing(
        solo=profiles.solo,
        pairs=profiles.pairs,
        tracking_uri=tracking_uri,
        seed=settings.seed,
        settings=settings,
    )
    return report.version


def _tags(study: TuningStudy, proposal: Proposal) -> dict[str, str]:
    objective = (proposal.validation or {})["objective"]
    return {
        "tuned_by": study.sha256,
        "tuned_study_uri": study.uri,
        "tuned_from_release": str(study.base_release or ""),
        "tuned_objective": proposal.objective,
        "tuned_before_s": f"{objective['reference']:.6g}",
        "tuned_after_s": f"{objective['challenger']:.6g}",
        "tuned_says": proposal.sentence,
    }
