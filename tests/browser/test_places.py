"""What people see of an installation in a browser."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.browser.filling import CLUSTER, LIVE, REFUSED


def test_clusters_at_a_glance_say_what_is_live_and_who_decided_it(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid")
    card = page.get_by_role("region", name=CLUSTER)
    expect(card).to_contain_text(f"Release {LIVE}")
    expect(card).to_contain_text("ben")


def test_a_refused_release_says_which_constraint_blocks(visit: Callable[..., Any]) -> None:
    page = visit(f"/plugin/lucid/releases/{CLUSTER}/{REFUSED}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Release {REFUSED} of {CLUSTER}")
    expect(page.get_by_text("Refused: mean JCT").first).to_be_visible()
