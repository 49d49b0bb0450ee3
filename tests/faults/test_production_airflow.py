"""A worker, a task, the database and the broker die while a log is read: its run ends well all the same."""

import signal
import time
from collections.abc import Iterator

import pytest

from cluster_logs.lake import Lake
from local_stack.airflow_client import AirflowClient
from tests.evidence import Evidence
from tests.faults.production_airflow import DAG, ProductionAirflow, kill_with_children, production_airflow
from tests.waiting import wait_until

pytestmark = [pytest.mark.thorough("PostgreSQL, Redis and Celery"), pytest.mark.timeout(1_200)]
AWAY_S = 5.0  # longer than a pass of the scheduler or of a worker


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProductionAirflow]:
    with production_airflow(tmp_path_factory.mktemp("production")) as running:
        yield running


@pytest.fixture(scope="module")
def airflow(production: ProductionAirflow) -> Iterator[AirflowClient]:
    with production.client() as client:
        yield client


def ended_well(airflow: AirflowClient, production: ProductionAirflow, run_id: str, cluster: str) -> int:
    """Wait for the run, whose account is that of the lake; the tries that its task took."""
    wait_until(lambda: airflow.run(DAG, run_id)["state"] in ("success", "failed"), "the run ends")
    (task,) = airflow.tasks(DAG, run_id)
    assert task["state"] == "success", task
    account = airflow.xcom(DAG, run_id, "ingest_jobs")
    assert account["rows_in"] == account["rows_kept"] + account["rows_quarantined"] + account["rows_skipped"]
    assert len(Lake(str(production.lake)).read_jobs(cluster)) == account["rows_kept"] > 0
    return int(task["try_number"])


@pytest.mark.evidence(table="faults", rows=("40",))
def test_a_worker_is_killed(
    production: ProductionAirflow, airflow: AirflowClient, evidence: Evidence
) -> None:
    run_id = airflow.trigger(DAG, {"cluster": "worker"})
    task = production.running_task(airflow, run_id)
    kill_with_children(production.worker_of(task.pid))
    assert ended_well(airflow, production, run_id, "worker") > 1
    evidence(
        "faults", "40", "The task is tried again on a worker that lives; the run ends well, no row is lost."
    )


@pytest.mark.evidence(table="faults", rows=("5",))
def test_a_task_is_killed(production: ProductionAirflow, airflow: AirflowClient, evidence: Evidence) -> None:
    run_id = airflow.trigger(DAG, {"cluster": "task"})
    kill_with_children(production.running_task(airflow, run_id))
    assert ended_well(airflow, production, run_id, "task") > 1
    evidence("faults", "5", "It is tried again; the run ends well, no row is lost.")


@pytest.mark.evidence(table="faults", rows=("41",))
def test_the_database_crashes_and_comes_back(
    production: ProductionAirflow, airflow: AirflowClient, evidence: Evidence
) -> None:
    run_id = airflow.trigger(DAG, {"cluster": "database"})
    production.running_task(airflow, run_id)
    production.postgres.stop(signal.SIGQUIT)
    time.sleep(AWAY_S)
    production.postgres.start()
    ended_well(airflow, production, run_id, "database")
    evidence("faults", "41", "The run that was under way ends well; no row is lost.")


@pytest.mark.evidence(table="faults", rows=("42",))
def test_the_broker_goes_and_comes_back_empty(
    production: ProductionAirflow, airflow: AirflowClient, evidence: Evidence
) -> None:
    running = airflow.trigger(DAG, {"cluster": "running"})
    production.running_task(airflow, running)
    production.redis.stop(signal.SIGKILL)
    begun = airflow.trigger(DAG, {"cluster": "begun"})
    time.sleep(AWAY_S)
    production.redis.start()
    ended_well(airflow, production, running, "running")
    tries = ended_well(airflow, production, begun, "begun")
    evidence(
        "faults",
        "42",
        f"What runs goes on; what was begun meanwhile ran when it was back, on try {tries} of 3; "
        "no row is lost.",
    )
