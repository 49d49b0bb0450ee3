"""What people see of releases and do with them in a browser, and what the server refuses them."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.browser.driver import expect
from tests.browser.filling import CLUSTER, LIVE, REFUSED, WAITING
from tests.browser.installation import Installation


def test_a_release_that_waits_is_approved_on_its_page_or_on_that_of_all_clusters(
    visit: Callable[..., Any],
) -> None:
    for place in ("/plugin/lucid", f"/plugin/lucid/releases/{CLUSTER}/{WAITING}"):
        page = visit(place, role="user")
        expect(page.get_by_text(f"Publish release {WAITING} of cluster {CLUSTER}?")).to_be_visible()
        page.get_by_role("button", name="Approve").click()
        dialog = page.get_by_role("alertdialog")
        expect(dialog).to_contain_text(
            f"Release {WAITING} of {CLUSTER} goes live in place of release {LIVE}."
        )
        expect(dialog.get_by_label("Why?")).to_be_editable()
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_be_hidden()


def test_a_rollback_says_from_what_to_what_and_asks_why(
    visit: Callable[..., Any], installation: Installation
) -> None:
    page = visit("/plugin/lucid", role="user")
    page.get_by_role("button", name=f"Roll back to release {LIVE - 1}").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text(f"Release {LIVE} of {CLUSTER} is live.")
    act = dialog.get_by_role("button", name=f"Roll back to release {LIVE - 1}")
    expect(act).to_be_disabled()
    dialog.get_by_label("Why?").fill("slow at noon")
    act.click()
    expect(page.get_by_role("link", name="The run that was started")).to_be_visible()
    runs = airflow(installation, "user", "GET", "dags/rollback_release/dagRuns").json()["dag_runs"]
    assert [run["conf"] for run in runs] == [
        {"cluster": CLUSTER, "from_version": LIVE, "reason": "slow at noon"}
    ]
    page.close()  # it follows the run
    for run in runs:  # as it was, for other tests: nothing is scheduled here
        airflow(installation, "user", "DELETE", f"dags/rollback_release/dagRuns/{run['dag_run_id']}")


@pytest.mark.parametrize("dag_id", ["publish_release", "rollback_release", "retrain_models", "ingest_logs"])
def test_what_pages_do_not_offer_the_server_refuses(installation: Installation, dag_id: str) -> None:
    start = {"logical_date": None, "conf": {}}
    assert airflow(installation, "viewer", "POST", f"dags/{dag_id}/dagRuns", start).status_code == 403


def test_the_server_refuses_an_approval_of_who_may_only_look(installation: Installation) -> None:
    path = "dags/publish_release/dagRuns"
    (asked,) = airflow(installation, "viewer", "GET", f"{path}/~/hitlDetails?response_received=false").json()[
        "hitl_details"
    ]
    run_id = asked["task_instance"]["dag_run_id"]
    answer = airflow(
        installation,
        "viewer",
        "PATCH",
        f"{path}/{run_id}/taskInstances/request_approval/-1/hitlDetails",
        {"chosen_options": ["Approve"], "params_input": {"reason": "because"}},
    )
    assert answer.status_code == 403


def test_limits_and_models_of_a_release_stand_with_what_they_are_held_against(
    visit: Callable[..., Any],
) -> None:
    page = visit(f"/plugin/lucid/releases/{CLUSTER}/{REFUSED}", role="viewer", scheme="dark")
    limits = page.get_by_role("region", name="Constraints, blocking ones first").get_by_role("row")
    expect(limits.nth(1)).to_contain_text("at most")
    models = page.get_by_role("region", name="Models")
    expect(models).to_contain_text("run times are typically off by a factor of")
    expect(page.get_by_role("region", name=f"What differs from release {LIVE}")).to_contain_text(
        "profiling limit (s)"
    )
    expect(page.get_by_role("button", name="Publish")).to_have_count(0)


def airflow(
    installation: Installation, role: str, method: str, path: str, body: dict[str, Any] | None = None
) -> httpx.Response:
    """Call Airflow's API as a person of this role."""
    return httpx.request(
        method,
        f"{installation.url}/api/v2/{path}",
        json=body,
        headers={"Authorization": f"Bearer {installation.token(role)}"},
        timeout=300,
        trust_env=False,
    )
