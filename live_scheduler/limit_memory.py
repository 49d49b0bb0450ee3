"""What shorter time limits would do for jobs of a live queue, from the starts and ends that were seen."""

import math
from dataclasses import dataclass

from live_scheduler.cluster_state import LiveJob
from live_scheduler.daemon import Daemon
from live_scheduler.memory.journal import JobEvent, JobEventKind
from lucid_models.limits.advisor import LimitAdvice, LimitAdvisor, LimitJob, limit_job_of


@dataclass(frozen=True)
class LiveLimitAdvice:
    """Advice for a waiting job; `risk_as_asked`: how likely it runs into the limit that it asks for (None:
    nothing is known of jobs like it).
    """

    advice: LimitAdvice
    risk_as_asked: float | None

    def sentence(self) -> str:
        """Say it to the job's user."""
        advice = self.advice.sentence()
        if self.risk_as_asked is None:
            return advice
        at_most = f"{100 * self.risk_as_asked:.2g} in 100"
        return f"{advice} By its owner's record at most {at_most} run into the limit asked for."


class LimitMemory:
    """A learner of the daemon (`Daemon.learners`)."""

    def __init__(self, daemon: Daemon) -> None:
        self._advisor = LimitAdvisor()
        self._running: dict[str, LimitJob] = {}
        self._lock = daemon.lock
        daemon.learn_from_events(self)

    def observe(self, event: JobEvent) -> None:
        """Take in what happened to a job; what is known already changes nothing."""
        job_id = event.job_id
        if event.kind is JobEventKind.STARTED and job_id not in self._running:
            job = limit_job_of(job_id, event.facts)
            if job is not None:
                self._advisor.note(job, self._advisor.advise(job, event.at_s))
                self._advisor.started(job, event.at_s)
                self._running[job_id] = job
        elif event.kind in (JobEventKind.ENDED, JobEventKind.REQUEUED, JobEventKind.WITHDRAWN):
            started = self._running.pop(job_id, None)
            if started is None:
                return
            if event.kind is JobEventKind.ENDED and event.duration_s is not None:
                self._advisor.ended(started, event.duration_s)
            else:
                self._advisor.stopped(started)

    def advise(self, job: LiveJob, at_s: float) -> LiveLimitAdvice | None:
        """Advice for a job that waits and asks for a limit, as known at `at_s` (Unix s)."""
        limit_job = limit_job_of(job.job_id, job.facts()) if job.waiting else None
        if limit_job is None:
            return None
        with self._lock:
            advice = self._advisor.advise(limit_job, at_s)
            risk = self._advisor.kill_risk(limit_job, limit_job.limit_s, at_s)
        is_known = advice.record_jobs > 0 and math.isfinite(advice.longest_s)
        return LiveLimitAdvice(advice, risk if is_known else None)
