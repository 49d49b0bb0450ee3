"""Chooses the model versions of a release and registers it, once however often it is built."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from foundation.errors import BadInputError, NotFoundError
from foundation.process_lock import scratch_folder
from lucid_models.catalogue import load_catalogue_entry
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.clusters import REMOVED_TAG
from lucid_models.releases.manifest import (
    MANIFEST_FILE,
    MODEL_KINDS,
    Provenance,
    ReleaseManifest,
)
from lucid_models.releases.optional_parts import optional_kinds
from lucid_models.releases.registry_page import release_description

RELEASE_EXPERIMENT = "lucid-release"
_DESCRIPTION = (
    "Releases for the schedulers of cluster {cluster}: the packing, throughput and duration models and the "
    "settings that were proven together. Schedulers follow the alias `champion`; `previous` is where a "
    "rollback goes; `challenger` was built last."
)


@dataclass(frozen=True)
class SettingsOrigin:
    """How a release's settings were chosen: `choice` where a person picked them from a search, and the
    SHA-256 of what else was learned from, by name, such as the study that chose them.
    """

    choice: Mapping[str, Any] | None = None
    datasets: Mapping[str, str] = field(default_factory=dict)


SET_BY_DEFAULT = SettingsOrigin()


def model_name(kind: str, cluster: str | None) -> str:
    """The registered model of a kind that holds a cluster's versions.

    `cluster` None: what belongs to no cluster, and what versions of Lucid before kept of all of them
    (docs/decisions/0097).
    """
    shared = f"lucid-{kind.replace('_', '-')}"
    return shared if cluster is None else f"{shared}-{cluster}"


def model_versions(registry: Registry, kind: str, cluster: str | None) -> list[RegisteredVersion]:
    """The versions of a kind that fit a cluster (None: of all clusters), the newest first.

    They are those of the cluster's own registered model, and of the one that clusters share.
    """
    if cluster is None:
        names = list(registry.models_named(f"{model_name(kind, None)}-"))
    else:
        names = [model_name(kind, cluster)]
    own = [version for name in names for version in registry.versions(name)]
    shared = [version for version in registry.versions(model_name(kind, None)) if _fits(version, cluster)]
    return sorted([*own, *shared], key=lambda version: -version.created_ms)


def find_model_version(registry: Registry, kind: str, cluster: str | None, version: int) -> RegisteredVersion:
    """A version of a cluster's registered model, else of the one that clusters share; or NotFoundError."""
    for name in dict.fromkeys((model_name(kind, cluster), model_name(kind, None))):
        with suppress(NotFoundError):
            return registry.version(name, version)
    return registry.version(model_name(kind, cluster), version)


def choose_versions(
    registry: Registry, cluster: str, wanted: Mapping[str, int], *, forecasts: Sequence[str] = ()
) -> dict[str, RegisteredVersion]:
    """The wanted version of each kind, or the newest that fits the cluster; errors as in `build_release`.

    Of the optional kinds those are among them that the release goes by (`forecasts`), wanted or not.
    """
    optional = optional_kinds()
    unknown = sorted(set(wanted) - {*MODEL_KINDS, *optional})
    if unknown:
        raise BadInputError(
            f"Unknown kinds of model {unknown}.",
            remedy=f"A release holds: {', '.join(MODEL_KINDS)}, and perhaps {' or '.join(optional)}.",
        )
    versions_by_model: dict[str, RegisteredVersion] = {}
    for kind in (*MODEL_KINDS, *forecasts):
        if kind in wanted:
            model = find_model_version(registry, kind, cluster, wanted[kind])
            if not _fits(model, cluster):
                raise BadInputError(
                    f"{model.name} version {model.version} was trained on cluster "
                    f"{model.tags.get('cluster')!r}, not on {cluster!r}.",
                    remedy=f"Choose another version, or train one: {_trained_by(kind)} --cluster {cluster}.",
                )
            versions_by_model[kind] = model
            continue
        fitting = model_versions(registry, kind, cluster)
        if not fitting:
            raise NotFoundError(
                f"There is no {model_name(kind, None)} for cluster {cluster!r} on {registry.tracking_uri}.",
                remedy=f"Train one: {_trained_by(kind)} ...",
            )
        versions_by_model[kind] = fitting[0]
    return versions_by_model


def _trained_by(kind: str) -> str:
    return f"lucid train {load_catalogue_entry(kind).command}"


def _fits(model: RegisteredVersion, cluster: str | None) -> bool:
    """Whether a version may be a cluster's: a packing model of GPUs that are no cluster's names none."""
    return cluster is None or model.tags.get("cluster", cluster) == cluster


def check_training_end(model: RegisteredVersion, training_until: datetime | None) -> None:
    """Raise BadInputError when a model learned from what the gate will replay."""
    learned = model.tags.get("training_until")
    if training_until is None or learned is None:
        return
    if datetime.fromisoformat(learned) > training_until:
        raise BadInputError(
            f"{model.name} version {model.version} learned from jobs up to {learned}, after the end of the "
            f"training window {training_until.isoformat()}: the gate would judge it on what it has seen.",
            remedy="Train it again with an earlier end, or choose an older version.",
        )


def latest_training_end(chosen: Mapping[str, RegisteredVersion]) -> str | None:
    """When the model that learned last stopped learning; None when no model says."""
    ends = [model.tags["training_until"] for model in chosen.values() if "training_until" in model.tags]
    return max(ends, key=datetime.fromisoformat) if ends else None


def provenance_of(chosen: Mapping[str, RegisteredVersion]) -> Provenance:
    """What was not measured of that from which the models of a release learned."""
    return Provenance(
        simulated_profiles=chosen["packing"].tags.get("simulated_profiles") == "true",
        synthetic_logs=any(
            model.tags.get("synthetic_logs") == "true" for kind, model in chosen.items() if kind != "packing"
        ),
    )


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON values; raises BadInputError for what JSON cannot hold."""
    try:
        return json_values(settings)
    except (TypeError, ValueError) as error:
        raise BadInputError(
            f"The settings {dict(settings)!r} cannot be written as JSON: {error}.",
            remedy="Give numbers, texts, true or false.",
        ) from error


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """A document after a round trip through JSON without NaN."""
    result: dict[str, Any] = json.loads(json.dumps(dict(values), allow_nan=False))
    return result


def register_release(registry: Registry, manifest: ReleaseManifest, files: Mapping[str, bytes]) -> int:
    """The version that holds exactly this; an identical one is used again."""
    content = manifest.content_sha256()
    registry.ensure_model(manifest.name, _DESCRIPTION.format(cluster=manifest.cluster))
    registry.delete_model_tag(manifest.name, REMOVED_TAG)
    for registered in registry.versions(manifest.name):
        if registered.tags.get("content_sha256") == content:
            return registered.version
    with (
        registry.run(RELEASE_EXPERIMENT, f"{manifest.cluster} release", {"cluster": manifest.cluster}) as run,
        scratch_folder("release") as folder,
    ):
        (folder / MANIFEST_FILE).write_bytes(manifest.to_bytes())
        for file, payload in files.items():
            (folder / file).write_bytes(payload)
        run.log_folder(folder, "release")
        run.log_params(
            {f"{kind}_version": pin.version for kind, pin in manifest.models.items()}
            | {f"setting_{key}": value for key, value in manifest.settings.items()}
            | {
                "training_until": manifest.training.until,
                "cluster": manifest.cluster,
                "policy": manifest.policy,
            }
        )
        version = registry.create_version(
            manifest.name,
            run.artifact_uri("release"),
            run.run_id,
            {
                "cluster": manifest.cluster,
                "policy": manifest.policy,
                "content_sha256": content,
                "manifest_sha256": manifest.sha256(),
                "simulated_profiles": str(manifest.provenance.simulated_profiles).lower(),
                "synthetic_logs": str(manifest.provenance.synthetic_logs).lower(),
            },
            description="",
        )
        registry.describe_version(
            manifest.name, version, release_description(manifest, (manifest.cluster, version))
        )
        run.rename(f"{manifest.cluster} release {version}")
        run.set_tag("release_version", str(version))
        return version
