"""How a newer table is merged into an older one: by key, deterministic, never losing a row."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import FINISHED_STATES

# The order of rows in a file of the lake: by time, equal times as in the source.
JOB_ORDER = [
    ("submit_time", "ascending"),
    ("source_file", "ascending"),
    ("source_row", "ascending"),
    ("job_id", "ascending"),
]


def microseconds(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """A timestamp column without nulls, as microseconds since 1970."""
    return column.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]


def group_by_key(jobs: pa.Table) -> npt.NDArray[np.int64]:
    """For each row the number of its key (job_id, submit_time); equal keys get equal numbers."""
    ids = pc.dictionary_encode(jobs.column("job_id").combine_chunks())
    codes = ids.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    submits = microseconds(jobs.column("submit_time"))
    order = np.lexsort((submits, codes))
    changes = (np.diff(codes[order]) != 0) | (np.diff(submits[order]) != 0)
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.concatenate(([0], np.cumsum(changes))) if len(order) else []
    return groups


def is_finished(jobs: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether each job has ended for good; a source that gives no state lists finished jobs."""
    unfinished = pc.invert(pc.is_in(jobs.column("state"), pa.array(sorted(FINISHED_STATES), pa.string())))
    running = pc.and_(pc.is_valid(jobs.column("state")), unfinished)
    return ~np.asarray(running.to_numpy(zero_copy_only=False), dtype=bool)


def merge_jobs(older: pa.Table, newer: pa.Table) -> pa.Table:
    """Both tables' jobs in the lake's order, one row a key.

    The newer row of a key wins, except that a finished job never turns back into an unfinished one:
    ingesting an older export again must not undo what a newer one said.
    """
    both = pa.concat_tables([older, newer])
    groups = group_by_key(both)
    order = np.lexsort((np.arange(len(groups)), is_finished(both), groups))
    last_of_group = np.append(np.diff(groups[order]) != 0, True) if len(order) else np.zeros(0, dtype=bool)
    winners = np.sort(order[last_of_group])
    return both.take(pa.array(winners)).sort_by(JOB_ORDER)


def merge_throughput(older: pa.Table, newer: pa.Table) -> pa.Table:
    """The bins of one day, by time.

    A published bin stands above a derived one: a day with published bins holds no others. Derived bins
    replace the day's derived bins as a whole; of two published bins of one time the newer wins.
    """
    published = [table.filter(pc.equal(table.column("origin"), "published")) for table in (older, newer)]
    if not any(table.num_rows for table in published):
        return newer.sort_by("bin_start")
    both = pa.concat_tables(published)
    starts = microseconds(both.column("bin_start"))
    order = np.lexsort((np.arange(len(starts)), starts))
    last = np.append(np.diff(starts[order]) != 0, True)
    return both.take(pa.array(order[last]))
