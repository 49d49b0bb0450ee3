"""What a person who brings a log chooses from and is told: files, formats, what the cluster's name means."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster_logs.job_facts import JOB_FACTS
from cluster_logs.lake import Lake
from cluster_logs.readers.base import load_reader
from cluster_logs.readers.jobs_csv import NAMED_COLUMNS
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.readers.registry import CLUSTER_LOGS, OTHER_LOGS
from cluster_logs.slurm_words import EXPORT_COMMAND
from foundation.errors import BadInputError, LucidError
from foundation.outside_names import check_cluster_name, local_path
from foundation.site import Site
from pipeline.overview.clusters import DataAtAGlance, data_at_a_glance
from pipeline.overview.uploads import KEPT_DAYS, MOST_BYTES

_MOST_FILES = 200
_MOST_ENTRIES = 5_000
_DEEPEST = 4


@dataclass(frozen=True)
class LogFormat:
    """A format of logs, and what it is."""

    name: str
    summary: str


@dataclass(frozen=True)
class InputFile:
    """A file that may be named."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class IngestChoices:
    """Where files may lie, some that lie there, the formats, the clusters that there are; what uploads may
    be; how Slurm's accounting is exported; the columns of a CSV with a row a job, and what they mean.
    """

    roots: Sequence[str]
    files: Sequence[InputFile]
    formats: Sequence[LogFormat]
    clusters: Sequence[str]
    most_upload_bytes: int = MOST_BYTES
    uploads_kept_days: int = KEPT_DAYS
    sacct_command: str = EXPORT_COMMAND
    job_columns: Mapping[str, str] = field(
        default_factory=lambda: {fact.name: fact.meaning for fact in JOB_FACTS if fact.name in NAMED_COLUMNS}
    )


@dataclass(frozen=True)
class IngestTarget:
    """What a cluster's name stands for: `problem` why it cannot be one, `data` what the lake holds of it."""

    name: str
    problem: str | None
    data: DataAtAGlance | None


@dataclass(frozen=True)
class NodesFile:
    """What a file says of a cluster's size."""

    nodes: int
    gpus: int
    virtual_clusters: Sequence[str]


def read_choices(*, lake_uri: str, roots: Sequence[str]) -> IngestChoices:
    """Read what can be chosen; `roots`: folders and URI prefixes that files may lie in."""
    formats = [LogFormat(name, load_reader(name).summary) for name in (*CLUSTER_LOGS, *OTHER_LOGS)]
    return IngestChoices(roots, list(_files(roots)), formats, Lake(lake_uri).clusters())


def read_target(site: Site) -> IngestTarget:
    """Say whether a name can be a cluster's, and what the lake holds under it."""
    try:
        lake = Lake(site.lake)
        data = data_at_a_glance(lake, check_cluster_name(site.cluster))
    except LucidError as error:
        return IngestTarget(site.cluster, str(error), None)
    problem = None
    if data is not None and data.origin == "synthetic":
        problem = (
            f"Cluster {site.cluster!r} holds a made log, and no real one is mixed with it: choose another "
            "name."
        )
    return IngestTarget(site.cluster, problem, data)


def read_nodes(uri: str, gpus_per_node: int) -> NodesFile:
    """Read a file of nodes. Raises BadInputError for a row that cannot be used."""
    if not 1 <= gpus_per_node <= 64:
        raise BadInputError(f"A node of {gpus_per_node} GPUs.", remedy="Choose between 1 and 64.")
    nodes = read_nodes_file(uri, gpus_per_node=gpus_per_node)
    gpus = int((nodes["nodes"] * nodes["gpus_per_node"]).sum())
    return NodesFile(int(nodes["nodes"].sum()), gpus, nodes["virtual_cluster"].tolist())


def _files(roots: Sequence[str]) -> Iterator[InputFile]:
    """The first files below the folders among the roots, by path."""
    shown = entries = 0
    for root in dict.fromkeys(filter(None, map(local_path, roots))):
        for folder, folders, names in os.walk(root):
            depth = len(Path(folder).relative_to(root).parts)
            folders[:] = _shown(folders) if depth < _DEEPEST else []
            for name in _shown(names):
                entries += 1
                if shown == _MOST_FILES or entries > _MOST_ENTRIES:
                    return
                path = Path(folder, name)
                if path.is_file():
                    shown += 1
                    yield InputFile(str(path), path.stat().st_size)


def _shown(names: Sequence[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith("."))
