"""What a simulation's result does not say: how busy GPUs were, how long queues, waits for profiling.

Lucid samples the active GPUs every minute (section 4.3); here the same figures are integrals over time, which
is what sampling ever finer converges to.
"""

from dataclasses import dataclass

from simulator.job_view import JobView
from simulator.recorder import Recorder, StopReason
from simulator.snapshot import NodePool
from simulator.stages.profiler import PROFILER

FULL_PCT = 100.0


@dataclass(frozen=True)
class Activity:
    """Figures of one run.

    - `gpu_util_pct`, `gpu_mem_mib`: of an active GPU, averaged over GPU time; GPUs whose jobs have no profile
      are left out. Two jobs on a GPU ask for the sum, of which at most 100 % can be had.
    - `mean_queue`, `max_queue`: waiting jobs over time, from the first submission to the last start, which
      is `queued_for_s` later.
    - `profiling_queue_s`: mean wait before a profiling run, of the `profiling_runs` that there were.
    """

    gpu_util_pct: float
    gpu_mem_mib: float
    active_gpu_s: float
    mean_queue: float
    max_queue: int
    queued_for_s: float
    profiling_queue_s: float
    profiling_runs: int


class ActivityRecorder(Recorder):
    """A `simulator.recorder.Recorder` that adds up `Activity`."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}  # running job -> since when its GPUs have been as busy as now
        self._active_gpu_s = self._measured_gpu_s = self._util_pct_s = self._mem_mib_s = 0.0
        self._queue = self._max_queue = 0
        self._queue_s = 0.0
        self._last_s = self._first_s = self._last_start_s = 0.0
        self._queue_s_at_last_start = 0.0
        self._began = False
        self._profiling_wait_s = 0.0
        self._profiling_runs = 0

    def queued(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """One more waits."""
        if not self._began:
            self._began, self._first_s, self._last_s = True, now_s, now_s
        self._pass_to(now_s)
        self._queue += 1
        self._max_queue = max(self._max_queue, self._queue)

    def started(self, now_s: float, job: JobView, pool: NodePool) -> None:
        """One fewer waits; its GPUs are active, or busier than before."""
        self._pass_to(now_s)
        self._queue -= 1
        self._last_start_s, self._queue_s_at_last_start = now_s, self._queue_s
        if pool.name == PROFILER:
            self._profiling_runs += 1
            self._profiling_wait_s += now_s - job.queued_since_s
        if job.partner is not None:
            self._add(job.partner, None, now_s)
            self._since[job.partner.index] = now_s
        self._since[job.index] = now_s

    def stopped(self, now_s: float, job: JobView, pool: NodePool, reason: StopReason) -> None:
        """Its GPUs are idle, or its partner's alone."""
        if job.index not in self._since:  # it was withdrawn while it waited
            self._pass_to(now_s)
            self._queue -= 1
            return
        self._add(job, job.partner, now_s)
        del self._since[job.index]
        if job.partner is not None:
            self._since[job.partner.index] = now_s

    def _pass_to(self, now_s: float) -> None:
        self._queue_s += self._queue * (now_s - self._last_s)
        self._last_s = now_s

    def _add(self, job: JobView, partner: JobView | None, now_s: float) -> None:
        """Add the time since the GPUs of a job, and of its partner, last changed."""
        if not job.job.gpus:
            return
        gpu_s = job.gpus * (now_s - self._since[job.index])
        self._active_gpu_s += gpu_s
        profiles = [job.profile] if partner is None else [job.profile, partner.profile]
        known = [profile for profile in profiles if profile is not None]
        if len(known) < len(profiles):
            return
        self._measured_gpu_s += gpu_s
        self._util_pct_s += gpu_s * min(FULL_PCT, sum(profile.gpu_util_pct for profile in known))
        self._mem_mib_s += gpu_s * sum(profile.gpu_mem_mib for profile in known)

    def activity(self) -> Activity:
        """Return what was seen, after the run."""
        queue_over_s = self._last_start_s - self._first_s
        return Activity(
            self._util_pct_s / self._measured_gpu_s if self._measured_gpu_s else 0.0,
            self._mem_mib_s / self._measured_gpu_s if self._measured_gpu_s else 0.0,
            self._active_gpu_s,
            self._queue_s_at_last_start / queue_over_s if queue_over_s else 0.0,
            self._max_queue,
            queue_over_s,
            self._profiling_wait_s / self._profiling_runs if self._profiling_runs else 0.0,
            self._profiling_runs,
        )
