"""Nodes in use derived of jobs: the fewest that hold what runs, at the highest instant of each step."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_logs.derived_nodes import COLUMNS, ClusterSizeFrom, derive_node_states
from foundation.errors import BadInputError

# virtual cluster, GPUs, state, submission, start, end (seconds)
Job = tuple[str, int, str, int, int | None, int | None]
SIZE = ClusterSizeFrom(0.0, {"a": 2, "b": 4}, {"a": 8, "b": 4})


def table_of(*jobs: Job) -> pa.Table:
    times = pa.timestamp("us", tz="UTC")
    schema = pa.schema([("virtual_cluster", pa.string()), ("gpus", pa.int32()), ("state", pa.string())])
    for name in COLUMNS[3:]:
        schema = schema.append(pa.field(name, times))
    rows = [
        dict(
            zip(COLUMNS, (*job[:3], *(None if at is None else at * 1_000_000 for at in job[3:])), strict=True)
        )
        for job in jobs
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def series(rows: pa.Table, owner: str | None, column: str = "busy") -> list[int]:
    return [row[column] for row in rows.to_pylist() if row["virtual_cluster"] == owner]


def test_running_gpus_fill_the_fewest_nodes_of_their_virtual_cluster() -> None:
    jobs = table_of(
        ("a", 4, "COMPLETED", 0, 600, 1_800),
        ("a", 5, "COMPLETED", 0, 1_200, 1_800),
        ("b", 4, "COMPLETED", 0, 700, 750),
        ("b", 9, "RUNNING", 0, 1_900, None),
        ("a", 0, "COMPLETED", 0, 0, 3_600),
        ("a", 1, "PENDING", 2_500, None, None),
        ("a", 1, "FAILED", 0, 0, None),
        ("elsewhere", 1, "COMPLETED", 0, 0, 9),
    )
    rows, account = derive_node_states([jobs.slice(0, 3), jobs.slice(3)], [SIZE])

    assert series(rows, "a") == [1, 2, 0, 0, 0, 0]
    assert series(rows, "b") == [1, 0, 3, 3, 3, 3]
    assert series(rows, None) == [2, 2, 3, 3, 3, 3]
    assert series(rows, None, "total") == [6] * 6
    assert (account.rows_in, account.kept) == (8, 4)
    assert account.skipped == {"no_gpu": 1, "not_started": 1, "no_end": 1, "unknown_nodes": 1}


def test_a_job_that_ends_as_another_starts_shares_no_instant_with_it() -> None:
    jobs = table_of(("a", 8, "COMPLETED", 0, 0, 300), ("a", 8, "COMPLETED", 0, 300, 600))

    assert series(derive_node_states([jobs], [SIZE])[0], "a") == [1, 0]


def test_more_gpus_than_there_are_fill_what_there_is_and_sizes_change() -> None:
    jobs = table_of(("a", 99, "COMPLETED", 0, 0, 1_800))
    sizes = [SIZE, ClusterSizeFrom(600.0, {"a": 5}, {"a": 8}), ClusterSizeFrom(1_200.0, {"b": 3}, {"b": 4})]
    rows, _ = derive_node_states([jobs], sizes)

    assert series(rows, "a") == [2, 5, 0, 0]
    assert series(rows, None, "total") == [6, 5, 3, 3]


def test_a_log_without_starts_or_with_a_wrong_year_is_refused() -> None:
    with pytest.raises(BadInputError, match="No job's start"):
        derive_node_states([table_of(("a", 1, "COMPLETED", 0, None, None))], [SIZE])
    late = 60_000 * 86_400
    with pytest.raises(BadInputError, match="steps of 60 s"):
        derive_node_states([table_of(("a", 1, "COMPLETED", 0, 0, late))], [SIZE], step_s=60)


spans = st.lists(
    st.tuples(st.integers(0, 5_000), st.integers(1, 3_000), st.integers(1, 16)), min_size=1, max_size=12
)


@given(jobs=spans, cut=st.integers(600, 6_000))
def test_it_is_the_highest_instant_of_each_step_and_knows_the_past_alone(
    jobs: list[tuple[int, int, int]], cut: int
) -> None:
    size = ClusterSizeFrom(0.0, {"a": 1_000}, {"a": 8})
    whole = [("a", gpus, "COMPLETED", start, start, start + length) for start, length, gpus in jobs]
    rows, _ = derive_node_states([table_of(*whole)], [size])
    first = min(start for start, _, _ in jobs) // 600 * 600
    in_use = np.zeros(9_000, np.int64)
    for start, length, gpus in jobs:
        in_use[start : start + length] += gpus
    by_step = [in_use[at : at + 600].max() for at in range(first, 9_000, 600)]
    busy = series(rows, None)
    assert busy == [-(-gpus // 8) for gpus in by_step[: len(busy)]]
    assert not any(by_step[len(busy) :])

    # As it was told at a moment: what had not ended ran, what had not started was not there.
    told: list[Job] = [
        ("a", gpus, "COMPLETED" if start + length <= cut else "RUNNING", start, start,
         start + length if start + length <= cut else None)
        for start, length, gpus in jobs if start <= cut
    ]  # fmt: skip
    if told:
        early = series(derive_node_states([table_of(*told)], [size])[0], None)
        steps = min((cut - first) // 600, len(early), len(busy))
        assert early[:steps] == busy[:steps]
