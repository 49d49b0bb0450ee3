"""The DAGs as Airflow sees them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.airflow_database import metadata_database as metadata_database
from tests.airflow_home import REPOSITORY
from tests.fixtures import ReleaseShop, fill_small_lake


@pytest.fixture(scope="session")
def parsed_dags() -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(REPOSITORY / "dags")


@pytest.fixture(scope="session")
def defaults(parsed_dags: Any) -> list[tuple[Any, Any]]:
    """The fields of all forms and of their tasks, each with its default."""
    holders = [holder for dag in parsed_dags.dags.values() for holder in (dag, *dag.tasks)]
    return [(param, param.value) for holder in holders for _, param in holder.params.items()]


@pytest.fixture
def dag_bag(parsed_dags: Any, defaults: list[tuple[Any, Any]]) -> Iterator[Any]:
    """All DAGs, with the defaults of their forms: a run in a test's own process writes its form into them."""
    yield parsed_dags
    for param, default in defaults:
        param.value = default


@pytest.fixture
def small_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> Path:
    """The lake of `fill_small_lake`, where the tasks look for it."""
    root = tmp_path / "lake"
    fill_small_lake(root)
    monkeypatch.setenv("LUCID_LAKE_URI", str(root))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    return root
