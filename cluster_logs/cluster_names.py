"""What a cluster may be called: in the lake's folders, in registered models, in state files."""

import re
from pathlib import Path

from foundation.errors import BadInputError

CLUSTER_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"  # as a whole
CLUSTER_NAME_RULE = "a letter or digit, then letters, digits, '.', '_' and '-', at most 100 in all"


def check_cluster_name(cluster: str) -> str:
    """The name, when it can be a folder's name; else BadInputError."""
    if not re.fullmatch(CLUSTER_NAME, cluster):
        raise BadInputError(f"{cluster!r} cannot name a cluster.", remedy=f"Use {CLUSTER_NAME_RULE}.")
    return cluster


def clusters_in_folder(lake_uri: str | None) -> list[str]:
    """The clusters with jobs in a lake that is a folder of this machine, for forms to suggest.

    Light to import and to call: an object store is not asked, and has none here; `Lake.clusters` tells all.
    """
    if not lake_uri or ("://" in lake_uri and not lake_uri.startswith("file://")):
        return []
    folders = Path(lake_uri.removeprefix("file://"), "jobs").glob("cluster=*")
    return sorted(folder.name.removeprefix("cluster=") for folder in folders)
