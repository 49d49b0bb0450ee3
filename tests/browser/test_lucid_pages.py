"""The pages of the product as people find them: filled and empty, in light and dark, by keyboard."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Visits
from tests.browser.driver import expect
from tests.browser.filling import CLUSTER, HOSTILE, REFUSED
from tests.browser.installation import Installation
from tests.evidence import Evidence

# Address -> what stands on the page once it has read its data, and not before (as the links of `nav` do).
PAGES = {
    "/": "All clusters",
    "/plugin/lucid": CLUSTER,
    "/plugin/lucid/ingest": "Export the accounting of a Slurm",
    f"/plugin/lucid/clusters/{CLUSTER}": "Ready to publish?",
    "/plugin/lucid/what-if": "replays of",
    f"/plugin/lucid/releases/{CLUSTER}/1": "Verdict",
    f"/plugin/lucid/releases/{CLUSTER}/{REFUSED}": "Refused: mean JCT",
}

# A colour as a browser names it -> 0 (black) to 255.
LIGHTNESS = """color => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d");
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
  return (red + green + blue) / 3;
}"""

# Whether the focus is still within an element; what has it is marked.
REACHED = """own => {
  const focused = document.activeElement;
  if (!own.contains(focused)) return false;
  focused.dataset.reached = "";
  return true;
}"""
MOST_TABS = 200

# The texts of a picture that reach beyond its sides.
CUT_OFF = """picture => {
  const frame = picture.getBoundingClientRect();
  const isOut = box => box.left < frame.left || box.right > frame.right;
  const texts = [...picture.querySelectorAll("text")];
  return texts.filter(text => isOut(text.getBoundingClientRect())).map(text => text.textContent);
}"""


def run_with(page: Any, url: str, dag_id: str, state: str) -> str:
    """The newest run of a DAG in a state, as the page's own login reads it."""
    runs = page.request.get(f"{url}/api/v2/dags/{dag_id}/dagRuns?state={state}&order_by=-run_after").json()
    return str(runs["dag_runs"][0]["dag_run_id"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_pages_say_what_is_there(visit: Callable[..., Any], path: str, scheme: str) -> None:
    page = visit(path, scheme=scheme)
    expect(page.get_by_text(PAGES[path]).first).to_be_visible()
    ink = page.get_by_text(PAGES[path]).first.evaluate("e => getComputedStyle(e).color")
    lightness = page.evaluate(LIGHTNESS, ink)
    assert (lightness > 128) == (scheme == "dark")


def test_a_refused_release_names_what_blocks_it_first(visit: Callable[..., Any]) -> None:
    page = visit(f"/plugin/lucid/releases/{CLUSTER}/{REFUSED}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Release {REFUSED} of {CLUSTER}")
    constraints = page.get_by_role("region", name="Constraints")
    expect(constraints.get_by_role("row").nth(1)).to_contain_text("blocks")
    expect(constraints).to_contain_text("naive")


@pytest.mark.evidence(table="faults", rows=("20",))
def test_what_users_wrote_stands_as_text(visit: Callable[..., Any], evidence: Evidence) -> None:
    page = visit(f"/plugin/lucid/releases/{CLUSTER}/1")
    expect(page.get_by_text(HOSTILE).first).to_be_visible()  # a virtual cluster in the picture of queuing
    assert page.locator("img[src=x]").count() == 0
    evidence("faults", "20", "A page shows them as text.")


@pytest.mark.parametrize(
    "path", ["/plugin/lucid", f"/plugin/lucid/clusters/{CLUSTER}", f"/plugin/lucid/releases/{CLUSTER}/1"]
)
def test_what_stands_in_a_picture_is_not_cut_off(visit: Callable[..., Any], path: str) -> None:
    pictures = visit(path).locator("svg[role=img]:has(text)")
    expect(pictures.first).to_be_visible()
    assert [cut for picture in pictures.all() for cut in picture.evaluate(CUT_OFF)] == []


def test_a_cluster_that_cannot_be_is_refused_in_words(visit: Callable[..., Any], visit_of: Visits) -> None:
    page = visit("/plugin/lucid/releases/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/1")
    expect(page.get_by_role("alert")).to_contain_text(f"{HOSTILE!r} cannot name a cluster")
    assert page.locator("img[src=x]").count() == 0
    assert all("status of 422" in problem for problem in visit_of.problems)
    visit_of.problems.clear()


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/"])
def test_everything_is_reached_by_tab_and_has_a_name(visit: Callable[..., Any], path: str) -> None:
    page = visit(path)
    expect(page.get_by_text(PAGES[path]).first).to_be_visible()
    own = page.locator("nav[aria-label=Lucid]").locator("xpath=..")
    for role in ("link", "button", "textbox", "checkbox", "combobox", "img"):
        for element in own.get_by_role(role).all():
            assert element.aria_snapshot().removeprefix(f"- {role}").strip(" :\n"), element.evaluate(
                "e => e.outerHTML"
            )
    enabled = own.locator("a[href], summary, :is(button, input, select, textarea):enabled")
    enabled.first.focus()
    for _ in range(MOST_TABS):
        if not own.evaluate(REACHED):
            break
        page.keyboard.press("Tab")
    # What is folded away is reached once it is opened.
    seen = [one for one in enabled.all() if one.is_visible()]
    assert seen
    assert [
        one.evaluate("e => e.outerHTML") for one in seen if one.get_attribute("data-reached") is None
    ] == []


def test_a_run_that_failed_tells_why_and_leads_to_its_form(
    visit: Callable[..., Any], installation: Installation
) -> None:
    page = visit("/dags")
    run_id = run_with(page, installation.url, "ingest_logs", "failed")
    page = visit(f"/dags/ingest_logs/runs/{run_id}/plugin/result")
    told = page.get_by_role("region", name="ingest_jobs")
    expect(told.get_by_role("alert")).to_contain_text("sacct")
    expect(told.get_by_role("link").first).to_be_visible()


def test_a_run_and_a_task_show_their_result(visit: Callable[..., Any], installation: Installation) -> None:
    page = visit("/dags")
    run = f"/dags/validate_release/runs/{run_with(page, installation.url, 'validate_release', 'success')}"
    for place in (run, f"{run}/tasks/validate_release"):
        page = visit(f"{place}/plugin/result")
        told = page.get_by_role("region", name="validate_release")
        expect(told).to_contain_text("approved")
        expect(told.get_by_role("link", name="All about release")).to_be_visible()


def test_people_who_only_look_see_everything_and_can_start_nothing(visit: Callable[..., Any]) -> None:
    page = visit("/plugin/lucid", role="viewer")
    card = page.get_by_role("region", name=CLUSTER)
    expect(card).to_contain_text("Release")
    assert [one.inner_text() for one in card.get_by_role("button").all() if one.is_enabled()] == []


@pytest.mark.slow
def test_an_empty_installation_says_what_is_missing(
    empty_installation: Installation, visit_of: Visits
) -> None:
    for scheme in ("light", "dark"):
        page = visit_of(empty_installation, "/plugin/lucid", scheme=scheme)
        expect(page.get_by_text("There is no cluster yet").first).to_be_visible()
    page = visit_of(empty_installation, "/")
    expect(page.get_by_role("region", name="Lucid")).to_contain_text("There is no cluster yet")
