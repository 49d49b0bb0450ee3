"""Who gets in: a login first, and nothing by the hand of another site."""

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.browser.conftest import Visits
from tests.browser.driver import expect
from tests.browser.installation import Installation


def test_a_page_without_a_login_leads_to_it_and_back(
    installation: Installation, visit_of: Visits, visit: Callable[..., Any]
) -> None:
    page = visit("/plugin/lucid", role=None)
    page.wait_for_url(re.compile("/auth/login"))
    page.get_by_label("Username").fill("viewer")
    page.get_by_label("Password").fill("viewer")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/plugin/lucid")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert all("status of 401" in problem for problem in visit_of.problems)
    visit_of.problems.clear()


HOSTILE_PAGE = """<!doctype html><title>hostile</title><form id="f" method="post" enctype="{enctype}"
action="{target}"><input name='{{"logical_date":null,"conf":{{}},"note":"' value='"}}'></form>"""


class HostilePages(BaseHTTPRequestHandler):
    """A page of another origin whose form posts to what its query names."""

    def do_GET(self) -> None:
        enctype, _, target = self.path.removeprefix("/?").partition("&")
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(HOSTILE_PAGE.format(enctype=enctype, target=target).encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def hostile_port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), HostilePages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


ENCTYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
TRIGGER, UPLOAD = "/api/v2/dags/monitor_live/dagRuns", "/lucid/api/ingest/uploads?name=jobs.csv"


@pytest.mark.parametrize("target", [TRIGGER, UPLOAD])
@pytest.mark.parametrize(
    "enctype", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])  # another origin of one site, and another site
def test_a_form_of_another_origin_does_nothing(
    installation: Installation,
    visit: Callable[..., Any],
    visit_of: Visits,
    hostile_port: int,
    host: str,
    enctype: str,
    target: str,
) -> None:
    page = visit("/dags")  # logged in
    runs = page.request.get(installation.url + TRIGGER).json()["total_entries"]
    page.goto(f"http://{host}:{hostile_port}/?{enctype}&{installation.url}{target}")
    with page.expect_navigation() as answer:
        page.evaluate("document.forms.f.submit()")
    assert answer.value.url.startswith(installation.url)
    assert answer.value.status in {401, 403, 415, 422}
    assert page.request.get(installation.url + TRIGGER).json()["total_entries"] == runs
    visit_of.problems.clear()  # the hostile page is another origin


def test_a_script_of_another_origin_may_not_read_or_write(
    installation: Installation, visit: Callable[..., Any], visit_of: Visits, hostile_port: int
) -> None:
    page = visit("/dags")
    page.goto(f"http://127.0.0.1:{hostile_port}/?text/plain&nothing")
    fetched = page.evaluate(
        """async ([url, options]) => fetch(url, options).then(() => "answered", () => "refused")""",
        [
            installation.url + TRIGGER,
            {
                "method": "POST",
                "credentials": "include",
                "headers": {"Content-Type": "application/json"},
                "body": "{}",
            },
        ],
    )
    assert fetched == "refused"
    visit_of.problems.clear()
