"""Measure a batch here, or as a job of the cluster's own scheduler while the task waits in the triggerer."""

from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from foundation.errors import UnknownNameError
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.operators.step import StepOperator
from lucid_airflow.slurm_settings import slurm_site

HERE, SLURM = "here", "slurm"


class SubmitMeasurementsOperator(StepOperator):
    """Measure one batch where `where` says: `slurm` submits it to the profiling partition, `here` calls the
    step (`pipeline.steps.profiling:measure_batch`); `arguments` are the step's.

    On Slurm the task is deferred until the job has ended; neither a worker's nor a triggerer's restart loses
    anything, and a task that is tried again goes on with the job that lives. A job that ran into its time
    limit, or lost its node, is submitted again up to `resubmissions` times and goes on where its table ends.
    A killed task leaves its job alone, unless `cancel_on_kill`.
    """

    template_fields = (*StepOperator.template_fields, "where", "resubmissions", "cancel_on_kill")

    def __init__(
        self, *, where: str = SLURM, resubmissions: int = 5, cancel_on_kill: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.where = where
        self.resubmissions = resubmissions
        self.cancel_on_kill = cancel_on_kill

    def run(self, context: Any) -> Any:
        """Measure here, or submit; returns what became of the batch."""
        if self.where == HERE:
            return super().run(context)
        if self.where != SLURM:
            raise UnknownNameError("place to measure", str(self.where), [HERE, SLURM])
        raise self._submitted(context, resubmitted=0)

    def resume(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Go on after the job's end: return what it measured, submit it again, or say how it ended."""
        with as_airflow_errors(context):
            return self._after(context, event)

    def _submitted(self, context: Any, *, resubmitted: int) -> TaskDeferred:
        from live_scheduler.slurm.commands import submit_once
        from lucid_airflow.triggers.slurm import SlurmJobTrigger

        site, job = slurm_site(), self._job(context)
        Path(job.log_path).parent.mkdir(parents=True, exist_ok=True)
        job_id = submit_once(job)
        self.log.info("Job %s (%s) in partition %s", job_id, job.name, job.partition)
        self.log.info("Its log: %s", job.log_of(job_id))
        trigger = SlurmJobTrigger(
            job_id=job_id,
            job_name=job.name,
            poll_s=site.poll_s,
            resubmissions=resubmitted,
            cancel_on_kill=bool(self.cancel_on_kill),
        )
        return TaskDeferred(trigger=trigger, method_name="resume")

    def _after(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        from live_scheduler.slurm.commands import JobStatus
        from live_scheduler.slurm.job_states import Phase
        from live_scheduler.slurm.measurement_job import goes_on_when_repeated, log_tail, measured_batch

        if event["error"]:
            raise AirflowFailException(event["error"])
        job_id, resubmitted = event["job_id"], event["resubmissions"]
        status = JobStatus(**event["status"]) if event["status"] else None
        ended = status.describe() if status else f"job {job_id} is no longer known to Slurm"
        self.log.info("%s", ended)
        if status and status.phase is Phase.SUCCEEDED:
            return {
                **measured_batch(self.arguments["plan_uri"], self.arguments["table_uri"]),
                "job_id": job_id,
            }
        message = f"{ended}\n{log_tail(self._job(context).log_of(job_id))}"
        if status is None or goes_on_when_repeated(status):
            if resubmitted < int(self.resubmissions):
                self.log.warning("Submitting it again; it goes on after its last measurement.")
                raise self._submitted(context, resubmitted=resubmitted + 1)
            raise AirflowException(f"Submitted again {resubmitted} times, and still: {message}")
        # A person's word, and a memory limit, are not to be tried again; what the job itself did may be.
        if status.phase is Phase.CANCELLED or status.state == "OUT_OF_MEMORY":
            raise AirflowFailException(message)
        raise AirflowException(message)

    def _job(self, context: Any) -> Any:
        from live_scheduler.slurm.measurement_job import measurement_job

        task = context["ti"]
        return measurement_job(
            slurm_site(),
            identity=f"{task.dag_id} {task.run_id} {task.task_id} {task.map_index}",
            plan_uri=self.arguments["plan_uri"],
            table_uri=self.arguments["table_uri"],
            device=self.arguments["device"],
            budget_s=self.arguments.get("budget_s"),
        )
