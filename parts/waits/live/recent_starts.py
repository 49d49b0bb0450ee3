"""Jobs that started lately or run: what a wait model asks of the past, kept from the daemon's events."""

from collections.abc import Mapping
from typing import Any

from live_scheduler.memory.journal import JobEvent, JobEventKind
from parts.waits.model.queue_moment import HISTORY_S


class RecentStarts:
    """A learner of the daemon (`Daemon.learners`); whoever asks holds the daemon's lock."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, Any]] = {}

    def observe(self, event: JobEvent) -> None:
        """Take in what happened to a job; what is known already changes nothing."""
        if event.kind is JobEventKind.STARTED:
            self._jobs[event.job_id] = queue_facts(event.facts) | {"start_s": event.at_s, "end_s": None}
        elif event.kind is JobEventKind.ENDED and event.duration_s is not None:
            job = self._jobs.get(event.job_id) or queue_facts(event.facts)
            times = {"start_s": event.at_s - event.duration_s, "end_s": event.at_s}
            self._jobs[event.job_id] = job | times  # whoever was given the other goes on reading it
        elif event.kind in (JobEventKind.REQUEUED, JobEventKind.WITHDRAWN):
            self._jobs.pop(event.job_id, None)

    def at(self, now_s: float) -> list[dict[str, Any]]:
        """The jobs that started by `now_s` (Unix s) and tell of waits then, as `queue_of_jobs` takes them."""
        since_s = now_s - HISTORY_S
        self._jobs = {
            job_id: job
            for job_id, job in self._jobs.items()
            if job["start_s"] > since_s or job["end_s"] is None or job["end_s"] > now_s
        }
        return [
            job if job["end_s"] is None or job["end_s"] <= now_s else {**job, "end_s": None}
            for job in self._jobs.values()
            if job["start_s"] <= now_s
        ]


def queue_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A live job's facts (`LiveJob.facts`, and `ready_time_s` where that is not its submission) under the
    names of a queue's log, as a job table has them.
    """
    return {
        "submit_s": facts.get("ready_time_s", facts["submit_time_s"]),
        "partition": facts.get("virtual_cluster"),
        "account": facts.get("account") or facts.get("user"),
        "cpus": facts.get("cpus"),
        "gpus": facts.get("gpus"),
        "limit_s": facts.get("time_limit_s"),
    }
