"""A sequence of GPU counts: CSV time and a column a virtual cluster, named by it.

Earth's of May 2020 was published so with the Helios artifact.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.readers.base import Context, Reader, ReadOptions, read_chunks
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.nodes_file import every_row
from cluster_logs.readers.row_checker import RowChecker
from cluster_logs.readers.source import NOT_A_TIME
from foundation.errors import BadInputError

MAX_GPUS = 10_000_000
TIME = "time"


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    times = checker.instant_or_seconds(TIME)
    checker.reject(times == NOT_A_TIME, q.MISSING_TIME, TIME)
    counts = {}
    for name in checker.chunk.columns:
        if name.lower() in (TIME, "total"):
            continue
        values = checker.number(name)
        checker.reject(np.isnan(values), q.MISSING_COUNT, name)
        checker.reject(values < 0, q.NEGATIVE_COUNT, name)
        checker.reject(values > MAX_GPUS, q.IMPLAUSIBLE_COUNT, name)
        counts[name] = values
    kept_rows = checker.kept()
    return pa.table(
        {TIME: times[kept_rows] / 1e6, **{name: values[kept_rows] for name, values in counts.items()}}
    )


_READER = Reader(
    name="gpu-sequence",
    summary="GPUs in use over time (CSV time, a column a virtual cluster)",
    table="node_states",
    time_zone="UTC",
    chunks=Layout(required=(TIME,), every_column=True),
    normalise=_normalise,
)


def read_gpu_sequence(path: str, time_zone: str = "UTC") -> pd.DataFrame:
    """Return GPUs by virtual cluster (columns) at instants (index: seconds since 1970), in order.

    `time_zone` is the clock of its times. Raises BadInputError for a row that cannot be used, for an instant
    that stands twice, and for a file without rows or without virtual clusters.
    """
    chunks = read_chunks(_READER, path, ReadOptions("sequence", time_zone))
    tables = [every_row(chunk, path).to_pandas() for chunk in chunks]
    counts = pd.concat(tables).set_index(TIME).sort_index() if tables else pd.DataFrame()
    if counts.empty:
        raise BadInputError(f"{path} counts no GPUs.", remedy="It reads time and a column a virtual cluster.")
    if counts.index.has_duplicates:
        twice = pd.Timestamp(float(counts.index[counts.index.duplicated()][0]), unit="s")
        raise BadInputError(f"{path} counts GPUs twice at {twice} UTC.", remedy="Keep one row.")
    return counts


def is_gpu_sequence(path: str) -> bool:
    """Whether a file counts GPUs by virtual cluster, rather than nodes of the whole cluster."""
    from cluster_logs.readers.source import TextSource

    for block in TextSource(path).blocks():
        header = block.partition(b"\n")[0].decode(errors="replace").strip().lower().split(",")
        names = {name.strip(' "\ufeff') for name in header}
        return not names & {"busy", "active", "running", "nodes"}
    return False
