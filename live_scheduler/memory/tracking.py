"""What has happened between two readings of a cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from live_scheduler.cluster_state import ClusterState, EndedJob, LiveJob
from live_scheduler.memory.journal import JobEvent, JobEventKind

# A job that is in no queue and of which accounting knows nothing is given up after so long.
GIVE_UP_S = 3_600.0


@dataclass
class JobTracker:
    """Follows jobs from reading to reading. A job ends only when the cluster says what became of it."""

    seen: dict[str, LiveJob] = field(default_factory=dict)
    # Jobs that were in the queue and are not: since when.
    missing: dict[str, float] = field(default_factory=dict)

    def follow(self, cluster: ClusterState) -> list[JobEvent]:
        """Take in a reading, and return what it shows, in the order of time."""
        events: list[JobEvent] = []
        present = cluster.by_id
        for job_id, job in present.items():
            before = self.seen.get(job_id)
            events += _submitted(job) if before is None else _changed(before, job, cluster.at_s)
            self.missing.pop(job_id, None)
        for job_id in self.seen:
            if job_id not in present:
                self.missing.setdefault(job_id, cluster.at_s)
        self.seen = {**{job_id: self.seen[job_id] for job_id in self.missing}, **present}
        return sorted(events, key=lambda event: event.at_s)

    def settle(self, ended: Mapping[str, EndedJob], now_s: float) -> list[JobEvent]:
        """Take in what became of missing jobs; those not heard of for long are given up."""
        events = []
        for job_id, since_s in list(self.missing.items()):
            end = ended.get(job_id)
            if end is None and now_s - since_s < GIVE_UP_S:
                continue
            events.append(withdrawn(self.seen[job_id], now_s) if end is None else end_event(end))
            del self.missing[job_id], self.seen[job_id]
        return sorted(events, key=lambda event: event.at_s)


def end_event(end: EndedJob) -> JobEvent:
    """Return the event of a job's end: after a run, or without one."""
    if end.duration_s is None or end.start_time_s is None:
        return withdrawn(end.job, end.end_time_s)
    return JobEvent(end.end_time_s, JobEventKind.ENDED, end.job.job_id, end.job.facts(), end.duration_s)


def life(end: EndedJob) -> Iterator[JobEvent]:
    """Yield the events of a job of which only accounting tells."""
    job, facts = end.job, end.job.facts()
    yield JobEvent(job.submit_time_s, JobEventKind.SUBMITTED, job.job_id, facts)
    if end.start_time_s is not None:
        yield JobEvent(max(end.start_time_s, job.submit_time_s), JobEventKind.STARTED, job.job_id, facts)
    yield end_event(end)


def withdrawn(job: LiveJob, at_s: float) -> JobEvent:
    """Return the event of a job that will not run (again)."""
    return JobEvent(at_s, JobEventKind.WITHDRAWN, job.job_id, job.facts())


def _submitted(job: LiveJob) -> list[JobEvent]:
    events = [JobEvent(job.submit_time_s, JobEventKind.SUBMITTED, job.job_id, job.facts())]
    if job.start_time_s is not None:
        events.append(_started(job))
    return events


def _started(job: LiveJob) -> JobEvent:
    start_s = job.submit_time_s if job.start_time_s is None else job.start_time_s
    facts = job.facts()
    if job.ready_time_s > job.submit_time_s:
        facts["ready_time_s"] = min(job.ready_time_s, max(start_s, job.submit_time_s))
    # Clocks that disagree must not let a job start before its submission.
    return JobEvent(max(start_s, job.submit_time_s), JobEventKind.STARTED, job.job_id, facts)


def _changed(before: LiveJob, job: LiveJob, now_s: float) -> list[JobEvent]:
    if before.start_time_s == job.start_time_s:
        return []
    if before.waiting:
        return [_started(job)]
    again = JobEvent(now_s, JobEventKind.REQUEUED, job.job_id, job.facts())
    if job.waiting:
        return [again]
    started = _started(job)
    return [JobEvent(min(now_s, started.at_s), JobEventKind.REQUEUED, job.job_id, job.facts()), started]
