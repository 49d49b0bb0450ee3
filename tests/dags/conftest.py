"""The DAGs as Airflow sees them."""

from typing import Any

import pytest

from tests.airflow_home import REPOSITORY


@pytest.fixture(scope="session")
def dag_bag() -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(REPOSITORY / "dags")


@pytest.fixture(scope="session")
def metadata_database() -> None:
    """Airflow's database, for tests that run tasks."""
    from airflow.utils.db import initdb

    initdb()
