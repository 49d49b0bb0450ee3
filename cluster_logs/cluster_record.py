"""What the lake knows of a cluster beside its tables: where they come from, and whether they are whole.

    ROOT/clusters/cluster=C/record.json

The file has an integer `format`. Version 1: `logs` ("real", "synthetic" or null), `writes` (how often each
table was changed), `writing` (null, or which task began to change which tables and has not ended). Another
version is refused. To change the format: raise FORMAT, and keep reading the older one here.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from foundation import strict_json
from foundation.errors import BadInputError

FORMAT = 1
# The synthetic generator names its rows' source `NAME.synthetic`.
SYNTHETIC_SUFFIX = ".synthetic"


class LogOrigin(StrEnum):
    """Where rows come from. MIXED: a file that is offered holds both; no cluster of a lake does."""

    REAL = "real"
    SYNTHETIC = "synthetic"
    MIXED = "mixed"


@dataclass(frozen=True)
class UnfinishedWrite:
    """A change that has begun: what it does, which tables it may leave half-written, from which inputs, and
    the process that began it.
    """

    task: str
    tables: tuple[str, ...]
    inputs: tuple[str, ...]
    process: str
    since: str


@dataclass(frozen=True)
class ClusterRecord:
    """The record of one cluster. `logs` None: no row has said yet."""

    logs: LogOrigin | None = None
    writes: dict[str, int] = field(default_factory=dict)
    writing: UnfinishedWrite | None = None

    def to_bytes(self) -> bytes:
        """The record as JSON."""
        return (json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True) + "\n").encode()


def parse_record(payload: bytes, place: str) -> ClusterRecord:
    """The record in a file's bytes. Raises BadInputError naming the place for one that cannot be read."""
    try:
        document = strict_json.loads(payload)
        if document["format"] != FORMAT:
            raise BadInputError(
                f"{place} has format {document['format']!r}; this version reads {FORMAT}.",
                remedy="Use the version that wrote it, or a newer one.",
            )
        writing = document["writing"]
        return ClusterRecord(
            logs=None if document["logs"] is None else LogOrigin(document["logs"]),
            writes={str(table): int(count) for table, count in document["writes"].items()},
            writing=None
            if writing is None
            else UnfinishedWrite(
                str(writing["task"]),
                tuple(map(str, writing["tables"])),
                tuple(map(str, writing["inputs"])),
                str(writing["process"]),
                str(writing["since"]),
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInputError(
            f"{place} is no record of a cluster: {type(error).__name__} {error}.",
            remedy="Restore the file, or remove the cluster: `lucid remove-cluster`.",
        ) from error


def logs_of_rows(source_files: Iterable[str]) -> LogOrigin | None:
    """Where jobs come from, by the names of their source files; None without any."""
    made = {name.endswith(SYNTHETIC_SUFFIX) for name in source_files}
    if len(made) == 2:
        return LogOrigin.MIXED
    return None if not made else LogOrigin.SYNTHETIC if made.pop() else LogOrigin.REAL
