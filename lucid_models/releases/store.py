"""Reads releases out of the registry: manifest, files, verdict, and what people are shown of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foundation.errors import LucidError, NotFoundError, ReleaseRefusedError
from foundation.jsonable import to_jsonable
from foundation.parts import manifest_fields
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.approval import (
    APPROVED,
    ReleaseIdentity,
    VerdictTags,
    check_approval,
    identify,
    read_verdict_document,
)
from lucid_models.releases.clusters import release_clusters
from lucid_models.releases.decisions import Decision, read_decision
from lucid_models.releases.manifest import (
    MANIFEST_FILE,
    VERDICT_FILE,
    ReleaseManifest,
    cluster_of,
    parse_pinned_manifest,
    release_name,
)
from lucid_models.releases.optional_parts import PartSettings

ALLOW_SIMULATED = "allow_simulated_profiles"


@dataclass(frozen=True)
class ReleaseInfo:
    """One release as people see it. `alias` is the one asked for (else its first); `verdict` None: not
    judged. `went_live`: who made it the champion the last time. `parts`: settings of parts, by their
    fields. `moved`: what publishing it or rolling back to it did, in words.
    """

    name: str
    version: int
    alias: str | None
    aliases: tuple[str, ...]
    cluster: str
    created: str
    models: Mapping[str, Mapping[str, Any]]
    policy: str
    settings: Mapping[str, Any]
    choice: Mapping[str, Any] | None
    parts: PartSettings
    training: Mapping[str, Any]
    provenance: Mapping[str, bool]
    verdict: Mapping[str, Any] | None
    run_id: str
    manifest_sha256: str
    went_live: Decision | None = None
    moved: str | None = None

    def to_data(self) -> dict[str, Any]:
        """As a JSON object; settings of parts stand in fields of their own (null: it says nothing of one)."""
        data: dict[str, Any] = {}
        for name, value in to_jsonable(self).items():
            if name == "parts":
                data |= {**dict.fromkeys(manifest_fields()), **value}
            else:
                data[name] = value
        return data


def find_by_alias(registry: Registry, cluster: str, alias: str) -> RegisteredVersion:
    """The release behind a cluster's alias; raises NotFoundError with the aliases there are."""
    name = release_name(cluster)
    aliases = registry.aliases(name)
    if alias not in aliases:
        existing = ", ".join(f"{name} ({number})" for name, number in sorted(aliases.items())) or "none"
        others = ", ".join(release_clusters(registry)) or "none"
        raise NotFoundError(
            f"Cluster {cluster} has no release with the alias {alias!r}; its aliases: {existing}; clusters "
            f"with releases: {others}.",
            remedy="`lucid release build` makes a challenger, `lucid release publish` a champion.",
        )
    return registry.version(name, aliases[alias])


def read_release(registry: Registry, release: RegisteredVersion) -> tuple[ReleaseManifest, dict[str, bytes]]:
    """The manifest and the files of a release by name, as stored."""
    manifest = read_manifest(registry, release)
    files = {
        pin.file: registry.read_version_file(release.name, release.version, pin.file)
        for pin in manifest.models.values()
    }
    return manifest, files


def read_manifest(registry: Registry, release: RegisteredVersion) -> ReleaseManifest:
    """The manifest of a release; raises ReleaseRefusedError when it is not the one that was built."""
    place = f"The manifest of release {release.version}"
    payload = registry.read_version_file(release.name, release.version, MANIFEST_FILE)
    return parse_pinned_manifest(
        payload, name=release.name, sha256=release.tags.get("manifest_sha256"), source=place
    )


def identity_of(release: RegisteredVersion) -> ReleaseIdentity:
    """Which release a version is; raises ReleaseRefusedError when it does not pin its manifest."""
    cluster = cluster_of(release.name)
    if cluster is None:
        raise ReleaseRefusedError(f"{release.name} holds no releases of a cluster.")
    return identify(cluster, release.version, release.tags.get("manifest_sha256"))


def read_verdict(registry: Registry, release: RegisteredVersion) -> dict[str, Any] | None:
    """The stored verdict, or None when the release was never judged; raises ReleaseRefusedError on
    tampering.
    """
    document = _verdict_document(registry, release)
    if document is None:
        return None
    return read_verdict_document(identity_of(release), release.tags.get("verdict_sha256"), document)


def check_verdict(registry: Registry, release: RegisteredVersion) -> None:
    """Raise ReleaseRefusedError unless the gate approved exactly this release."""
    document = _verdict_document(registry, release)
    check_approval(identity_of(release), VerdictTags.of(release.tags), document)


def _verdict_document(registry: Registry, release: RegisteredVersion) -> bytes | None:
    tags = VerdictTags.of(release.tags)
    if tags.run_id is None or tags.word is None:
        return None
    return registry.read_run_file(tags.run_id, VERDICT_FILE)


def describe_release(
    registry: Registry, release: RegisteredVersion, alias: str | None, *, whole_verdict: bool = False
) -> ReleaseInfo:
    """What people are shown; `whole_verdict` fetches its document too."""
    manifest = read_manifest(registry, release)
    aliases = registry.aliases(release.name)
    own = tuple(sorted(name for name, number in aliases.items() if number == release.version))
    tags = release.tags
    verdict: dict[str, Any] | None = None
    if "verdict" in tags:
        verdict = {
            "status": tags["verdict"],
            "approved": tags["verdict"] == APPROVED,
            "sentence": tags.get("verdict_sentence", ""),
            "sha256": tags.get("verdict_sha256"),
            "run_id": tags.get("verdict_run_id"),
        }
        if whole_verdict:
            try:
                verdict = (read_verdict(registry, release) or {}) | verdict
            except LucidError as error:
                verdict |= {"problem": str(error)}
    return ReleaseInfo(
        name=release.name,
        version=release.version,
        alias=alias if alias is not None else (own[0] if own else None),
        aliases=own,
        cluster=manifest.cluster,
        created=manifest.created,
        models={
            kind: {"name": pin.name, "version": pin.version, "digest": pin.sha256}
            for kind, pin in manifest.models.items()
        },
        policy=manifest.policy,
        settings=manifest.settings,
        choice=manifest.choice,
        parts=manifest.parts,
        training={"until": manifest.training.until, "datasets": manifest.training.datasets},
        provenance=vars(manifest.provenance),
        verdict=verdict,
        run_id=release.run_id,
        manifest_sha256=tags.get("manifest_sha256", ""),
        went_live=read_decision(release),
    )


def require_tag(model: RegisteredVersion, key: str) -> str:
    """A tag that every version registered by us carries; raises ReleaseRefusedError without it."""
    if key not in model.tags:
        raise ReleaseRefusedError(
            f"{model.name} version {model.version} has no tag {key!r}: another program registered it.",
            remedy="Train the model again, or choose another version.",
        )
    return model.tags[key]


def check_not_rolled_back(release: RegisteredVersion) -> None:
    """Raise ReleaseRefusedError for a release that was taken back."""
    if "rolled_back" in release.tags:
        cluster = cluster_of(release.name)
        raise ReleaseRefusedError(
            f"Release {release.version} of {cluster} was rolled back: {release.tags['rolled_back']}.",
            remedy="Build a new release, or name its number in the form of publish_release or by "
            f"`lucid release publish --cluster {cluster} --version {release.version}`.",
        )


def check_provenance(manifest: ReleaseManifest, version: int) -> None:
    """Raise ReleaseRefusedError for simulated profiles on a real cluster, unless the release allows them or
    lets no job share GPUs, so that they decide nothing.
    """
    provenance = manifest.provenance
    allowed = manifest.settings.get(ALLOW_SIMULATED) is True or manifest.orders_only
    if provenance.simulated_profiles and not provenance.synthetic_logs and not allowed:
        raise ReleaseRefusedError(
            f"The packing model of release {version} was trained on simulated profiles, but cluster "
            f"{manifest.cluster!r} is a real one.",
            remedy="Train it on measured profiles, let no job share GPUs (the setting sharing=none), or "
            "allow simulated ones when it is built: in the form of retrain_models or ingest_logs, or by "
            "`lucid release build --allow-simulated-profiles`.",
        )
