"""The page of a cluster: from its card, what it says, and its removal."""

from collections.abc import Callable
from typing import Any

from tests.browser.driver import expect
from tests.browser.filling import CLUSTER, LIVE


def test_the_card_leads_to_the_page_and_quarantine_shows_rows(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid")
    page.wait_for_load_state("networkidle")  # what comes later moves the card, and a click would miss it
    page.get_by_role("region", name=CLUSTER).get_by_role("link", name=CLUSTER, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Cluster {CLUSTER}")
    expect(page.get_by_role("img", name="Jobs a day")).to_be_visible()
    quarantine = page.get_by_role("region", name="Quarantine")
    expect(quarantine).to_contain_text("MELTED")
    expect(quarantine).to_contain_text("gpu_num = many")
    expect(page.get_by_role("region", name="Ready to publish?")).to_contain_text(f"Release {LIVE} is live")
    expect(page.get_by_role("region", name="Ingests")).to_contain_text("helios")
    live = page.get_by_role("region", name="What was live")
    expect(live).to_contain_text("it measures less")
    expect(live).to_contain_text("ann")
    expect(live).not_to_contain_text("missing")


def test_a_removal_wants_the_name_and_a_confirmation(visit: Callable[..., Any]) -> None:
    page = visit(f"/plugin/lucid/clusters/{CLUSTER}")
    removal = page.get_by_role("region", name="Remove it")
    expect(removal).to_contain_text("rows of jobs")
    button = removal.get_by_role("button", name=f"Remove {CLUSTER}")
    expect(button).to_be_disabled()
    page.get_by_label(f"Type {CLUSTER} to remove it").fill(CLUSTER)
    button.click()
    expect(page.get_by_role("alertdialog")).to_contain_text("for good")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alertdialog")).to_be_hidden()


def test_who_only_looks_may_not_remove(visit: Callable[..., Any]) -> None:
    page = visit(f"/plugin/lucid/clusters/{CLUSTER}", role="viewer")
    removal = page.get_by_role("region", name="Remove it")
    expect(removal).to_contain_text("Your role may not do this")
