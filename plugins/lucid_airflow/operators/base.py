"""What all operators share: errors that Airflow understands, progress in the task's log, settings."""

import time
from typing import Any

from airflow.sdk import BaseOperator

from cluster_logs.progress import Progress
from lucid_airflow.errors import as_airflow_errors

SECONDS_BETWEEN_LINES = 10.0


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
        """Return a progress callback that writes to the task's log every few seconds."""
        last_s = time.monotonic()

        def report(done: int, total: int | None, what: str) -> None:
            nonlocal last_s
            if time.monotonic() - last_s >= SECONDS_BETWEEN_LINES:
                last_s = time.monotonic()
                self.log.info("%s: %s of %s", what, f"{done:,}", "?" if total is None else f"{total:,}")

        return report
