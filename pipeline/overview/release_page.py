"""Everything that a person weighs before a release goes live, or asks of one that is: one page."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.csv_files import as_text
from foundation.errors import LucidError, NotFoundError
from foundation.parts import hooks
from foundation.site import Site
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.aliases import CHAMPION, PREVIOUS
from lucid_models.releases.decisions import Decision, read_rejection
from lucid_models.releases.manifest import orders_only, release_name
from lucid_models.releases.obstacles import publication_obstacles
from lucid_models.releases.store import ReleaseInfo, describe_release
from pipeline.overview.model_figures import PinnedModel, read_pinned_models
from pipeline.overview.release_contents import (
    Difference,
    ReleasePart,
    release_differences,
    release_parts,
)
from pipeline.release.beside_the_live import beside_the_live
from simulator.gate.report import QUEUING_FILE


@dataclass(frozen=True)
class ReleasePage:
    """A release with its verdict, what differs from `before` (the release that was live, else the newest
    older one), its parts and models, what stands against publishing it, and what its numbers rest on.

    `champion`: the live version; `beside_the_live`: how this one is beside it, in words; `previous`: the one
    that a rollback from this release would go back to, None unless it is live. `said_by_parts`: sentences of
    installed parts about it. `queuing`: rows
    {virtual_cluster, jobs, POLICY: mean queuing delay (s), ...}, or None where the verdict was kept without.
    """

    release: ReleaseInfo
    turned_down: Decision | None
    live: bool
    champion: int | None
    beside_the_live: str
    previous: int | None
    before: int | None
    differences: Sequence[Difference]
    parts: Sequence[ReleasePart]
    said_by_parts: Sequence[str]
    models: Sequence[PinnedModel]
    obstacles: Sequence[str]
    warnings: Sequence[str]
    queuing: Sequence[Mapping[str, Any]] | None
    versions: Sequence[int]


def read_release_page(site: Site, *, version: int) -> ReleasePage:
    """Read a release and its verdict; raises NotFoundError when there is no such release."""
    registry, name = Registry(site.registry), release_name(site.cluster)
    stored = {release.version: release for release in registry.versions(name)}
    if version not in stored:
        raise NotFoundError(
            f"Cluster {site.cluster} has no release {version}.",
            remedy=f"It has {', '.join(map(str, sorted(stored))) or 'none'}.",
        )
    release = describe_release(registry, stored[version], None, whole_verdict=True)
    aliases = registry.aliases(name)
    champion = aliases.get(CHAMPION)
    before = _before(release, champion, stored)
    obstacles = [] if champion == version else publication_obstacles(registry, stored[version], named=True)
    return ReleasePage(
        release=release,
        turned_down=read_rejection(stored[version]),
        live=champion == version,
        champion=champion,
        beside_the_live=beside_the_live(registry, release, champion),
        previous=aliases.get(PREVIOUS) if champion == version else None,
        before=before,
        differences=_differences(registry, stored, before, release),
        parts=release_parts(release),
        said_by_parts=[said for _, part in hooks("release_settings") if (said := part.says(release))],
        models=read_pinned_models(registry, release.models),
        obstacles=[str(obstacle) for obstacle in obstacles],
        warnings=_warnings(release, stored[version]),
        queuing=_queuing(registry, release),
        versions=sorted(stored, reverse=True),
    )


def _before(
    release: ReleaseInfo, champion: int | None, stored: Mapping[int, RegisteredVersion]
) -> int | None:
    if release.went_live is not None:
        return release.went_live.before
    if champion is not None and champion != release.version:
        return champion
    return max((version for version in stored if version < release.version), default=None)


def _differences(
    registry: Registry, stored: Mapping[int, RegisteredVersion], before: int | None, release: ReleaseInfo
) -> list[Difference]:
    if before is None or before not in stored:
        return []
    try:
        earlier = describe_release(registry, stored[before], None)
    except LucidError:
        return []
    return release_differences(release, earlier)


def _warnings(release: ReleaseInfo, stored: RegisteredVersion) -> list[str]:
    warnings = []
    if release.provenance.get("synthetic_logs"):
        warnings.append("The log that it learned from is synthetic: it says nothing of a real cluster.")
    if orders_only(release.settings):
        warnings.append("It orders jobs and lets none share GPUs: its packing model decides nothing.")
    elif release.provenance.get("simulated_profiles"):
        warnings.append("Its packing model learned from simulated GPUs, not from measured ones.")
    if "rolled_back" in stored.tags:
        warnings.append(f"It was rolled back on {stored.tags['rolled_back']}.")
    return warnings


def _queuing(registry: Registry, release: ReleaseInfo) -> list[dict[str, Any]] | None:
    run_id = (release.verdict or {}).get("run_id")
    if not run_id:
        return None
    try:
        text = registry.read_run_file(str(run_id), QUEUING_FILE).decode()
    except NotFoundError:
        return None
    return [
        {name: as_text(value) if name == "virtual_cluster" else float(value) for name, value in row.items()}
        for row in csv.DictReader(io.StringIO(text))
    ]
