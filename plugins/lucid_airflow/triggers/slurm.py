"""Wait for a Slurm job's end in the triggerer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from foundation.errors import LucidError, NotFoundError, ServiceUnavailableError
from live_scheduler.slurm.commands import JobStatus, cancel, job_status


class SlurmJobTrigger(BaseTrigger):
    """Ask for a job's state until it has ended; a silent controller is asked again, for as long as it takes.

    All that it knows is in its arguments, so any triggerer can go on with it. Its event is `{"job_id",
    "resubmissions", "status", "error"}`: a JobStatus as a dict, or None and why; a job that Slurm has
    forgotten has neither. `resubmissions` travels with it for the operator.

    Killing the task (clear, mark as failed or done) cancels the job only with `cancel_on_kill`; a triggerer's
    restart never does.
    """

    def __init__(
        self,
        *,
        job_id: int,
        job_name: str,
        poll_s: float,
        resubmissions: int = 0,
        cancel_on_kill: bool = False,
    ) -> None:
        super().__init__()
        self.job_id = job_id
        self.job_name = job_name
        self.poll_s = poll_s
        self.resubmissions = resubmissions
        self.cancel_on_kill = cancel_on_kill

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another triggerer needs to go on."""
        return "lucid_airflow.triggers.slurm.SlurmJobTrigger", {
            "job_id": self.job_id,
            "job_name": self.job_name,
            "poll_s": self.poll_s,
            "resubmissions": self.resubmissions,
            "cancel_on_kill": self.cancel_on_kill,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, when the job has ended."""
        logged = ""
        while True:
            try:
                status = await asyncio.to_thread(job_status, self.job_id)
            except ServiceUnavailableError as error:
                sentence = f"{error} Asking again every {self.poll_s:g} s."
            except NotFoundError:
                yield self._event()
                return
            except LucidError as error:
                yield self._event(error=f"{type(error).__name__}: {error}")
                return
            else:
                if status.name != self.job_name:
                    self.log.warning("Job %s is another one now: %s", self.job_id, status.name)
                    yield self._event()
                    return
                if status.phase.ended:
                    yield self._event(status)
                    return
                sentence = status.describe()
            if sentence != logged:
                self.log.info("%s", sentence)
                logged = sentence
            await asyncio.sleep(self.poll_s)

    async def on_kill(self) -> None:
        """Cancel the job when a person killed the task, if the operator was told to."""
        if not self.cancel_on_kill:
            self.log.info("The task was killed; job %s goes on.", self.job_id)
            return
        try:
            await asyncio.to_thread(cancel, self.job_id)
            self.log.info("Job %s is cancelled with its task.", self.job_id)
        except LucidError as error:
            self.log.warning("Job %s could not be cancelled: %s", self.job_id, error)

    def _event(self, status: JobStatus | None = None, error: str | None = None) -> TriggerEvent:
        return TriggerEvent(
            {
                "job_id": self.job_id,
                "resubmissions": self.resubmissions,
                "status": vars(status) if status else None,
                "error": error,
            }
        )
