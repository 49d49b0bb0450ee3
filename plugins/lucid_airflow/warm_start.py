"""An Airflow command that has imported what tasks import: `python -m lucid_airflow.warm_start scheduler`.

With the LocalExecutor every task is a fork of the scheduler: what that has imported no task imports
again, which saves seconds of each, and its memory is shared.
"""

import logging
import sys
from importlib import import_module

# What most tasks use, the dearest first. None starts a thread of Python's or computes when imported, so that
# forking afterwards is as safe as before.
PRELOADED = (
    "great_expectations",
    "mlflow",
    "sklearn.ensemble",
    "interpret.glassbox",
    "pandas",
    "matplotlib.figure",
    "pipeline.ingest.ingestion",
    "pipeline.training.windows",
    "pipeline.validation.release_validation",
)


def preload() -> None:
    """Import them. A package that cannot be imported is the matter of the task that needs it."""
    for name in PRELOADED:
        try:
            import_module(name)
        except Exception:
            logging.getLogger(__name__).warning("Not imported ahead: %s", name, exc_info=True)


if __name__ == "__main__":
    # Here alone: a library may start a process below a task that imports its parent's main module again, and
    # Airflow does not let itself be imported there.
    from airflow.__main__ import main as airflow

    preload()
    sys.argv[0] = "airflow"
    airflow()
