"""Airflow's metadata database, in this process's own home (`airflow_home.py`)."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.airflow_home import DATABASE
from tests.built_once import built_once


@pytest.fixture(scope="session")
def metadata_database(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Airflow's database, for tests that run tasks."""
    _copy(built_once(tmp_path_factory, "airflow-database", _make_database) / DATABASE.name, DATABASE)
    from airflow.models import import_all_models

    import_all_models()


def _make_database(folder: Path) -> None:
    from airflow.utils.db import initdb

    initdb()
    _copy(DATABASE, folder / DATABASE.name)


def _copy(database: Path, to: Path) -> None:
    """Copy with what lies in the log beside it; a process may have both of them open."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
