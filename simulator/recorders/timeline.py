"""A run as a timeline that trace viewers open (Perfetto, chrome://tracing): Chrome's Trace Event Format.

A *process* is a node pool, a *thread* is one GPU of one of its nodes, and a *slice* is a job's run on that
GPU; the GPU's second thread, "shared", shows the job that was packed onto it. A CPU job shows as one slice a
node. Counters follow each pool's queue and free GPUs; instants mark runs that did not end by themselves. In
the format's terms: complete events ("X", which on one thread never overlap here, so they nest), counters
("C"), instants ("i") and metadata ("M"); times are whole microseconds from second 0 of the simulation.

Events are written while the simulation runs, so a long run costs disk and no memory.
"""

import gzip
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from math import inf
from pathlib import Path
from typing import IO, Any, TextIO, cast

from foundation.errors import BadInputError
from simulator.cluster.changes import ClusterChange, NodeFailure
from simulator.cluster.placement import Placement
from simulator.engine.node_inventory import cpu_pool
from simulator.job_view import JobView
from simulator.recorder import Recorder, StopReason
from simulator.scenario.companion import OverTime
from simulator.snapshot import NodePool

DEFAULT_MAX_SLICES = 1_000_000  # about 200 MB of JSON, 25 MB compressed: what a viewer still opens
SECOND_US = 1_000_000
CPU_POOL_SUFFIX = cpu_pool("")
RESIZED = "resized"  # why a slice ends: the run goes on with other GPUs
CUT = "timeline ends"  # why a slice ends: the run went on


@dataclass(frozen=True)
class TimelineWindow:
    """What part of a run is written: [start_s, end_s), and at most so many slices (one a GPU and run)."""

    start_s: float = 0.0
    end_s: float = inf
    max_slices: int = DEFAULT_MAX_SLICES

    def __post_init__(self) -> None:
        if not self.start_s < self.end_s:
            raise BadInputError(
                f"The timeline is to begin at {self.start_s} s and to end at {self.end_s} s.",
                remedy="End it later than it begins.",
            )
        if self.max_slices < 1:
            raise BadInputError(f"max_slices is {self.max_slices}.", remedy="Use 1 or more.")


class _Run:
    """A run that has not ended."""

    __slots__ = ("gpus", "job", "lane", "number", "packed_with", "pool", "start_s")

    def __init__(
        self, job: JobView, pool: "_Pool", start_s: float, number: int, gpus: list[tuple[int, int]], lane: int
    ) -> None:
        self.job = job
        self.pool = pool
        self.start_s = start_s
        self.number = number
        self.gpus = gpus  # (node, bits of its GPUs)
        self.lane = lane  # 0: the GPU's own thread, 1: the shared one
        self.packed_with: list[str] = []


class _Pool:
    """A pool as a process."""

    __slots__ = ("cores", "free", "free_gpus", "gpus_per_node", "named", "pid", "waiting")

    def __init__(self, pid: int, gpus_per_node: int, *, cores: bool) -> None:
        self.pid = pid
        self.cores = cores  # it serves CPU jobs
        self.gpus_per_node = gpus_per_node
        self.free: dict[int, int] = {}  # node -> bits of its free GPUs; absent: all
        self.named: set[int] = set()  # threads that have their name
        self.waiting = -1
        self.free_gpus = -1

    def take(self, node: int, gpus: int) -> int:
        """Occupy the lowest free GPUs of a node; return their bits."""
        free = self.free.get(node, (1 << self.gpus_per_node) - 1)
        taken = 0
        for _ in range(gpus):
            lowest = free & -free
            taken |= lowest
            free ^= lowest
        self.free[node] = free
        return taken


class TimelineRecorder(Recorder):
    """Watches a simulation and writes its timeline to an open text file.

    Call `close` when the simulation is over. A run that the window cuts is shown as far as the window goes.
    """

    def __init__(self, file: TextIO, window: TimelineWindow | None = None) -> None:
        self.window = window or TimelineWindow()
        self.slices = 0
        self.runs = 0
        self.ended_s: float | None = None  # when the limit on slices was reached
        self._file = file
        self._open: dict[int, _Run] = {}
        self._numbers: dict[int, int] = {}
        self._pools: dict[str, _Pool] = {}
        self._now_s = 0.0
        self._written = False
        file.write('{"displayTimeUnit": "ms", "traceEvents": [')

    # -- what the simulation tells ---------------------------------------------------------------------------

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Nothing: the queue's length is written once the policy has decided."""
        self._now_s = now_s

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """Remember which GPUs a run holds."""
        self._now_s = now_s
        if self.ended_s is not None:
            return
        mine = self._pool(pool)
        number = self._numbers[job.index] = self._numbers.get(job.index, 0) + 1
        with_whom = None if job.partner is None else self._open.get(job.partner.index)
        if with_whom is None:
            gpus = [(node, mine.take(node, count)) for node, count in job.placement or ()]
            run = _Run(job, mine, now_s, number, gpus, 0)
        else:
            run = _Run(job, mine, now_s, number, with_whom.gpus, 1 - with_whom.lane)
            run.packed_with.append(with_whom.job.job.job_id)
            with_whom.packed_with.append(job.job.job_id)
        self._open[job.index] = run

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """End a slice on each of the GPUs that it had, and begin one on each that it has."""
        self._now_s = now_s
        run = self._open.pop(job.index, None)
        if run is not None:
            self._end(run, now_s, RESIZED)
            self._keep_to_limit(now_s)
        self.started(now_s, job, pool)

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """Write the run as slices, one for each of its GPUs."""
        self._now_s = now_s
        if self.ended_s is not None:
            return
        run = self._open.pop(job.index, None)
        if run is None:  # cancelled while it waited
            self._instant(now_s, self._pool(pool).pid, 0, f"{job.job.job_id} cancelled while it waited", "p")
            return
        self._end(run, now_s, reason)
        if reason not in ("completed", "limit") and self._inside(now_s):
            tid = self._tid(run.pool, run.gpus[0][0], _lowest(run.gpus[0][1]), run.lane)
            self._instant(now_s, run.pool.pid, tid, f"{job.job.job_id} {reason}", "t")
        self._keep_to_limit(now_s)

    def decided(self, now_s: float, pools: Collection[NodePool]) -> None:
        """Write the counters that have changed."""
        self._now_s = now_s
        if not self._inside(now_s):
            return
        for pool in pools:
            mine = self._pool(pool)
            waiting, free = len(pool.queue), pool.free.total
            if waiting != mine.waiting:
                mine.waiting = waiting
                self._counter(now_s, mine.pid, "waiting jobs", waiting)
            if free != mine.free_gpus:
                mine.free_gpus = free
                self._counter(now_s, mine.pid, "free cores" if mine.cores else "free GPUs", free)

    def close(
        self,
        about: Mapping[str, Any] | None = None,
        changes: Sequence[ClusterChange] = (),
        kept: Iterable[OverTime] = (),
    ) -> None:
        """End the file: runs that go on are cut, failures of nodes are marked, `about` describes the run.

        What companions kept over time are counters of the whole cluster, process 0.
        """
        self._cut()
        for each in kept:
            self._over_time(each)
        for change in changes:
            if isinstance(change, NodeFailure) and change.virtual_cluster in self._pools:
                mine = self._pools[change.virtual_cluster]
                self._instant(
                    change.at_s, mine.pid, 0, f"node {change.node} down for {change.down_s:g} s", "p"
                )
        for name, mine in self._pools.items():
            self._metadata(mine.pid, 0, "process_name", {"name": name})
            self._metadata(mine.pid, 0, "process_sort_index", {"sort_index": mine.pid})
            self._metadata(mine.pid, 0, "thread_name", {"name": "events"})
        other = {**(about or {}), "runs": self.runs, "slices": self.slices}
        if self.ended_s is not None:
            other["complete_until_s"] = self.ended_s
        self._file.write(f'\n], "otherData": {json.dumps(other)}}}\n')

    def _over_time(self, kept: OverTime) -> None:
        self._metadata(0, 0, "process_name", {"name": kept.name})
        columns = kept.columns()
        rows = zip(*(columns[name].tolist() for name in ("at_s", *kept.counters)), strict=True)
        for at_s, *counts in rows:
            if self._inside(at_s):
                args = json.dumps({name: int(n) for name, n in zip(kept.counters, counts, strict=True)})
                self._write(
                    f'{{"ph": "C", "name": "{kept.name}", "cat": "count", "pid": 0, "tid": 0, '
                    f'"ts": {round(at_s * SECOND_US)}, "args": {args}}}'
                )

    def _end(self, run: _Run, now_s: float, reason: str) -> None:
        if run.job.partner is None:
            for node, bits in run.gpus:
                run.pool.free[node] |= bits
        self._slices(run, now_s, reason)

    def _keep_to_limit(self, now_s: float) -> None:
        if self.slices >= self.window.max_slices:
            self._cut()
            self.ended_s = now_s

    # -- what is written -------------------------------------------------------------------------------------

    def _inside(self, at_s: float) -> bool:
        return self.ended_s is None and self.window.start_s <= at_s < self.window.end_s

    def _slices(self, run: _Run, end_s: float, reason: str) -> None:
        """Write a run, cut to the window; the first of its GPUs carries what there is to say."""
        start_s = max(run.start_s, self.window.start_s)
        if run.start_s >= self.window.end_s or (end_s <= self.window.start_s and end_s > run.start_s):
            return
        start = round(start_s * SECOND_US)
        length = max(0, round(min(end_s, self.window.end_s) * SECOND_US) - start)
        job = run.job.job
        name = json.dumps(job.job_id)
        about = {
            "job": job.job_id,
            "run": run.number,
            "cores" if run.pool.cores else "gpus": sum(bits.bit_count() for _, bits in run.gpus),
            "user": job.user,
            "name": job.template,
            "estimated_duration_s": job.estimated_duration_s,
            "duration_s": job.duration_s,
            "submit_time_s": job.submit_time_s,
            "start_s": run.start_s,
            "end_s": end_s,
            "ended": reason,
            "packed_with": run.packed_with,
        }
        args = json.dumps({key: value for key, value in about.items() if value not in (None, [])})
        cat = "run" if run.lane == 0 else "run,shared"
        pid = run.pool.pid
        for node, bits in run.gpus:
            to_visit = bits
            while to_visit:
                gpu = _lowest(to_visit)
                to_visit &= to_visit - 1
                tid = self._tid(run.pool, node, gpu, run.lane)
                self._write(
                    f'{{"ph": "X", "name": {name}, "cat": "{cat}", "pid": {pid}, "tid": {tid}, '
                    f'"ts": {start}, "dur": {length}, "args": {args}}}'
                )
                # The other GPUs of the gang refer to the first.
                args = f'{{"job": {name}, "run": {run.number}}}'
                cat = "gang" if run.lane == 0 else "gang,shared"
                self.slices += 1
                if run.pool.cores:
                    break
        self.runs += 1

    def _cut(self) -> None:
        """Show the runs that go on as far as the simulation has come."""
        for run in self._open.values():
            self._slices(run, self._now_s, CUT)
        self._open.clear()

    def _tid(self, pool: _Pool, node: int, gpu: int, lane: int) -> int:
        """Return the thread of a GPU, from 1, and name it once."""
        tid = (node * pool.gpus_per_node + gpu) * 2 + lane + 1
        if tid not in pool.named:
            pool.named.add(tid)
            unit = "core" if pool.cores else "GPU"
            name = f"node {node} {unit} {gpu}" + (" shared" if lane else "")
            self._metadata(pool.pid, tid, "thread_name", {"name": name})
            self._metadata(pool.pid, tid, "thread_sort_index", {"sort_index": tid})
        return tid

    def _pool(self, pool: NodePool) -> _Pool:
        mine = self._pools.get(pool.name)
        if mine is None:
            pid = len(self._pools) + 1
            mine = _Pool(pid, pool.free.gpus_per_node, cores=pool.name.endswith(CPU_POOL_SUFFIX))
            self._pools[pool.name] = mine
        return mine

    def _instant(self, at_s: float, pid: int, tid: int, name: str, scope: str) -> None:
        if self._inside(at_s):
            self._write(
                f'{{"ph": "i", "name": {json.dumps(name)}, "cat": "event", "pid": {pid}, "tid": {tid}, '
                f'"ts": {round(at_s * SECOND_US)}, "s": "{scope}"}}'
            )

    def _counter(self, at_s: float, pid: int, name: str, value: int) -> None:
        self._write(
            f'{{"ph": "C", "name": "{name}", "cat": "count", "pid": {pid}, "tid": 0, '
            f'"ts": {round(at_s * SECOND_US)}, "args": {{"count": {value}}}}}'
        )

    def _metadata(self, pid: int, tid: int, name: str, args: Mapping[str, Any]) -> None:
        self._write(
            f'{{"ph": "M", "name": "{name}", "cat": "__metadata", "pid": {pid}, "tid": {tid}, "ts": 0, '
            f'"args": {json.dumps(args)}}}'
        )

    def _write(self, event: str) -> None:
        self._file.write(("," if self._written else "") + "\n" + event)
        self._written = True


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def open_timeline(path: Path) -> TextIO:
    """Open a timeline's file for writing; `.gz` is compressed. The same run gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix != ".gz":
        return path.open("w", encoding="utf-8", newline="\n")
    raw = _NamelessGzip(path)
    return TextIOWrapper(cast("IO[bytes]", raw), encoding="utf-8", newline="\n")


class _NamelessGzip(gzip.GzipFile):
    """A compressed file without name and time in it, which closes what it writes to."""

    def __init__(self, path: Path) -> None:
        self._target = path.open("wb")
        super().__init__(filename="", mode="wb", compresslevel=4, fileobj=self._target, mtime=0)

    def close(self) -> None:
        """Finish the compressed stream and close the file under it."""
        super().close()
        self._target.close()
