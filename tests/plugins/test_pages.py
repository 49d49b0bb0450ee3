"""Pages are for people who are logged in, and of nothing outside their folders."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from cluster_logs.lake import Lake
from lucid_airflow.pages.app import ASSETS, PagesApp, _build
from tests.fixtures import small_jobs
from tests.plugins.conftest import Somebody


@pytest.fixture
def docs(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    folder = tmp_path / "data_docs" / "philly" / "jobs"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<h1>job table</h1>")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "passwords.json").write_text("secret")
    return folder


@pytest.mark.slow
def test_nobody_reads_without_a_login(docs: Path) -> None:
    client = TestClient(PagesApp())
    assert client.get("/data-docs/philly/jobs/index.html").status_code == 401
    assert client.get("/data-docs/nowhere").status_code == 401
    assert client.get("/monitoring/philly/index.html").status_code == 401
    assert client.get("/plans/philly/index.html").status_code == 401
    assert client.get("/api/overview").status_code == 401
    assert client.get("/anything/else").status_code == 401


@pytest.mark.slow
def test_a_browser_without_a_login_is_sent_to_it_and_back(docs: Path) -> None:
    from airflow.api_fastapi.app import create_auth_manager

    create_auth_manager()  # as the API server does when it starts
    page = "/data-docs/philly/jobs/index.html"
    client = TestClient(PagesApp(), follow_redirects=False)
    response = client.get(page, headers={"Accept": "text/html,*/*"})
    assert response.status_code == 307
    assert quote(page, safe="") in response.headers["location"].partition("?next=")[2]


@pytest.fixture
def logged_in(docs: Path) -> TestClient:
    from airflow.api_fastapi.core_api.security import get_user

    app = _build()
    app.dependency_overrides[get_user] = Somebody
    return TestClient(app)


@pytest.mark.parametrize("path", ["philly/jobs/index.html", "philly/jobs", "philly/jobs/"])
def test_pages(logged_in: TestClient, path: str) -> None:
    response = logged_in.get(f"/data-docs/{path}")
    assert response.status_code == 200
    assert "job table" in response.text


@pytest.mark.parametrize(
    "path",
    [
        "../secrets/passwords.json",
        "%2e%2e/secrets/passwords.json",
        "philly/%2e%2e/%2e%2e/secrets/passwords.json",
        "nowhere",
    ],
)
def test_nothing_outside_the_folder(logged_in: TestClient, path: str) -> None:
    response = logged_in.get(f"/data-docs/{path}")
    assert response.status_code == 404
    assert "secret" not in response.text


def test_a_link_out_of_the_folder_is_refused(logged_in: TestClient, docs: Path) -> None:
    (docs / "sly.html").symlink_to(docs.parents[2] / "secrets" / "passwords.json")
    assert logged_in.get("/data-docs/philly/jobs/sly.html").status_code == 404


def test_monitoring_pages(logged_in: TestClient, docs: Path) -> None:
    assert logged_in.get("/monitoring/").status_code == 404
    folder = docs.parents[2] / "monitoring" / "philly" / "2017-12-01T0000Z-r3"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<h1>ok</h1>")
    (folder.parents[1] / "index.html").write_text("<h1>all passes</h1>")
    assert "all passes" in logged_in.get("/monitoring/").text
    assert "ok" in logged_in.get("/monitoring/philly/2017-12-01T0000Z-r3/index.html").text
    for path in ("../secrets/passwords.json", "%2e%2e/secrets/passwords.json", "philly"):
        assert logged_in.get(f"/monitoring/{path}").status_code == 404


def test_scripts_are_served_and_nothing_beside_them(logged_in: TestClient) -> None:
    script = logged_in.get("/assets/lucid.js")
    assert script.status_code == 200
    assert script.headers["content-type"].startswith("text/javascript")
    for path in ("../app.py", "%2e%2e/app.py", "nothing.js", "..%2fapp.py"):
        assert logged_in.get(f"/assets/{path}").status_code == 404


def test_scripts_import_only_each_other_and_name_no_other_host() -> None:
    for file in sorted(ASSETS.glob("*.js")):
        text = file.read_text()
        imported = re.findall(r'^import .* from "([^"]+)";$', text, re.MULTILINE)
        assert all(name.startswith("./") and (ASSETS / name).is_file() for name in imported), file.name
        assert "://" not in text.replace("http://www.w3.org", ""), file.name
        assert "innerHTML" not in text, file.name


def test_the_overview_says_what_this_person_may_do(
    logged_in: TestClient, docs: Path, monkeypatch: pytest.MonkeyPatch, shop: Any, may_trigger: Any
) -> None:
    monkeypatch.setenv("LUCID_LAKE_URI", str(docs.parents[2] / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    may_trigger("monitor_live")
    seen = logged_in.get("/api/overview").json()
    assert seen["clusters"] == []
    assert {action for action, may in seen["may"].items() if may} == {"monitor"}
    assert (seen["person"], seen["may_with"], seen["four_eyes"]) == ("somebody", {}, True)


def test_the_overview_says_what_the_sites_table_leaves(
    logged_in: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: Any, may_trigger: Any
) -> None:
    """Of what Airflow's role lets this person do: judge, and that with one cluster alone."""
    table = tmp_path / "rights.toml"
    table.write_text('[[right]]\npeople = ["somebody"]\nacts = ["judge"]\nclusters = ["small"]\n')
    monkeypatch.setenv("LUCID_RIGHTS", str(table))
    monkeypatch.setenv("LUCID_LAKE_URI", str(tmp_path / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    may_trigger("monitor_live", "publish_release")
    for name in ("small", "large"):
        Lake(str(tmp_path / "lake")).write_jobs(name, small_jobs())
    seen = logged_in.get("/api/overview").json()
    allowed = {
        name: {action for action, may in actions.items() if may} for name, actions in seen["may_with"].items()
    }
    assert allowed == {"small": {"monitor"}, "large": set()}
    assert {action for action, may in seen["may"].items() if may} == {"monitor"}
    table.write_text("[[right]")
    assert "is no TOML" in logged_in.get("/api/overview").json()["detail"]


def test_pages_run_no_script_and_are_framed_by_their_own_site_alone(logged_in: TestClient) -> None:
    for path in ("/data-docs/philly/jobs", "/data-docs/nowhere", "/assets/lucid.js", "/api/what-if/check"):
        headers = logged_in.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "script-src" not in policy
        assert policy.endswith("frame-ancestors 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
