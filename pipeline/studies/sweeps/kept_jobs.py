"""What is kept of every job of a run of a sweep: why it waited, and how busy each virtual cluster was.

URI/ID-waits.parquet   a row a job that counts, in the workload's order
URI/ID-usage.parquet   a row a change: virtual_cluster, at_s, gpus_in_use, waiting_jobs, waiting_gpus
"""

from typing import Any

import numpy as np
import pandas as pd

from foundation.storage import write_frame
from simulator.cluster.placement import Placement
from simulator.job_view import JobView
from simulator.recorder import Recorder, RecorderGroup, StopReason
from simulator.recorders.usage import Usage, UsageRecorder
from simulator.recorders.waiting import WaitRecorder
from simulator.results.result import SimulationResult
from simulator.scenario.scenario import Scenario
from simulator.snapshot import NodePool
from simulator.workload.workload import Workload

WAITS, USAGE = "waits", "usage"
# Beside the columns of `WaitRecorder.table`.
RESULT_COLUMNS = ("end_time_s", "jct_s", "duration_s", "estimated_duration_s", "preemptions", "colocated")
ROW = "row"  # the job's row among the sweep's, the same in every run
SUBMIT_TIME = "submit_time"  # UTC
MOST_RUNS = 64  # that a sweep may have which keeps its jobs: some megabytes a run of 100,000 jobs


def kept_table(uri: str, name: str) -> str:
    """Return where a table of a run lies; its name begins with `uri`."""
    return f"{uri}-{name}.parquet"


class UsageOfVirtualClusters(Recorder):
    """Watches a simulation: the usage of each virtual cluster by its jobs.

    A job that shares the GPUs of another holds none of its own.
    """

    def __init__(self) -> None:
        self._of: dict[str, UsageRecorder] = {}

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """One more waits."""
        self._watch(job).queued(now_s, job, pool)

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """One less waits."""
        self._watch(job).started(now_s, job, pool)

    def resized(self, now_s: float, job: JobView, pool: NodePool, before: Placement) -> None:
        """More or fewer GPUs are in use."""
        self._watch(job).resized(now_s, job, pool, before)

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """GPUs come free, or one less waits."""
        self._watch(job).stopped(now_s, job, pool, reason)

    def usage(self) -> dict[str, Usage]:
        """Return what has been seen so far, by virtual cluster."""
        return {name: self._of[name].usage() for name in sorted(self._of)}

    def _watch(self, job: JobView) -> UsageRecorder:
        name = job.job.virtual_cluster
        recorder = self._of.get(name)
        if recorder is None:
            recorder = self._of[name] = UsageRecorder()
        return recorder


class JobKeeper:
    """Watches a run and writes what is kept of it."""

    def __init__(self) -> None:
        self._waits, self._usage = WaitRecorder(), UsageOfVirtualClusters()
        self.recorder: Recorder = RecorderGroup((self._waits, self._usage))

    def write(self, result: SimulationResult, scenario: Scenario, uri: str) -> None:
        """Write both tables; their names begin with `uri`."""
        workload = scenario.workload
        rows = np.arange(len(workload)) if workload.rows is None else workload.rows
        waits = self._waits.table(result).assign(
            **{name: result.jobs[name] for name in RESULT_COLUMNS},
            **{
                ROW: rows[result.warm_up_jobs :],
                SUBMIT_TIME: _instants(workload, result.jobs["submit_time_s"]),
            },
        )
        usage = [
            pd.DataFrame({"virtual_cluster": name, **vars(steps.since(scenario.counted_from_s))})
            for name, steps in self._usage.usage().items()
        ]
        # Waits last: a run that has them has both.
        for name, frame in ((USAGE, pd.concat(usage, ignore_index=True)), (WAITS, waits)):
            write_frame(kept_table(uri, name), frame, compression="zstd")


def _instants(workload: Workload, seconds: "pd.Series[float]") -> "pd.Series[Any]":
    """Return moments of a replay as times (UTC)."""
    origin = workload.origin if workload.origin is not None else pd.Timestamp(0, tz="UTC")
    return origin + pd.to_timedelta(seconds, unit="s")
