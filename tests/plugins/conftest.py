"""Airflow's home must be set before the plugin is imported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import airflow_home
from tests.airflow_database import metadata_database as metadata_database

assert airflow_home.HOME.is_dir()


class Somebody:
    """A person who is logged in."""

    def get_name(self) -> str:
        """The name of the login."""
        return "somebody"


class SomeOfTheDags:
    """An auth manager that lets people trigger what is in its list."""

    def __init__(self, *dag_ids: str) -> None:
        self.dag_ids = dag_ids

    def is_authorized_dag(self, *, method: str, access_entity: Any, details: Any, user: Any) -> bool:
        """Whether the run may be started."""
        asked = (method, access_entity.name)
        assert asked in (("POST", "RUN"), ("PUT", "HITL_DETAIL"))
        assert user.get_name() == "somebody"
        return details.id in self.dag_ids and asked == ("POST", "RUN")


@pytest.fixture
def may_trigger(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let people trigger these DAGs, and no other."""
    from airflow.api_fastapi import app

    return lambda *dag_ids: monkeypatch.setattr(app, "get_auth_manager", lambda: SomeOfTheDags(*dag_ids))


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Our pages, for somebody who is logged in; the state folder and the lake are new."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    from lucid_airflow.pages.app import _build

    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    app = _build()
    app.dependency_overrides[get_user] = Somebody
    return TestClient(app)
