"""What a cluster may be called: in the lake's folders, in registered models, in state files."""

import re

from foundation.errors import BadInputError

CLUSTER_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"  # as a whole


def check_cluster_name(cluster: str) -> str:
    """The name, when it can be a folder's name; else BadInputError."""
    if not re.fullmatch(CLUSTER_NAME, cluster):
        raise BadInputError(
            f"{cluster!r} cannot name a cluster.",
            remedy="Use letters, digits, '.', '_' and '-', at most 100.",
        )
    return cluster
