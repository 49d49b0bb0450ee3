"""The arrays of a compiled replay, made of a workload's columns, a cluster and a policy's rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.cluster.changes import ClusterChange, SizeChange
from simulator.cluster.placement import Remainder
from simulator.cluster.spec import ClusterSpec
from simulator.column_rule import ColumnRule, GapRule, PreemptionRule, gpus_or_cores
from simulator.compiled.arrays import COUNTS, ROW_FIELDS, TYPES
from simulator.engine.node_inventory import cpu_pool
from simulator.workload.columns import WorkloadColumns

Arrays = dict[str, NDArray[Any]]

MOST_WORDS = 1 << 25  # of bits, that is 256 MiB: nodes x GPUs of a node / 64
WORD = 64
SPARE_ROOM = 64  # entries of a queue that are left in it although their jobs have left


@dataclass(frozen=True)
class PoolShape:
    """Nodes that one queue is served from: how many, how many there will be at most, and what each has."""

    name: str
    nodes: int
    most_nodes: int
    size: int
    resized: bool

    @property
    def words(self) -> int:
        """Words of a set of its nodes, on the first level."""
        return max(1, -(-self.most_nodes // WORD))

    @property
    def stride(self) -> int:
        """Words of a set of its nodes."""
        return self.words + -(-self.words // WORD)


def pool_shapes(cluster: ClusterSpec, changes: Sequence[SizeChange]) -> list[PoolShape]:
    """Return the pools of a cluster of equal nodes, in the order of `make_pools`."""
    most = dict(cluster.virtual_clusters)
    for change in changes:
        most[change.virtual_cluster] = max(most[change.virtual_cluster], change.nodes)
    resized = {change.virtual_cluster for change in changes}
    shapes = []
    for size, name_of in ((cluster.gpus_per_node, str), (cluster.cpu_cores_per_node, cpu_pool)):
        if size:
            shapes += [
                PoolShape(name_of(name), nodes, most[name], size, name in resized)
                for name, nodes in cluster.virtual_clusters.items()
            ]
    return shapes


def arrays_of(
    jobs: WorkloadColumns,
    cluster: ClusterSpec,
    changes: Sequence[ClusterChange],
    rule: ColumnRule,
    remainder: Remainder,
) -> Arrays | None:
    """Return the arrays of a replay; None where only `simulator.engine.simulation` can do it."""
    sizes = [change for change in changes if isinstance(change, SizeChange)]
    if len(sizes) < len(changes) or any(
        change.virtual_cluster not in cluster.virtual_clusters for change in sizes
    ):
        return None
    shapes = pool_shapes(cluster, sizes)
    rows = 1 if rule.gaps is None and rule.preemption is None else 2
    if rows * sum((shape.size + 2) * shape.stride for shape in shapes) > MOST_WORDS:
        return None
    rank = ranks(rule.order, len(jobs))
    if rank is None or not _is_sound(rule, jobs):
        return None
    pool = _pools_of_jobs(jobs, cluster)
    gpus = gpus_or_cores(jobs)
    made = {name: np.zeros(0, dtype=kind) for name, kind in TYPES.items()}
    made |= _of_jobs(jobs, gpus, pool, rank)
    made |= _of_nodes(shapes, rows)
    made |= _given(jobs, cluster, sizes)
    made["fit"] = np.array([shape.nodes * shape.size if shape.resized else -1 for shape in shapes])
    made["changed"] = np.zeros(-(-len(shapes) // WORD), dtype=np.int64)
    made["freest"] = np.array([remainder == "freest"])
    made["steps"] = made["shortest_first"] = np.zeros(1, dtype=np.int64)
    made["limits"] = np.zeros(3)
    queue_of = pool
    if rule.gaps is not None or rule.preemption is not None:
        made |= _of_demands(gpus, pool, len(shapes))
    if rule.gaps is not None:
        made |= _of_gaps(jobs, gpus, pool, len(shapes), made, rule.gaps)
    if rule.preemption is not None:
        made |= _of_preemption(jobs, gpus, pool, shapes, rule.preemption)
        queue_of = made["demand_of"]
    made |= _of_queues(queue_of, max(len(shapes), len(made["waiting"])))
    counts = dict.fromkeys(COUNTS, 0)
    counts |= {"jobs": len(jobs), "pools": len(shapes), "backfills": rule.gaps is not None}
    if rule.preemption is not None:
        counts["preempts"] = 1 if rule.preemption.threshold_gpu_s is None else 2
    counts |= {"cancels": len(made["cancel_s"]), "changes": len(made["change_s"])}
    made["counts"] = np.array([counts[name] for name in COUNTS])
    return {name: np.ascontiguousarray(made[name], dtype=kind) for name, kind in TYPES.items()}


def ranks(order: tuple[NDArray[Any], ...], jobs: int) -> NDArray[np.int64] | None:
    """Return each job's place in an order, equals at the same; None where an order has no place for one."""
    if not order:
        return np.zeros(jobs, dtype=np.int64)
    if any(np.isnan(column).any() for column in order):
        return None
    if len(order) == 1 and (np.diff(order[0]) >= 0).all():
        return np.concatenate([[0], np.cumsum(np.diff(order[0]) > 0)])[: len(order[0])]
    sorted_rows = np.lexsort(order[::-1])
    columns = [column[sorted_rows] for column in order]
    differs = np.zeros(len(sorted_rows), dtype=bool)
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    rank = np.empty(len(sorted_rows), dtype=np.int64)
    rank[sorted_rows] = np.cumsum(differs)
    return rank


def _is_sound(rule: ColumnRule, jobs: WorkloadColumns) -> bool:
    """Whether numbers are finite, and not below zero, where they have to be."""
    if rule.preemption is not None:
        return bool((jobs.submit_time_s >= 0).all())
    if rule.gaps is None:
        return True
    said = rule.gaps.asked_s
    return bool(np.isfinite(said if not rule.gaps.steps_s else said[~np.isnan(said)]).all())


def _pools_of_jobs(jobs: WorkloadColumns, cluster: ClusterSpec) -> NDArray[np.int32]:
    places = {name: place for place, name in enumerate(cluster.virtual_clusters)}
    homes = np.array([places.get(name, 0) for name in jobs.virtual_cluster.names], dtype=np.int32)
    pool: NDArray[np.int32] = homes[jobs.virtual_cluster.codes] if len(homes) else np.zeros(0, dtype=np.int32)
    on_cpus = jobs.gpus == 0
    if on_cpus.any():
        pool = pool + np.int32(len(places)) * on_cpus
    return pool


def _of_jobs(
    jobs: WorkloadColumns, gpus: NDArray[np.int64], pool: NDArray[np.int32], rank: NDArray[np.int64]
) -> Arrays:
    count = len(jobs)
    made: Arrays = {
        "submit_s": jobs.submit_time_s,
        "duration_s": jobs.duration_s,
        "pool": pool,
        "rank": rank,
        "leaves": ~np.isnan(jobs.cancel_time_s),
        "gpus": gpus,
        "start_s": np.full(count, np.nan),
        "end_s": np.full(count, np.nan),
    }
    for name in (
        *("state", "entry", "held_jobs", "begun", "ends_at_s", "ends_jobs", "ends_order", "ends_place"),
        *("first", "whole", "rest"),
    ):
        made[name] = np.zeros(count, dtype=TYPES[name])
    return made


def _of_nodes(shapes: Sequence[PoolShape], rows: int) -> Arrays:
    """Return the nodes, all idle: each pool's, and as many again to plan on for a second row."""
    table, bits, count, free, journal = [], [], [], [], 0
    at = dict.fromkeys(("node_at", "bits_at", "count_at"), 0)
    for shape in [*shapes] * rows:
        index_words = -(-(shape.size + 1) // WORD)
        index = np.zeros(index_words + -(-index_words // WORD), dtype=np.int64)
        sets = np.zeros((shape.size + 1, shape.stride), dtype=np.int64)
        if shape.nodes:
            _fill(index, index_words, shape.size, shape.size + 1)
            _fill(sets[shape.size], shape.words, 0, shape.nodes)
        of_row = {
            **at,
            "words": shape.words,
            "stride": shape.stride,
            "index_at": at["bits_at"] + sets.size,
            "index_words": index_words,
            "size": shape.size,
            "nodes": shape.nodes,
            "total": shape.nodes * shape.size,
            "journal_at": journal,
            "journal": 0,
        }
        table.append([of_row.get(name, 0) for name in ROW_FIELDS])
        bits += [sets.ravel(), index]
        counts = np.zeros(shape.size + 1, dtype=np.int32)
        counts[-1] = shape.nodes
        count.append(counts)
        free.append(np.where(np.arange(shape.most_nodes) < shape.nodes, shape.size, -1))
        at["node_at"] += shape.most_nodes
        at["bits_at"] += sets.size + index.size
        at["count_at"] += shape.size + 1
        journal += shape.most_nodes
    nodes = at["node_at"]
    return {
        "rows": np.array(table, dtype=np.int64).ravel(),
        "bits": np.concatenate(bits),
        "count": np.concatenate(count),
        "free": np.concatenate(free),
        "chain": np.zeros(nodes, dtype=np.int32),
        "dirty": np.zeros(nodes, dtype=np.int8),
        "journal": np.zeros(nodes, dtype=np.int32),
        "spare": np.full(nodes, -1, dtype=np.int32),
        "later": np.zeros(nodes, dtype=np.int32),
        "stamp": np.zeros(nodes, dtype=np.int64),
    }


def _fill(words: NDArray[np.int64], first_level: int, begin: int, end: int) -> None:
    """Put the numbers from `begin` to `end` into a set (`loops/bitsets.py`)."""
    members = np.zeros(len(words) * WORD, dtype=bool)
    members[begin:end] = True
    above = first_level * WORD
    members[above + begin // WORD : above + (end - 1) // WORD + 1] = True
    words[:] = np.packbits(members, bitorder="little").view("<i8")


def _of_queues(queue_of: NDArray[np.int32], queues: int) -> Arrays:
    room = np.bincount(queue_of, minlength=queues) + SPARE_ROOM
    return {
        "queue_of": queue_of,
        "queue_at": np.cumsum(room) - room,
        "queue_room": room,
        "queue_length": np.zeros(queues, dtype=np.int64),
        "queue_ranks": np.zeros(room.sum(), dtype=np.int64),
        "queue_arrivals": np.zeros(room.sum(), dtype=np.int64),
        "queue_jobs": np.zeros(room.sum(), dtype=np.int32),
    }


def _given(jobs: WorkloadColumns, cluster: ClusterSpec, changes: Sequence[SizeChange]) -> Arrays:
    """Return what is given of times to come, in its order."""
    leaving = np.flatnonzero(np.isfinite(jobs.cancel_time_s))
    leaves_s = np.maximum(jobs.cancel_time_s, jobs.submit_time_s)[leaving]
    order = np.argsort(leaves_s, kind="stable")
    places = {name: place for place, name in enumerate(cluster.virtual_clusters)}
    rows = [
        (change.at_s, place, change.nodes)
        for change in in_time(changes)
        for place in _places(places[change.virtual_cluster], len(places), cluster)
    ]
    at_s, pool, nodes = zip(*rows, strict=True) if rows else ((), (), ())
    return {
        "cancel_s": leaves_s[order],
        "cancel_job": leaving[order],
        "change_s": np.array(at_s, dtype=np.float64),
        "change_pool": np.array(pool, dtype=np.int32),
        "change_nodes": np.array(nodes, dtype=np.int64),
    }


def in_time(changes: Sequence[SizeChange]) -> list[SizeChange]:
    """Return changes in the order in which they happen."""
    return sorted(changes, key=lambda change: change.at_s)


def _places(place: int, virtual_clusters: int, cluster: ClusterSpec) -> tuple[int, ...]:
    """Return the pools that a virtual cluster's size is that of: its nodes, and their cores."""
    return (place, virtual_clusters + place) if cluster.cpu_cores_per_node else (place,)


def _of_demands(gpus: NDArray[np.int64], pool: NDArray[np.int32], pools: int) -> Arrays:
    """Return the demands of each pool, and each job's place among those of the same."""
    most = int(gpus.max(initial=0)) + 1
    kinds, kind = np.unique(pool * np.int64(most) + gpus, return_inverse=True)
    of_kind = np.bincount(kind, minlength=len(kinds))
    listed = np.argsort(kind, kind="stable")
    jobs_at = np.cumsum(of_kind) - of_kind
    place = np.empty(len(gpus), dtype=np.int64)
    place[listed] = np.arange(len(gpus)) - np.repeat(jobs_at, of_kind)
    edges = np.searchsorted(kinds, np.arange(pools + 1) * most)
    return {
        "demand_jobs_at": jobs_at,
        "demand_jobs": listed,
        "demand_gpus": kinds % most,
        "waiting": np.zeros(len(kinds), dtype=np.int64),
        "demand_of": kind,
        "demand_place": place,
        "from_kind": edges[:-1],
        "to_kind": edges[1:],
    }


def _lists(pool: NDArray[np.int32], pools: int) -> NDArray[np.int64]:
    """Return where each pool's part of a list begins that has room for all jobs."""
    in_pool = np.bincount(pool, minlength=pools)
    return np.asarray(np.cumsum(in_pool) - in_pool)


def _of_gaps(
    jobs: WorkloadColumns,
    gpus: NDArray[np.int64],
    pool: NDArray[np.int32],
    pools: int,
    demands: Arrays,
    gaps: GapRule,
) -> Arrays:
    """Return what backfilling needs: trees over the demands, beliefs, and the runs to come."""
    of_kind = np.bincount(demands["demand_of"], minlength=len(demands["waiting"]))
    leaves = 1 << np.ceil(np.log2(np.maximum(of_kind, 1))).astype(np.int64)
    made: Arrays = {
        "least": np.full(2 * leaves.sum(), np.inf),
        "tree_at": np.cumsum(2 * leaves) - 2 * leaves,
        "leaves_of": leaves,
        "run_at": _lists(pool, pools),
        "run_length": np.zeros(pools, dtype=np.int64),
        "shadow_s": np.full(pools, -1.0),
        "shortest_first": np.array([gaps.shortest_first]),
        "asked_s": gaps.asked_s,
        "steps_s": np.array(gaps.steps_s, dtype=np.float64),
        "steps": np.array([len(gaps.steps_s)]),
    }
    for name in ("run_end_s", "run_jobs", "run_start_s", "belief_s", "outlived"):
        made[name] = np.zeros(len(jobs), dtype=TYPES[name])
    return made | _learned(jobs, gpus, gaps)


def _of_preemption(
    jobs: WorkloadColumns,
    gpus: NDArray[np.int64],
    pool: NDArray[np.int32],
    shapes: Sequence[PoolShape],
    rule: PreemptionRule,
) -> Arrays:
    """Return what preemption needs: what jobs have left to do, what they wait for, and which run."""
    sizes, size = np.unique(gpus, return_inverse=True)
    costs_s = np.array([rule.cost_s(int(each), shapes[0].size) for each in sizes], dtype=np.float64)
    made: Arrays = {
        "remaining_s": jobs.duration_s + 0.0,  # no zero below zero
        "since_s": jobs.submit_time_s.copy(),
        "cost_s": costs_s[size] if len(sizes) else np.zeros(0),
        "submit_s": jobs.submit_time_s + 0.0,
        "next_expiry_s": np.full(len(shapes), np.inf),
        "wake_s": np.full(len(shapes), np.inf),
        "ranked_at": _lists(pool, len(shapes)),
        "ranked_length": np.zeros(len(shapes), dtype=np.int64),
        "limits": np.array([rule.threshold_gpu_s or 0.0, rule.round_s or 0.0, rule.completion_s]),
    }
    for name in (
        *("attained_s", "delay_s", "overhead_s", "preemptions", "expiry_s"),
        *("ranked_ranks", "ranked_starts", "ranked_jobs"),
    ):
        made[name] = np.zeros(len(jobs), dtype=TYPES[name])
    return made


def _learned(jobs: WorkloadColumns, gpus: NDArray[np.int64], gaps: GapRule) -> Arrays:
    """Return which jobs are believed to run alike, and what has ended so far: nothing (`UserHistory`)."""
    if not gaps.steps_s:
        return {}
    most = int(gpus.max(initial=0)) + 1
    users = len(jobs.user.names)
    nameless = users + jobs.virtual_cluster.codes * np.int64(most) + gpus
    user = np.unique(np.where(jobs.user.codes < 0, nameless, jobs.user.codes), return_inverse=True)[1]
    sizes, size = np.unique(gpus, return_inverse=True)
    most_s = np.full(len(jobs), np.nan) if gaps.most_s is None else gaps.most_s
    made: Arrays = {"user": user, "size": size + 1, "most_s": most_s}
    for name in ("user_count", "last_s", "before_s"):
        made[name] = np.zeros(int(user.max(initial=0)) + 1, dtype=TYPES[name])
    for name in ("size_s", "size_count"):
        made[name] = np.zeros(len(sizes) + 1, dtype=TYPES[name])
    return made


def table(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Return the counts by name."""
    return dict(zip(COUNTS, arrays["counts"].tolist(), strict=True))
