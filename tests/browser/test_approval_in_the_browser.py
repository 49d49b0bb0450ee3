"""An operator approves a release, sees it live, and asks for the one before: without a shell."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.filling import CLUSTER, LIVE, WAITING

pytestmark = pytest.mark.slow  # a run goes on behind the page


def test_an_approval_goes_live_and_a_rollback_says_from_what_to_what(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid", role="op")
    card = page.get_by_role("region", name=CLUSTER)
    expect(card).to_contain_text("Published by ben")
    approvals = page.get_by_role("region", name="One approval waits")
    expect(approvals).to_contain_text(f"Publish release {WAITING} of cluster {CLUSTER}?")
    approvals.get_by_role("button", name="Approve").click()
    asked = page.get_by_role("alertdialog")
    expect(asked).to_contain_text(f"Release {WAITING} of {CLUSTER} goes live in place of release {LIVE}")
    asked.get_by_role("textbox").fill("it is <b>better</b>")
    asked.get_by_role("button", name="Approve").click()

    expect(card.get_by_text("it is <b>better</b>")).to_be_visible(
        timeout=120_000
    )  # kept up to date by itself
    expect(card).to_contain_text("Published by op")
    card.get_by_role("button", name=f"Roll back to release {LIVE}").click()
    asked = page.get_by_role("alertdialog")
    expect(asked).to_contain_text(f"Release {WAITING} of {CLUSTER} is live")
    confirm = asked.get_by_role("button", name="Roll back")
    expect(confirm).to_be_disabled()  # without a reason
    asked.get_by_role("textbox").fill("it waits longer")
    confirm.click()
    expect(asked).to_be_hidden()
    runs = page.request.get("/api/v2/dags/rollback_release/dagRuns").json()["dag_runs"]
    assert [run["conf"]["reason"] for run in runs] == ["it waits longer"]
    assert runs[0]["conf"]["cluster"] == CLUSTER
    assert runs[0]["triggering_user_name"] == "op"
