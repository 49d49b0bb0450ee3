"""Which releases, model versions and runs of a registry are past their retention, and their removal.

A release stays while an alias names it or a move of aliases is under way, while it is the newest of its
cluster, for `published_days` after it was last live, or else for `challenger_days` after it was built. A
model version stays while a kept release pins it, an alias names it, or it is the newest of its cluster, and
for `model_days`. A run stays for `run_days`, and while a registered version, or a tag of one (such as the run
of its verdict), names it.

Versions go for good. Runs are deleted as MLflow's page deletes them: they can be restored until `mlflow gc`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from foundation.errors import NotFoundError, ReleaseRefusedError
from foundation.retention_settings import RetentionSettings
from lucid_models.catalogue import catalogue
from lucid_models.registry import PastRun, RegisteredVersion, Registry
from lucid_models.releases.aliases import pending_transition
from lucid_models.releases.building import model_name
from lucid_models.releases.decisions import read_decision
from lucid_models.releases.manifest import cluster_of
from lucid_models.releases.store import read_manifest

Versions = Mapping[str, Sequence[RegisteredVersion]]


@dataclass(frozen=True)
class RegistryExpiry:
    """What stays and what goes of one kind (`releases`, `models`, `runs`)."""

    kind: str
    kept: int
    removed: int
    remarks: tuple[str, ...] = ()


def expire_registry(
    tracking_uri: str,
    settings: RetentionSettings,
    *,
    experiments: Sequence[str],
    now: datetime,
    dry_run: bool = False,
) -> list[RegistryExpiry]:
    """Remove what is past its retention; of runs those of these experiments alone.

    Raises ServiceUnavailableError when MLflow does not answer, ServiceRefusedError where it may not.
    """
    registry = Registry(tracking_uri)
    versions = {name: registry.versions(name) for name in registry.models_named("")}
    old_releases, old_models, remarks = _old_versions(registry, versions, settings, now)
    if not dry_run:
        for version in (*old_releases, *old_models):
            _delete_unless_named(registry, version)
    old = {_key(version) for version in (*old_releases, *old_models)}
    kept = [version for own in versions.values() for version in own if _key(version) not in old]
    needed = {version.run_id for version in kept}.union(*(version.tags.values() for version in kept))
    ended = _ended_runs(registry, experiments, settings.run_days, now)
    old_runs = [run for run in ended if run.run_id not in needed]
    if not dry_run:
        for run in old_runs:
            registry.delete_run(run)
    releases = sum(cluster_of(version.name) is not None for version in kept)
    models = sum(_is_model(version.name) for version in kept)
    return [
        RegistryExpiry("releases", releases, len(old_releases)),
        RegistryExpiry("models", models, len(old_models), remarks),
        RegistryExpiry("runs", len(ended) - len(old_runs), len(old_runs)),
    ]


def _old_versions(
    registry: Registry, versions: Versions, settings: RetentionSettings, now: datetime
) -> tuple[list[RegisteredVersion], list[RegisteredVersion], tuple[str, ...]]:
    """Releases and model versions past their retention, and why no model version is."""
    releases = {name: own for name, own in versions.items() if cluster_of(name) is not None}
    old_releases = [
        version
        for name, own in releases.items()
        for version in _unnamed(registry, name, own)
        if version is not own[0] and _release_is_old(version, own, settings, now)
    ]
    old = {_key(version) for version in old_releases}
    pinned: set[tuple[str, int]] = set()
    for version in (version for own in releases.values() for version in own if _key(version) not in old):
        try:
            pins = read_manifest(registry, version).models.values()
        except (ReleaseRefusedError, NotFoundError) as error:  # what it pins is not known
            return old_releases, [], (f"All model versions stay: {error}",)
        pinned.update((pin.name, pin.version) for pin in pins)
    old_models = [
        version
        for name, own in versions.items()
        if _is_model(name)
        for version in _unnamed(registry, name, own)
        if _key(version) not in pinned | _newest_of_clusters(own)
        and _is_past(_created(version), settings.model_days, now)
    ]
    return old_releases, old_models, ()


def _release_is_old(
    version: RegisteredVersion,
    own: Sequence[RegisteredVersion],
    settings: RetentionSettings,
    now: datetime,
) -> bool:
    if (live_since := _went_live(version)) is None:
        return _is_past(_created(version), settings.challenger_days, now)
    # It was live until the next one was. Where that one went live again since, it seems to have been longer.
    others = [moment for other in own if (moment := _went_live(other)) is not None]
    live_until = min((moment for moment in others if moment > live_since), default=now)
    return _is_past(live_until, settings.published_days, now)


def _went_live(version: RegisteredVersion) -> datetime | None:
    decision = read_decision(version)
    return None if decision is None else datetime.fromisoformat(decision.at)


def _unnamed(registry: Registry, name: str, own: Sequence[RegisteredVersion]) -> Iterable[RegisteredVersion]:
    """The versions that no alias names; none while aliases move."""
    if pending_transition(registry, name) is not None:
        return ()
    named = set(registry.aliases(name).values())
    return (version for version in own if version.version not in named)


def _delete_unless_named(registry: Registry, version: RegisteredVersion) -> None:
    """Delete a version, unless a move of aliases began or reached it meanwhile: MLflow would drop them."""
    if any(True for _ in _unnamed(registry, version.name, [version])):
        registry.delete_version(version.name, version.version)


def _newest_of_clusters(own: Sequence[RegisteredVersion]) -> set[tuple[str, int]]:
    """The newest version of each cluster among those of one registered model (the newest first)."""
    newest: dict[str | None, RegisteredVersion] = {}
    for version in own:
        newest.setdefault(version.tags.get("cluster"), version)
    return {_key(version) for version in newest.values()}


def _ended_runs(
    registry: Registry, experiments: Sequence[str], days: float | None, now: datetime
) -> list[PastRun]:
    if days is None:
        return []
    before_s = (now - timedelta(days=days)).timestamp()
    return [run for name in experiments for run in registry.ended_runs(name, before_s=before_s)]


def _is_model(name: str) -> bool:
    """Whether a registered model holds versions of a kind of model."""
    return any(f"{name}-".startswith(f"{model_name(kind, None)}-") for kind in catalogue())


def _is_past(moment: datetime, days: float | None, now: datetime) -> bool:
    return days is not None and moment < now - timedelta(days=days)


def _created(version: RegisteredVersion) -> datetime:
    return datetime.fromtimestamp(version.created_ms / 1e3, UTC)


def _key(version: RegisteredVersion) -> tuple[str, int]:
    return version.name, version.version
