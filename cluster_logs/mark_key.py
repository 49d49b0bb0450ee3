"""The key of marks on disk: one small file, `mark.key`, for its owner only.

    {"format": 1, "cluster": "mine", "secret": "4f1d..."}

The live scheduler makes it at its first start. Whoever reads its cluster's accounting needs the same file to
believe the marks in it; without it they are words like any others.
"""

import json
from pathlib import Path

from cluster_logs.slurm_mark import MarkKey
from foundation import strict_json
from foundation.errors import BadInputError, NotFoundError
from foundation.regular_files import read_regular
from foundation.replaced_files import create_file

MARK_KEY_FILE = "mark.key"
FORMAT = 1
_MOST_BYTES = 4_096
_LEAST_SECRET_BYTES = 16


def read_mark_key(path: Path) -> MarkKey:
    """Return the key of a file. Raises NotFoundError without it, BadInputError when it holds none."""
    try:
        document = strict_json.loads(read_regular(path, _MOST_BYTES))
    except FileNotFoundError:
        raise NotFoundError(f"There is no key {path}.", remedy="The live scheduler makes it.") from None
    except OSError as error:
        raise BadInputError(
            f"The key {path} cannot be read: {error}.", remedy="Let its reader own it."
        ) from error
    except ValueError:
        document = None
    try:
        if document["format"] != FORMAT:
            raise BadInputError(f"The key {path} has format {document['format']!r}, not {FORMAT}.")
        key = MarkKey(str(document["cluster"]), bytes.fromhex(document["secret"]))
    except (TypeError, KeyError, ValueError):
        key = MarkKey("", b"")
    if len(key.secret) < _LEAST_SECRET_BYTES:
        raise BadInputError(
            f"{path} is no key of marks.",
            remedy="Take it from a copy, or remove it: a new one is made, and older marks count no more.",
        )
    return key


def make_mark_key(path: Path, cluster: str) -> MarkKey:
    """Return the key of a file, made for its owner only where there is none.

    Raises as `read_mark_key`, OSError when it cannot be made.
    """
    if path.exists():
        return read_mark_key(path)
    key = MarkKey.fresh(cluster)
    # Where another process was first, its key counts.
    create_file(path, json.dumps({"format": FORMAT, "cluster": cluster, "secret": key.secret.hex()}))
    return read_mark_key(path)
