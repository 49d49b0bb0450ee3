"""An operator approves a release and sees it live. It stays so: these are the installation's last tests."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.driver import expect
from tests.browser.filling import CLUSTER, LIVE, REFUSED, WAITING
from tests.browser.installation import Installation

pytestmark = pytest.mark.slow  # a run goes on behind the page


def test_a_request_is_expired_while_another_release_is_live(
    visit: Callable[..., Any], installation: Installation
) -> None:
    from lucid_models.releases.lifecycle import publish_release, rollback_release

    small: dict[str, Any] = {
        "tracking_uri": installation.environment["LUCID_TRACKING_URI"],
        "cluster": CLUSTER,
    }
    rollback_release(**small, by="ann", because="for a test")
    page = visit("/plugin/lucid", role="op")
    approvals = page.get_by_role("region", name="One approval waits")
    expect(approvals).to_contain_text(f"It has expired: it was asked when release {LIVE} was live")
    expect(approvals.get_by_role("button", name="Approve")).to_be_disabled()
    expect(approvals.get_by_role("button", name="Reject")).to_be_enabled()
    publish_release(**small, version=LIVE, by="ben", because="it measures less")


def test_what_is_approved_goes_live_and_the_page_says_by_whom_and_why(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid", role="op")
    card = page.get_by_role("region", name=CLUSTER)
    expect(card).to_contain_text("Published by ben")
    approvals = page.get_by_role("region", name="One approval waits")
    expect(approvals).to_contain_text(f"Publish release {WAITING} of cluster {CLUSTER}?")
    approvals.get_by_role("button", name="Approve").click()
    asked = page.get_by_role("alertdialog")
    expect(asked).to_contain_text(f"Live is release {LIVE}, built")
    expect(asked).to_contain_text(f"Against release {LIVE} the gate measured")
    asked.get_by_role("textbox").fill("it is <b>better</b>")
    asked.get_by_role("button", name="Approve").click()

    expect(card).to_contain_text("it is <b>better</b>", timeout=120_000)
    expect(card).to_contain_text("Published by op")
    expect(page.get_by_role("region", name="No approval waits any more")).to_contain_text("success")
    expect(card.get_by_role("button", name=f"Roll back to release {LIVE}")).to_be_enabled()


def test_a_verdict_is_asked_for_once_and_then_is_under_way(
    visit: Callable[..., Any],
) -> None:
    address = f"/plugin/lucid/releases/{CLUSTER}/{REFUSED}"
    page = visit(address, role="op")
    page.get_by_role("button", name="Have it judged again").click()
    asked = page.get_by_role("alertdialog")
    expect(asked).to_contain_text("If the gate approves it, a person is asked before it goes live.")
    asked.get_by_role("button", name="Have it judged again").click()
    expect(page.get_by_text("The run that was started")).to_be_visible()

    page = visit(address, role="op")
    expect(page.get_by_text("A run of validate_release")).to_be_visible()  # nothing schedules it here
    expect(page.get_by_text("waits to begin.")).to_be_visible()
    expect(page.get_by_role("button", name="Train the models anew")).to_be_enabled()
    expect(page.get_by_role("button", name="Have it judged again")).to_have_count(0)
