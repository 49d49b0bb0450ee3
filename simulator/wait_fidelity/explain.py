"""What explains that a replay's waits are not the log's.

Each cause touches some jobs; it explains as much of the difference (the sum of the jobs' absolute
differences) as falls to those jobs. Causes overlap, so that their shares add up to more than all of it. The
largest share comes first. What touches next to all jobs, and is not seen to have changed a start, explains
nothing by this measure and comes last: that no job has a time limit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator.cluster.changes import ClusterChange, SizeChange
from simulator.cluster.spec import ClusterSpec
from simulator.wait_fidelity.logged_jobs import Floats, LoggedJobs

_HELD_S = 60.0
_MIN_SHARE_PCT = 1.0  # of the difference, below which a cause is left out
_EDGE_SHARE = 0.05  # of the GPUs in use, held by jobs of which the replay knows nothing
_SEEN_AT_WORK = ("nodes", "idle", "order")  # the log shows starts that the replay cannot give
_NEXT_TO_ALL_PCT = 90.0
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GpusInUse:
    """Of one virtual cluster: from `at_s[i]` to `at_s[i + 1]` its jobs hold `used[i]` of `there[i]` GPUs."""

    at_s: Floats
    used: Floats
    there: Floats

    @classmethod
    def of(cls, running: Iterable[LoggedJobs], sizes: Iterable[tuple[float, float]]) -> "GpusInUse":
        """`running`: the jobs of the virtual cluster; `sizes`: (from when on in s, GPUs) in order of time."""
        times, steps = [], []
        for jobs in running:
            held = np.isfinite(jobs.start_s) & np.isfinite(jobs.end_s) & (jobs.end_s > jobs.start_s)
            times += [jobs.start_s[held], jobs.end_s[held]]
            steps += [jobs.gpus[held], -jobs.gpus[held]]
        since, gpus = (np.array(column, dtype=np.float64) for column in zip(*sizes, strict=True))
        at_s, place = np.unique(np.concatenate([*times, since]), return_inverse=True)
        changed = np.bincount(place[: -len(since)], np.concatenate(steps), minlength=len(at_s))
        before = np.searchsorted(since, at_s, side="right") - 1
        return cls(at_s, np.cumsum(changed), gpus[np.maximum(before, 0)])

    def beyond_at(self, moments_s: Floats) -> Floats:
        """Return by how many GPUs more than there are were in use at these moments; 0 or more."""
        place = np.clip(np.searchsorted(self.at_s, moments_s, side="right") - 1, 0, len(self.at_s) - 1)
        return np.maximum(self.used[place] - self.there[place], 0.0)

    def enough_free_s(self, gpus: Floats, from_s: Floats, until_s: Floats) -> Floats:
        """Return for how long, of each span, as many GPUs were free as a job wants."""
        lasts = np.diff(self.at_s, append=self.at_s[-1])
        free = self.there - self.used
        whole = np.zeros(len(gpus))
        for wanted in np.unique(gpus):
            mine: NDArray[np.bool_] = gpus == wanted
            passed = np.concatenate([[0.0], np.cumsum(lasts * (free >= wanted))[:-1]])
            ends, begins = (np.interp(moments[mine], self.at_s, passed) for moments in (until_s, from_s))
            whole[mine] = ends - begins
        return whole


@dataclass(frozen=True, slots=True)
class Cause:
    """Why waits differ: a name, the jobs that it touches, and their share of the difference."""

    name: str
    jobs: int
    jobs_pct: float
    difference_pct: float
    sentence: str


@dataclass(frozen=True)
class ReplayedSite:
    """What was replayed: the site's order in words, and the cluster with what changes it.

    `others`: jobs of the log that the replay leaves out, though they held GPUs. `withdrawn`: those that left
    the queue without a run. `believes_limits`: the order knows time limits. `stated`: further reasons (nodes
    that several partitions share, reservations): a name, the virtual clusters that it touches, and what is
    said of their jobs.
    """

    order: str
    cluster: ClusterSpec
    changes: Sequence[ClusterChange] = ()
    others: LoggedJobs | None = None
    withdrawn: Mask | None = None
    believes_limits: bool = False
    stated: Sequence[tuple[str, frozenset[str], str]] = ()


def causes_of(
    logged: LoggedJobs, known: Mask, first_start_s: Floats, site: ReplayedSite
) -> tuple[Cause, ...]:
    """Return what explains that waits of the `known` jobs differ, most first; maybe nothing."""
    ours = logged.those(known)
    off_s = np.abs(np.maximum(first_start_s[known] - ours.ready_s, 0.0) - ours.wait_s)
    if not off_s.sum() > 0:
        return ()
    pooled, others = _by_pool(logged, site), site.others and _by_pool(site.others, site)
    used, at_home = _in_use(pooled, others, site), pooled.those(known)
    found = [
        ("nodes", *_too_few_nodes(at_home, used)),
        ("idle", *_waited_beside_free_gpus(at_home, used)),
        ("order", *_overtaken(ours)),
        ("held", *_held(ours)),
        ("limits", *_limits(ours, believed=site.believes_limits)),
        ("edge", *_edge(at_home, used, others)),
        ("shared nodes", *_sharing(ours, site.cluster)),
        ("withdrawn", *_behind_withdrawn(logged, known, site.withdrawn)),
        *(
            (name, np.isin(ours.virtual_cluster.astype(str), list(where)), text)
            for name, where, text in site.stated
        ),
    ]
    causes = [_cause(name, touched, off_s, clause) for name, touched, clause in found]
    named = [cause for cause in causes if cause.jobs and cause.difference_pct >= _MIN_SHARE_PCT]
    return tuple(
        sorted(named, key=lambda cause: (_only_present(cause), -cause.difference_pct, cause.jobs_pct))
    )


def _cause(name: str, touched: Mask, off_s: Floats, clause: str) -> Cause:
    jobs_pct = float(100.0 * touched.mean())
    difference_pct = float(100.0 * off_s[touched].sum() / off_s.sum())
    sentence = f"{difference_pct:.0f} % of the difference falls to the {jobs_pct:.0f} % of jobs {clause}."
    return Cause(name, int(touched.sum()), jobs_pct, difference_pct, sentence)


def _only_present(cause: Cause) -> bool:
    return cause.name not in _SEEN_AT_WORK and cause.jobs_pct > _NEXT_TO_ALL_PCT


def _by_pool(jobs: LoggedJobs, site: ReplayedSite) -> LoggedJobs:
    """The jobs with the pool that serves them in the place of their virtual cluster."""
    homes = {name: site.cluster.home_of(name) for name in set(jobs.virtual_cluster.tolist())}
    names = np.array([homes[name] for name in jobs.virtual_cluster], dtype=object)
    return replace(jobs, virtual_cluster=names)


def _in_use(logged: LoggedJobs, others: LoggedJobs | None, site: ReplayedSite) -> Mapping[str, GpusInUse]:
    cluster = site.cluster
    sizes = {name: [(0.0, float(cluster.gpus_of(name)))] for name in cluster.virtual_clusters}
    for change in site.changes:
        if isinstance(change, SizeChange):
            gpus = change.nodes * cluster.largest_node(change.virtual_cluster)
            sizes[change.virtual_cluster].append((change.at_s, float(gpus)))
    groups = [logged] if others is None else [logged, others]
    return {
        name: GpusInUse.of((jobs.those(jobs.virtual_cluster == name) for jobs in groups), steps)
        for name, steps in sizes.items()
    }


def _too_few_nodes(ours: LoggedJobs, used: Mapping[str, GpusInUse]) -> tuple[Mask, str]:
    beyond = _by_cluster(ours, used, lambda use, jobs: use.beyond_at(jobs.start_s))
    touched = beyond > 0
    most = {name: float((use.used - use.there).max()) for name, use in used.items()}
    worst = max(most, key=lambda name: most[name])
    return touched, (
        "that started while more GPUs were in use than the node table has (by up to "
        f"{most[worst]:,.0f} in {worst}): the nodes are not those of the log"
    )


def _waited_beside_free_gpus(ours: LoggedJobs, used: Mapping[str, GpusInUse]) -> tuple[Mask, str]:
    free_s = _by_cluster(
        ours, used, lambda use, jobs: use.enough_free_s(jobs.gpus, jobs.ready_s, jobs.start_s)
    )
    return (ours.wait_s > _HELD_S) & (free_s > 0.5 * ours.wait_s), (
        "that waited, for most of their wait, though the node table had enough free GPUs: nodes were down, "
        "reserved or shared, users or accounts at their limits, CPUs or memory short, or the log lacks jobs"
    )


def _overtaken(ours: LoggedJobs) -> tuple[Mask, str]:
    """Jobs behind which one of the same size and limit was submitted that started earlier."""
    touched = np.zeros(len(ours), dtype=bool)
    limit_s = np.where(np.isfinite(ours.limit_s), ours.limit_s, 0.0)
    keys = np.unique(ours.virtual_cluster.astype(str), return_inverse=True)[1]
    order = np.lexsort((ours.start_s, ours.ready_s, limit_s, ours.gpus, keys))
    group = np.column_stack([keys, ours.gpus, limit_s])[order]
    bounds = np.flatnonzero((group[1:] != group[:-1]).any(axis=1)) + 1
    for rows in np.split(order, bounds):
        start_s = ours.start_s[rows]
        first_behind_s = np.minimum.accumulate(start_s[::-1])[::-1]
        touched[rows[:-1]] = first_behind_s[1:] < start_s[:-1] - _HELD_S
    return touched, (
        "that a later one of the same size and limit overtook: the cluster follows a priority (fair share, "
        "QOS, age) that this order does not know"
    )


def _sharing(ours: LoggedJobs, cluster: ClusterSpec) -> tuple[Mask, str]:
    return np.isin(ours.virtual_cluster.astype(str), list(cluster.shared)), (
        "of virtual clusters that share nodes: which of them gets a node first is the site's to say"
    )


def _held(ours: LoggedJobs) -> tuple[Mask, str]:
    return ours.ready_s > ours.submit_s + _HELD_S, (
        "that could not start at their submission (held, dependent, to begin later); the replay has them "
        "wait from then on"
    )


def _limits(ours: LoggedJobs, *, believed: bool) -> tuple[Mask, str]:
    without, over = ~np.isfinite(ours.limit_s), ours.end_s - ours.start_s > ours.limit_s + _HELD_S
    if not believed:
        return without, (
            "without a time limit: what the site's backfilling knew of their run times is not in the log"
        )
    return without | over, ("that have no time limit, or ran beyond it")


def _edge(ours: LoggedJobs, used: Mapping[str, GpusInUse], others: LoggedJobs | None) -> tuple[Mask, str]:
    """Jobs that became ready while jobs of before the replay still held GPUs."""
    touched = np.zeros(len(ours), dtype=bool)
    if others is not None and len(others):
        begins_s = float(ours.submit_s.min())
        before = others.those(others.submit_s < begins_s)
        for name, use in used.items():
            mine = before.those((before.virtual_cluster == name) & (before.end_s > begins_s))
            if not len(mine):
                continue
            last_first = np.argsort(-mine.end_s, kind="stable")
            held = np.cumsum(mine.gpus[last_first])
            most = float(use.there.max(initial=0.0))
            until = np.searchsorted(held, _EDGE_SHARE * most, side="left")
            if until < len(held):
                cold = ours.ready_s < mine.end_s[last_first[until]]
                touched |= cold & (ours.virtual_cluster == name)
    return touched, (
        "that came while jobs of before the replay still held GPUs: it starts colder than the cluster was"
    )


def _behind_withdrawn(logged: LoggedJobs, known: Mask, withdrawn: Mask | None) -> tuple[Mask, str]:
    """Jobs that waited behind one that left the queue without a run: its GPUs are not known to be wanted."""
    touched = np.zeros(int(known.sum()), dtype=bool)
    if withdrawn is not None and withdrawn.any():
        ours, gone = logged.those(known), logged.those(withdrawn)
        for name in np.unique(gone.virtual_cluster.astype(str)):
            left = gone.those(gone.virtual_cluster == name)
            first, last = np.sort(left.submit_s), np.sort(left.end_s[np.isfinite(left.end_s)])
            # Waiting at an instant: those submitted until then less those that had left.
            ahead = np.searchsorted(first, ours.ready_s, side="right") - np.searchsorted(
                last, ours.ready_s, side="right"
            )
            touched |= (ours.virtual_cluster == name) & (ahead > 0)
    return touched, ("that came while jobs waited that were withdrawn later")


def _by_cluster(
    ours: LoggedJobs,
    used: Mapping[str, GpusInUse],
    measure: Callable[[GpusInUse, LoggedJobs], Floats],
) -> Floats:
    """Measure each job against the GPUs of its virtual cluster; 0 where that has no nodes."""
    values = np.zeros(len(ours))
    for name, use in used.items():
        mine = ours.virtual_cluster == name
        if mine.any():
            values[mine] = measure(use, ours.those(mine))
    return values
