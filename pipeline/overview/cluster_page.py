"""Everything that is known of one cluster: its data, what was refused of them, what they are ready for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pandas as pd

from cluster_logs.day_tables import day_table, day_tables
from cluster_logs.lake import Lake
from cluster_logs.node_table import owners_of_rows
from cluster_logs.quarantine import REASONS
from cluster_logs.removal import Holdings, holdings
from foundation.errors import LucidError, NotFoundError
from foundation.parts import hooks
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.clusters import release_clusters
from lucid_models.releases.publication_history import read_history
from lucid_models.signing.installation import Signing
from pipeline.kept_reports import PAGE_FILE, PagesOfClusters, newest_reports
from pipeline.overview.clusters import ClusterAtAGlance, cluster_at_a_glance
from pipeline.overview.monitored import read_passes
from pipeline.overview.publication_steps import PublicationStep, publication_steps
from pipeline.profiling.profile_store import stored_profile_set
from profiler_jobs.profile_table import ProfileSet

SAMPLES = 5
# Tables that a cluster may do without, and the field of the form of `ingest_logs` that brings each.
OPTIONAL_TABLES = {
    "throughput": ("Throughput", "counted from the jobs, or a file: field Throughput"),
    "node_states": ("Nodes in use", "field Nodes in use, Prometheus or Slurm"),
    "metrics": ("GPU metrics of jobs", "field GPU metrics, or Prometheus"),
}


@dataclass(frozen=True)
class NodesOfVirtualCluster:
    """The nodes of one virtual cluster, of one size."""

    virtual_cluster: str
    nodes: int
    gpus_per_node: int


@dataclass(frozen=True)
class ProfileOrigins:
    """Where a cluster's profiles come from: job types and pairs, measured on GPUs and simulated."""

    measured_job_types: int
    simulated_job_types: int
    measured_pairs: int
    simulated_pairs: int
    devices: Sequence[str]
    newest: datetime | None


@dataclass(frozen=True)
class QuarantineSample:
    """A refused row as text: its file and number from 1 on, the column and its value, the whole row."""

    file: str
    row: int
    column: str | None
    value: str | None
    text: str


@dataclass(frozen=True)
class QuarantinedRows:
    """A reason, what it means, how many rows it refused, and the first of them."""

    reason: str
    meaning: str
    rows: int
    samples: Sequence[QuarantineSample]


@dataclass(frozen=True)
class OptionalTable:
    """A table that a cluster may do without; `first_day` None: it has none, and `brought_by` says how it
    would.
    """

    name: str
    title: str
    brought_by: str
    rows: int = 0
    first_day: str | None = None
    last_day: str | None = None


@dataclass(frozen=True)
class NewestPage:
    """What a part's newest page of the cluster says, and where it is: `page`, below /lucid/KIND (None: there
    is none yet; runs of `dag_id` leave them).
    """

    kind: str
    title: str
    dag_id: str
    page: str | None = None
    sentences: Sequence[str] = ()


@dataclass(frozen=True)
class WentLive:
    """A publication or rollback of the past: which release went live when (ISO, UTC) in place of which, who
    asked for it, who approved it (empty: nobody was asked) and why. `problem`: why it is not believed.
    """

    kind: str
    version: int
    replaces: int | None
    at: str
    asked_by: str
    approved_by: str
    because: str
    problem: str | None


@dataclass(frozen=True)
class ClusterPage:
    """One cluster. `steps`: what a publication needs, in its order; `history`: what was live, the newest
    first, as it was signed (None: nothing is signed here); `held` what a removal would remove;
    `docs`: the tables with data docs, by their pages below /lucid/data-docs; `part_pages`: what
    parts say of it; `problem`: why its tables could not be read.
    """

    cluster: ClusterAtAGlance
    steps: Sequence[PublicationStep]
    history: Sequence[WentLive] | None
    jobs_by_day: Mapping[str, int]
    nodes: Sequence[NodesOfVirtualCluster]
    profiles: ProfileOrigins | None
    quarantine: Sequence[QuarantinedRows]
    tables: Sequence[OptionalTable]
    docs: Mapping[str, str]
    part_pages: Sequence[NewestPage]
    held: Holdings | None
    held_in_words: str | None
    problem: str | None


def read_cluster_page(site: Site, *, state_dir: Path) -> ClusterPage:
    """Read a cluster's page; what cannot be read of it is said, and the rest is shown.

    Raises NotFoundError for a cluster of which there is nothing.
    """
    lake = Lake(site.lake)
    held = _held(site)
    glance, problems = _glance(site, lake, state_dir)
    if held is None and glance.live is None and glance.challenger is None:
        raise NotFoundError(
            f"There is nothing of cluster {site.cluster!r}.",
            remedy=f"Clusters with jobs: {', '.join(lake.clusters()) or 'none'}.",
        )
    profiles, tables = None, _Tables()
    history: Sequence[WentLive] | None = None
    try:
        history = _history(site)
    except LucidError as error:
        problems.append(str(error))
    try:
        profiles = stored_profile_set(site)
        tables = _read_tables(lake, site.cluster)
    except LucidError as error:
        problems.append(str(error))
    simulated = None if profiles is None else profiles.any_simulated
    return ClusterPage(
        cluster=glance,
        steps=publication_steps(glance, simulated_profiles=simulated),
        history=history,
        jobs_by_day=tables.jobs_by_day,
        nodes=tables.nodes,
        profiles=None if profiles is None else _origins(profiles),
        quarantine=tables.quarantine,
        tables=tables.optional,
        docs=dict(_docs(state_dir / "data_docs", site.cluster)),
        part_pages=[
            _newest(pages, state_dir, site.cluster) for _, pages in hooks("pages") if pages.sentences
        ],
        held=held,
        held_in_words=None if held is None else held.in_words(),
        problem=" ".join(dict.fromkeys(problems)) or None,
    )


@dataclass(frozen=True)
class _Tables:
    jobs_by_day: Mapping[str, int] = field(default_factory=dict)
    nodes: Sequence[NodesOfVirtualCluster] = ()
    quarantine: Sequence[QuarantinedRows] = ()
    optional: Sequence[OptionalTable] = ()


def _held(site: Site) -> Holdings | None:
    try:
        return holdings(site.lake, site.cluster)
    except NotFoundError:
        return None


def _history(site: Site) -> Sequence[WentLive] | None:
    signing = Signing.of_environment()
    if signing.trust_file is None:
        return None
    return [
        WentLive(
            past.publication.kind,
            past.publication.release.version,
            past.publication.replaces,
            past.publication.at.isoformat(),
            past.publication.asked_by,
            past.publication.approved_by,
            past.publication.because,
            past.problem,
        )
        for past in read_history(Registry(site.registry), site.cluster, signing)
    ]


def _glance(site: Site, lake: Lake, state_dir: Path) -> tuple[ClusterAtAGlance, list[str]]:
    registry, problems = None, []
    try:
        opened = Registry(site.registry)
        registry = opened if site.cluster in release_clusters(opened) else None
    except LucidError as error:
        problems.append(str(error))
    monitored = read_passes(state_dir / "monitoring", site.cluster).get(site.cluster)
    glance = cluster_at_a_glance(site.cluster, registry, lake, monitored)
    return glance, [*problems, *([glance.problem] if glance.problem else [])]


def _read_tables(lake: Lake, cluster: str) -> _Tables:
    try:
        table = lake.read_nodes(cluster)
        names = table.assign(virtual_cluster=[", ".join(owners) for owners in owners_of_rows(table)])
        kinds = names.groupby(["virtual_cluster", "gpus_per_node"], sort=False)["nodes"].sum()
        nodes = kinds.reset_index().to_dict("records")
    except NotFoundError:
        nodes = []
    return _Tables(
        jobs_by_day={day.isoformat(): jobs for day, jobs in lake.rows_by_day(cluster).items()},
        nodes=[
            NodesOfVirtualCluster(str(row["virtual_cluster"]), int(row["nodes"]), int(row["gpus_per_node"]))
            for row in nodes
        ],
        quarantine=[
            QuarantinedRows(
                each.reason,
                REASONS.get(each.reason, "The row does not meet this expectation of its table."),
                each.rows,
                [
                    QuarantineSample(
                        row["source_file"], row["source_row"], row["column"], row["value"], row["raw_row"]
                    )
                    for row in each.samples
                ],
            )
            for each in lake.quarantined_by_reason(cluster, SAMPLES)
        ],
        optional=[_optional(lake, cluster, name) for name in (*OPTIONAL_TABLES, *day_tables())],
    )


def _optional(lake: Lake, cluster: str, name: str) -> OptionalTable:
    if name in OPTIONAL_TABLES:
        title, brought_by = OPTIONAL_TABLES[name]
    else:
        table = day_table(name)
        title, brought_by = table.field, f"field {table.field}{table.other_sources}"
    rows = lake.rows_by_day(cluster, name)
    if not rows:
        return OptionalTable(name, title, brought_by)
    return OptionalTable(
        name, title, brought_by, sum(rows.values()), min(rows).isoformat(), max(rows).isoformat()
    )


def _origins(profiles: ProfileSet) -> ProfileOrigins:
    solo, pairs = profiles.solo, profiles.pairs
    measured, newest = ~solo["simulated"], solo["measured_at"].max()
    return ProfileOrigins(
        measured_job_types=int(solo.loc[measured, "job_type"].nunique()),
        simulated_job_types=int(solo.loc[~measured, "job_type"].nunique()),
        measured_pairs=int((~pairs["simulated"]).sum()),
        simulated_pairs=int(pairs["simulated"].sum()),
        devices=sorted(solo["device"].unique()),
        newest=None if pd.isna(newest) else newest.to_pydatetime(),
    )


def _docs(folder: Path, cluster: str) -> Iterator[tuple[str, str]]:
    """The tables with data docs, and their pages."""
    for page in sorted((folder / cluster).glob("*/index.html")):
        yield page.parent.name, f"{cluster}/{page.parent.name}/index.html"


def _newest(pages: PagesOfClusters, state_dir: Path, cluster: str) -> NewestPage:
    for _, stamp, report in newest_reports(state_dir / pages.kind, pages.report_file, 1, cluster):
        said = () if pages.sentences is None else pages.sentences(report)
        return NewestPage(pages.kind, pages.title, pages.dag_id, f"{cluster}/{stamp}/{PAGE_FILE}", said)
    return NewestPage(pages.kind, pages.title, pages.dag_id)
