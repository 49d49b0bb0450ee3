"""The table of rights in docs/pages.md is what Airflow's simple auth manager lets its roles do."""

import re
from typing import Any

import pytest

from lucid_airflow.pages.answers import REMOVE, may_answer, may_start
from lucid_airflow.pages.overview_api import ACTIONS
from tests.airflow_home import REPOSITORY

ROLES = ("viewer", "user", "op", "admin")
_ROW = re.compile(r"^\| (?P<doing>[^|]+) \| (?P<permission>[^|]+) \|" + r" (yes|no) \|" * len(ROLES) + "$")


def table() -> dict[str, dict[str, bool]]:
    """By permission: which role has it."""
    rows = filter(None, map(_ROW.match, (REPOSITORY / "docs" / "pages.md").read_text().splitlines()))
    return {
        row["permission"]: dict(zip(ROLES, (word == "yes" for word in row.groups()[2:]), strict=True))
        for row in rows
    }


@pytest.fixture
def as_role(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Somebody of a role, with Airflow's own manager."""
    from airflow.api_fastapi import app
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    manager = SimpleAuthManager()
    monkeypatch.setattr(app, "get_auth_manager", lambda: manager)
    return lambda role: SimpleAuthManagerUser(username=role, role=role.upper())


@pytest.mark.parametrize("role", ROLES)
def test_roles_may_do_what_the_page_on_rights_says(as_role: Any, role: str) -> None:
    user = as_role(role)
    dag_ids = (*ACTIONS.values(), REMOVE)
    may = {f"start runs of `{dag_id}`": may_start(user, dag_id) for dag_id in dag_ids}
    may["answer required actions of `publish_release`"] = may_answer(user, ACTIONS["publish"])
    may["a login"] = True  # every route of ours that only reads asks for one, and no more
    assert {permission: roles[role] for permission, roles in table().items()} == may
