"""The page What if: wrong input is refused while people write, a result is read without a mouse."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.driver import expect
from tests.browser.filling import CLUSTER
from tests.pipeline.what_if.what_if_results import HOSTILE, RUN_ID

RESULT = f"/plugin/lucid/what-if/{quote(RUN_ID, safe='')}"


def test_wrong_input_is_refused_with_its_rule_before_it_runs(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid/what-if", role="user")
    page.get_by_label("Cluster", exact=True).select_option(CLUSTER)
    expect(page.get_by_text("4 replays of")).to_be_visible()
    expect(page.get_by_role("button", name="Replay")).to_be_enabled()
    page.get_by_label("in all virtual clusters").fill("-1000")
    expect(page.get_by_role("alert")).to_contain_text("Take away at most")
    expect(page.get_by_role("button", name="Replay")).to_be_disabled()


def test_who_may_only_look_sees_the_form_and_that_it_may_not_be_sent(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid/what-if", role="viewer")
    expect(page.get_by_role("button", name="Replay")).to_be_disabled()
    expect(page.get_by_text("Your role may not do this.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_result_is_pictures_tables_and_why_a_job_waited(visit: Callable[..., Any], scheme: str) -> None:
    page = visit(RESULT, role="viewer", scheme=scheme)
    expect(page.get_by_text("asked by ada")).to_be_visible()
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    expect(page.get_by_role("cell", name="fifo, nodes vc0 -1").first).to_be_visible()
    page.get_by_label("Part of a job's id or of its user's name").fill(HOSTILE)
    page.get_by_role("button", name="Find").press("Enter")
    expect(page.get_by_role("cell", name=HOSTILE)).to_be_visible()
    page.get_by_role("button", name="Why did").first.press("Enter")
    expect(page.get_by_role("heading", name="variant by variant")).to_be_visible()


def test_past_what_ifs_are_compared(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid/what-if", role="viewer")
    expect(page.get_by_role("cell", name="ada")).to_be_visible()
    other = visit(f"{RESULT}/{quote(RUN_ID, safe='')}", role="viewer")
    expect(other.get_by_role("heading", name="Means, with what chance could make of them")).to_have_count(2)
