"""An operator approves a release and sees it live. It stays so: this is the installation's last test."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.filling import CLUSTER, LIVE, WAITING

pytestmark = pytest.mark.slow  # a run goes on behind the page


def test_what_is_approved_goes_live_and_the_page_says_by_whom_and_why(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid", role="op")
    card = page.get_by_role("region", name=CLUSTER)
    expect(card).to_contain_text("Published by ben")
    approvals = page.get_by_role("region", name="One approval waits")
    expect(approvals).to_contain_text(f"Publish release {WAITING} of cluster {CLUSTER}?")
    approvals.get_by_role("button", name="Approve").click()
    asked = page.get_by_role("alertdialog")
    asked.get_by_role("textbox").fill("it is <b>better</b>")
    asked.get_by_role("button", name="Approve").click()

    expect(card).to_contain_text("it is <b>better</b>", timeout=120_000)
    expect(card).to_contain_text("Published by op")
    expect(page.get_by_role("region", name="No approval waits any more")).to_contain_text("success")
    expect(card.get_by_role("button", name=f"Roll back to release {LIVE}")).to_be_enabled()
