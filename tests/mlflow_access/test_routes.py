"""Every route of the real server with every account: what no rule covers is refused.

The routes are the server's own, so that a new MLflow with new routes is noticed: `admin_routes.txt` holds
those that the table leaves to the admin, and a route that is neither there nor in the table fails a test.
"""

import re
from collections import Counter
from pathlib import Path

import httpx
import pytest

from mlflow_access.routes import FOR_ALL, OF_CLUSTER, OPEN, READS, SEARCH_OF_CLUSTER, WRITES, Route, route_of
from tests.evidence import Evidence
from tests.mlflow_access.conftest import GuardedMlflow
from tests.mlflow_access.server_routes import raw_routes, routes

ADMIN_ROUTES = Path(__file__).with_name("admin_routes.txt")
TABLE = OPEN | FOR_ALL | READS | WRITES.keys()
REFUSED = (401, 403)


def left_to_the_admin() -> set[Route]:
    lines = ADMIN_ROUTES.read_text(encoding="utf-8").splitlines()
    return {(method, rule) for method, _, rule in (line.partition(" ") for line in lines)}


@pytest.mark.slow
def test_every_route_of_mlflow_is_known() -> None:
    """Look at each route that is new: what Lucid needs goes into the table, the rest into the file."""
    uncovered = routes() - TABLE
    assert uncovered == left_to_the_admin()


@pytest.mark.slow
def test_the_table_names_no_route_that_is_gone() -> None:
    assert (TABLE | OF_CLUSTER.keys() | {SEARCH_OF_CLUSTER}) - routes() == set()


def test_both_frameworks_name_a_route_alike() -> None:
    key = ("PUT", "/api/2.0/mlflow-artifacts/artifacts/{artifact_path}")
    assert route_of("PUT", "/ajax-api/2.0/mlflow-artifacts/artifacts/<path:artifact_path>") == key
    assert route_of("PUT", "/api/2.0/mlflow-artifacts/artifacts/{artifact_path:path}") == key
    assert route_of("HEAD", "/version") == ("GET", "/version")


def ask(client: httpx.Client, method: str, rule: str) -> int:
    """The status of a request by a rule, its variables filled in, with nothing else in it."""
    path = re.sub(r"<[^>]+>|\{[^}]+\}", "1", rule)
    body = {"json": {}} if method in ("POST", "PUT", "PATCH", "DELETE") else {}
    return client.request(method, path, **body).status_code  # type: ignore[arg-type]


def may_pass(account: str | None, route: Route) -> bool:
    """Whether the table lets an account ask at all; what a write would change decides further."""
    if route in OPEN:
        return True
    if account is None:
        return False
    if account == "schedule":
        return route in FOR_ALL | OF_CLUSTER.keys() | {SEARCH_OF_CLUSTER}
    return route in TABLE


ACCOUNTS = (None, "schedule", "pages", "train", "judge", "publish", "upkeep")


@pytest.mark.thorough("every route of the server with every account: some thousand requests")
@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.evidence(table="security", rows=("every route of MLflow, with every account",))
def test_what_is_not_in_the_table_is_refused(
    guarded_mlflow: GuardedMlflow, account: str | None, evidence: Evidence
) -> None:
    client, seen = guarded_mlflow.client(account), Counter[str]()
    for method, rule in raw_routes():
        route = route_of(method, rule)
        status = ask(client, method, rule)
        passes = may_pass(account, route)
        if not passes:
            assert status == (401 if account is None else 403), (method, rule, status)
        elif route not in WRITES and account != "schedule":
            assert status not in REFUSED, (method, rule, status)
        seen["refused" if status in REFUSED else "let through"] += 1
        for other in ("HEAD", "OPTIONS", "TRACE", "PROPFIND"):
            if not passes:
                got = ask(client, other, rule)
                may = any(
                    may_pass(account, route_of(each, rule))
                    for each in ("GET", "POST", "PUT", "PATCH", "DELETE")
                )
                assert may or got in (401, 403, 404, 405), (other, rule, got)
    assert seen["refused"] > 250
    evidence(
        "security",
        "every route of MLflow, with every account",
        f"{account or 'without a login'}: {seen['refused']} of {sum(seen.values())} refused.",
    )
