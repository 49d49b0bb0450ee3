"""The key by which the marks of a cluster's live scheduler are told from words of its users."""

import os
from pathlib import Path

from cluster_logs.mark_key import MARK_KEY_FILE, read_mark_key
from cluster_logs.slurm_mark import MarkKey
from pipeline import settings

MARK_KEY_VARIABLE = "LUCID_MARK_KEY"


def mark_key_of(cluster: str, path: Path | None = None) -> MarkKey | None:
    """Return the key of the file that is named (or that LUCID_MARK_KEY names), else this machine's own.

    None where no live scheduler of the cluster has its state here: marks count as words then. Raises
    NotFoundError for a file that is named and not there, BadInputError for one that is no key.
    """
    named = path or os.environ.get(MARK_KEY_VARIABLE)
    if named:
        return read_mark_key(Path(named))
    own = settings.state_dir() / "live" / cluster / MARK_KEY_FILE
    return read_mark_key(own) if own.exists() else None
