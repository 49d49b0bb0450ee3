"""Forms as people meet them, and what they see of runs."""

from collections.abc import Callable

import pytest

from lucid_airflow import form_fields
from tests.browser.conftest import Visits
from tests.browser.driver import Page, expect
from tests.browser.filling import CLUSTER, REFUSED


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_form_opens_short_and_refuses_in_the_words_below_its_field(
    visit: Callable[..., Page], all_visits: Visits, scheme: str
) -> None:
    page = visit("/dags/evaluate_policies", role="op", scheme=scheme)
    page.get_by_test_id("trigger-dag-button").click()
    form = page.get_by_test_id("config-form")
    expect(form.get_by_role("button", name="What else is tried")).to_have_attribute("aria-expanded", "false")
    expect(form.get_by_text("qssf")).to_be_visible()  # picked, among those to pick
    page.locator("#element_cluster").fill("../other")
    page.get_by_test_id("trigger-dag-submit").click()
    expect(page.get_by_test_id("error-alert")).to_contain_text(form_fields.CLUSTER.words)
    expect(form.get_by_text(form_fields.CLUSTER.sentence).first).to_be_visible()
    refused = [each for each in all_visits.problems if "400" in each]
    assert len(refused) == 1
    all_visits.problems.remove(refused[0])


def test_a_dags_results_lead_to_a_refusal_that_looks_refused(visit: Callable[..., Page]) -> None:
    page = visit("/dags/validate_release/plugin/results", role="viewer")
    row = page.get_by_role("row").filter(has_text=f"Release {REFUSED} of {CLUSTER} is refused")
    row.get_by_role("link").click()
    expect(page.get_by_role("alert").or_(page.get_by_text("Refused", exact=True)).first).to_be_visible()
    link = page.get_by_role("link", name=f"All about release {REFUSED} of {CLUSTER}")
    expect(link).to_have_attribute("href", f"/airflow/plugin/lucid/releases/{CLUSTER}/{REFUSED}")
