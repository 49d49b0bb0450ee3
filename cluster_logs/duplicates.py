"""Rows of one file with the same key: which one stands, and what becomes of the others."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.job_table import JobState
from cluster_logs.merging import group_by_key, is_finished
from cluster_logs.quarantine import DUPLICATE_CONFLICT, EXACT_DUPLICATE, SUPERSEDED

KEPT = ""
_WHERE_READ = ("source_file", "source_row")


def judge_duplicates(jobs: pa.Table) -> npt.NDArray[np.object_]:
    """For each row KEPT, EXACT_DUPLICATE, SUPERSEDED or DUPLICATE_CONFLICT; rows in the file's order.

    Of rows with one (job_id, submit_time), the one that knows most stands: a finished job before a running
    one, a running one before a pending one, and the first of equals. A row that says the same is an exact
    duplicate; one that knew less is superseded; one that knows as much and says something else is in
    conflict.
    """
    verdicts = np.full(jobs.num_rows, KEPT, dtype=object)
    groups = group_by_key(jobs)
    doubled = np.flatnonzero(np.bincount(groups)[groups] > 1) if len(groups) else np.zeros(0, dtype=np.int64)
    if not len(doubled):
        return verdicts
    rows = jobs.take(pa.array(doubled))
    running = np.asarray(
        pc.fill_null(pc.equal(rows.column("state"), JobState.RUNNING.value), False).to_numpy(), dtype=bool
    )
    knowledge = 2 * is_finished(rows) + running
    keys = groups[doubled]
    order = np.lexsort((np.arange(len(keys)), -knowledge, keys))
    first = np.append(True, np.diff(keys[order]) != 0)
    # The row that stands, for each row of its group.
    standing = np.empty(len(keys), dtype=np.int64)
    standing[order] = order[first][np.cumsum(first) - 1]
    stands = standing == np.arange(len(keys))
    same = _equal_rows(rows, rows.take(pa.array(standing)))
    knows_less = knowledge < knowledge[standing]
    verdicts[doubled] = np.select(
        [stands, same, knows_less], [KEPT, EXACT_DUPLICATE, SUPERSEDED], default=DUPLICATE_CONFLICT
    )
    return verdicts


def _equal_rows(left: pa.Table, right: pa.Table) -> npt.NDArray[np.bool_]:
    equal = np.ones(left.num_rows, dtype=bool)
    for name in left.column_names:
        if name in _WHERE_READ:
            continue
        one, other = left.column(name), right.column(name)
        both_null = pc.and_(pc.is_null(one), pc.is_null(other))
        same = pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)
        equal &= np.asarray(same.to_numpy(), dtype=bool)
    return equal
