"""Per cluster: what is live and who decided it, what wants to be and what stops it, how old the data are.

Read from the registry, the lake and the kept monitoring reports; nothing is worked out anew. What is not
there is said with the DAG that brings it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cluster_logs.lake import Lake
from cluster_logs.node_table import nodes_of_each
from foundation.errors import LucidError, NotFoundError, ReleaseRefusedError
from foundation.site import Site
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.aliases import CHALLENGER, CHAMPION, PREVIOUS
from lucid_models.releases.approval import APPROVED
from lucid_models.releases.clusters import release_clusters
from lucid_models.releases.decisions import Decision, read_decision
from lucid_models.releases.manifest import ReleaseManifest, release_name
from lucid_models.releases.obstacles import publication_obstacles
from lucid_models.releases.store import describe_release, read_manifest
from pipeline.overview.monitored import MonitoredAtAGlance, read_passes
from pipeline.release.beside_the_live import beside_the_live

OLD_DAYS = 14  # as long as what training holds out by default: a log that ends before says little of today


@dataclass(frozen=True)
class ReleaseAtAGlance:
    """A release in one line. `verdict`: approved, refused, or None where it was not judged; `learned_until`
    (ISO): the jobs that its models know, None where that is not stated.
    """

    version: int
    policy: str | None
    created: str
    verdict: str | None
    sentence: str
    decision: Decision | None
    rolled_back: str | None
    learned_until: str | None = None


@dataclass(frozen=True)
class DataAtAGlance:
    """The window of a cluster's jobs in the lake (UTC), and where its rows come from. `age_days`: since the
    last of them; `old`: what is built on it may no longer fit the cluster.
    """

    first_day: str
    last_day: str
    days: int
    age_days: int
    old: bool
    origin: str | None
    nodes: int | None
    gpus: int | None
    virtual_clusters: int | None


@dataclass(frozen=True)
class Missing:
    """What a cluster has not got, in words, and the DAG that brings it by its form."""

    sentence: str
    dag_id: str


@dataclass(frozen=True)
class ClusterAtAGlance:
    """A cluster in one card. `obstacles`: what stands against publishing the challenger; `beside_the_live`:
    how that is beside the live release, in words; `previous`: the version that a rollback would go back to;
    `problem`: why something of it could not be read.
    """

    name: str
    live: ReleaseAtAGlance | None
    challenger: ReleaseAtAGlance | None
    obstacles: Sequence[str]
    beside_the_live: str
    previous: int | None
    monitored: MonitoredAtAGlance | None
    data: DataAtAGlance | None
    missing: Sequence[Missing]
    problem: str | None = None


@dataclass(frozen=True)
class Overview:
    """All clusters of an installation by name; `problem` is set where the registry did not answer."""

    clusters: Sequence[ClusterAtAGlance]
    read_at: str
    problem: str | None = None


def read_overview(site: Site, *, monitoring_dir: Path) -> Overview:
    """Read every cluster that has jobs, or a release and was not removed.

    What does not answer is said, and the rest is shown.
    """
    registry: Registry | None = None
    with_release: list[str] = []
    problem = None
    try:
        registry = Registry(site.registry)
        with_release = release_clusters(registry)
    except LucidError as error:
        registry, problem = None, str(error)
    lake = Lake(site.lake)
    names = sorted({*with_release, *lake.clusters()})
    passes = read_passes(monitoring_dir)
    clusters = [cluster_at_a_glance(name, registry, lake, passes.get(name)) for name in names]
    return Overview(clusters, datetime.now(UTC).isoformat(timespec="seconds"), problem)


def cluster_at_a_glance(
    name: str, registry: Registry | None, lake: Lake, monitored: MonitoredAtAGlance | None
) -> ClusterAtAGlance:
    """Read one cluster; without a registry no release of it is looked for."""
    live = challenger = previous = problem = None
    obstacles: list[str] = []
    beside = ""
    if registry is not None:
        try:
            aliases = registry.aliases(release_name(name))
            previous = aliases.get(PREVIOUS)
            if CHAMPION in aliases:
                champion = registry.version(release_name(name), aliases[CHAMPION])
                live = _release_at_a_glance(registry, champion)
            if CHALLENGER in aliases and aliases[CHALLENGER] != aliases.get(CHAMPION):
                release = registry.version(release_name(name), aliases[CHALLENGER])
                challenger = _release_at_a_glance(registry, release)
                obstacles = [str(each) for each in publication_obstacles(registry, release, named=False)]
                if not obstacles:
                    judged = describe_release(registry, release, CHALLENGER, whole_verdict=True)
                    beside = beside_the_live(registry, judged, aliases.get(CHAMPION))
        except LucidError as error:
            problem = str(error)
    data = data_at_a_glance(lake, name)
    missing = tuple(_missing(data, live, challenger, monitored))
    return ClusterAtAGlance(
        name, live, challenger, obstacles, beside, previous, monitored, data, missing, problem
    )


def _release_at_a_glance(registry: Registry, release: RegisteredVersion) -> ReleaseAtAGlance:
    manifest = _manifest(registry, release)
    return ReleaseAtAGlance(
        version=release.version,
        policy=manifest.policy if manifest else None,
        created=datetime.fromtimestamp(release.created_ms / 1000, UTC).isoformat(timespec="seconds"),
        verdict=release.tags.get("verdict"),
        sentence=release.tags.get("verdict_sentence", ""),
        decision=read_decision(release),
        rolled_back=release.tags.get("rolled_back"),
        learned_until=manifest.training.until if manifest else None,
    )


def _manifest(registry: Registry, release: RegisteredVersion) -> ReleaseManifest | None:
    try:
        return read_manifest(registry, release)
    except ReleaseRefusedError:
        return None


def data_at_a_glance(lake: Lake, cluster: str) -> DataAtAGlance | None:
    """The window and the size of a cluster in the lake; None where it holds no jobs of it."""
    days = lake.dates(cluster)
    if not days:
        return None
    nodes = gpus = virtual_clusters = None
    try:
        table = lake.read_nodes(cluster)
    except NotFoundError:
        pass
    else:
        nodes, virtual_clusters = int(table["nodes"].sum()), len(nodes_of_each(table))
        gpus = int((table["nodes"] * table["gpus_per_node"]).sum())
    origin = lake.writes.logs(cluster)
    age_days = max(0, (datetime.now(UTC).date() - days[-1]).days)
    return DataAtAGlance(
        first_day=days[0].isoformat(),
        last_day=days[-1].isoformat(),
        days=len(days),
        age_days=age_days,
        old=age_days > OLD_DAYS,
        origin=None if origin is None else str(origin),
        nodes=nodes,
        gpus=gpus,
        virtual_clusters=virtual_clusters,
    )


def _missing(
    data: DataAtAGlance | None,
    live: ReleaseAtAGlance | None,
    challenger: ReleaseAtAGlance | None,
    monitored: MonitoredAtAGlance | None,
) -> list[Missing]:
    missing = []
    if data is None:
        missing.append(Missing("The lake holds no jobs of this cluster.", "ingest_logs"))
    elif data.nodes is None:
        missing.append(Missing("How many nodes the cluster has is not known.", "ingest_logs"))
    if live is None and challenger is None:
        missing.append(Missing("No release was built yet.", "retrain_models"))
    elif challenger is not None and challenger.verdict is None:
        missing.append(
            Missing(f"Release {challenger.version} waits for the gate to judge it.", "validate_release")
        )
    elif live is None:
        approved = challenger is not None and challenger.verdict == APPROVED
        dag_id = "publish_release" if approved else "retrain_models"
        missing.append(Missing("No release is live: schedulers go by their heuristic.", dag_id))
    if live is not None and monitored is None:
        missing.append(Missing("The live release was never monitored.", "monitor_live"))
    return missing
