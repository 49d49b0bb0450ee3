"""What all operators share: errors that Airflow understands, progress in the task's log, settings."""

from typing import Any

from airflow.sdk import BaseOperator

from cluster_logs.progress import Progress, lines
from lucid_airflow.errors import as_airflow_errors


class LucidOperator(BaseOperator):
    """An operator that does its work in `run`; a LucidError fails the task without another try."""

    def execute(self, context: Any) -> Any:
        """Run with our errors translated."""
        with as_airflow_errors():
            return self.run(context)

    def run(self, context: Any) -> Any:
        """Do the work; heavy imports belong in here."""
        raise NotImplementedError(f"{type(self).__name__} must say what it does in run().")

    def log_progress(self) -> Progress:
        """Return a progress callback that writes a line to the task's log now and then."""
        return lines(lambda line: self.log.info("%s", line))
