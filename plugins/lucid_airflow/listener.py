"""What Airflow calls when a run begins and when it is over."""

from typing import Any

from airflow.listeners import hookimpl

from lucid_airflow.run_results import write_cluster, write_note


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Make a note of the cluster, for those who look while it runs."""
    write_cluster(dag_run)


@hookimpl
def on_dag_run_success(dag_run: Any) -> None:
    """Make a note of what the run's tasks left behind."""
    write_note(dag_run)


@hookimpl
def on_dag_run_failed(dag_run: Any) -> None:
    """Make a note of why the run failed."""
    write_note(dag_run)
