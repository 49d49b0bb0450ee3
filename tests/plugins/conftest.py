"""Airflow's home must be set before the plugin is imported."""

import pytest

from tests import airflow_home

assert airflow_home.HOME.is_dir()


@pytest.fixture(scope="session")
def metadata_database() -> None:
    """Airflow's database, for tests that run tasks."""
    from airflow.utils.db import initdb

    initdb()
