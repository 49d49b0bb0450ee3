"""What the headers of our pages keep out, and that the pages are as before with them."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from cluster_logs.validation import validate_table
from tests.browser.conftest import Visits
from tests.browser.driver import expect
from tests.browser.installation import Installation
from tests.cluster_logs.test_validation import profiles
from tests.evidence import Evidence
from tests.fixtures import small_jobs

SCRIPT = "<h1>kept</h1><script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"


@pytest.fixture
def visit(visit_of: Visits, empty_installation: Installation) -> Callable[..., Any]:
    """`visit(path)`: a page of an installation in which no run has left anything but what the test does."""
    return lambda path: visit_of(empty_installation, path)


def test_pages_that_runs_left_are_shown_whole_and_silent(
    empty_installation: Installation, visit: Callable[..., Any]
) -> None:
    state = empty_installation.config.state_dir
    validate_table(profiles(), "solo_profiles", state / "data_docs" / "headers")
    Lake(str(state / "headers-lake")).write_jobs("small", small_jobs(60))
    command = [sys.executable, "-m", "lucid_cli.main", "characterise", "--cluster", "small"]
    place = ["--lake", str(state / "headers-lake"), "--out", str(state / "characterisation" / "headers")]
    subprocess.run([*command, *place], check=True)
    pages = [
        page for kind in ("data_docs", "characterisation") for page in sorted((state / kind).rglob("*.html"))
    ]
    assert len(pages) >= 5
    for file in pages:
        kind, *rest = file.relative_to(state).parts
        page = visit(f"/lucid/{kind.replace('_', '-')}/{'/'.join(rest)}")
        # Styles of the page's own count; a console error fails the test.
        expect(page.locator("body")).to_be_visible()
        assert page.evaluate("document.styleSheets.length") >= 1


@pytest.mark.evidence(table="security", rows=("a script stands in a page that a run left",))
def test_a_script_in_a_page_that_was_left_is_not_run(
    empty_installation: Installation, visit: Callable[..., Any], visit_of: Visits, evidence: Evidence
) -> None:
    folder = empty_installation.config.state_dir / "plans" / "headers"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(f"<title>still</title>{SCRIPT}")
    page = visit("/lucid/plans/headers/index.html")
    expect(page.get_by_role("heading", name="kept")).to_be_visible()
    assert page.title() == "still"
    assert any("Content Security Policy" in problem for problem in visit_of.problems)
    visit_of.problems.clear()
    evidence(
        "security",
        "a script stands in a page that a run left",
        "The browser shows the page and runs nothing of it: Content-Security-Policy.",
    )


@pytest.fixture
def other_site(empty_installation: Installation) -> Iterator[str]:
    class Framing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"<!doctype html><iframe src='{empty_installation.url}{self.path}'></iframe>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Framing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.evidence(table="security", rows=("another site lays our pages under its own, to catch clicks",))
@pytest.mark.parametrize("path", ["/plugin/lucid", "/lucid/plans/headers/index.html"])
def test_another_site_cannot_lay_our_pages_under_its_own(
    empty_installation: Installation,
    visit: Callable[..., Any],
    visit_of: Visits,
    other_site: str,
    evidence: Evidence,
    path: str,
) -> None:
    page = visit("/plugin/lucid")
    with page.expect_event("console", lambda message: "frame-ancestors" in message.text):
        page.goto(other_site + path)
    (frame,) = page.main_frame.child_frames
    assert "lucid" not in frame.content()
    visit_of.problems.clear()
    evidence(
        "security",
        "another site lays our pages under its own, to catch clicks",
        "The browser leaves the frame empty: frame-ancestors 'self', on Airflow's own pages too.",
    )


def test_a_page_that_a_run_left_is_framed_in_its_own_site(
    empty_installation: Installation, visit: Callable[..., Any]
) -> None:
    folder = Path(empty_installation.config.state_dir, "plans", "framed")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text("<title>framed</title><h1>kept</h1>")
    page = visit("/plugin/lucid")
    page.evaluate(
        "src => { const frame = document.createElement('iframe'); frame.src = src; "
        "document.body.append(frame); }",
        f"{empty_installation.url}/lucid/plans/framed/index.html",
    )
    expect(page.frame_locator("iframe").last.get_by_role("heading", name="kept")).to_be_attached()
