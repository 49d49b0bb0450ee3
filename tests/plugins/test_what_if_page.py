"""The routes of the page What if: logged in, bounded, and with our rules in words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from cluster_logs.lake import Lake
from lucid_airflow.pages.app import PagesApp, _build
from tests.fixtures import small_jobs
from tests.pipeline.what_if.what_if_results import HOSTILE, RUN_ID, keep_small_what_if
from tests.plugins.conftest import Somebody


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    keep_small_what_if(tmp_path_factory.mktemp("sweep"), folder / "what_if")
    lake = Lake(str(folder / "lake"))
    lake.write_jobs("small", small_jobs(60))
    lake.write_nodes(
        "small", pd.DataFrame({"virtual_cluster": ["vc"], "nodes": 4, "gpus_per_node": 8, "date": None})
    )
    return folder


@pytest.fixture
def client(state_dir: Path, monkeypatch: pytest.MonkeyPatch, may_trigger: Callable[..., None]) -> TestClient:
    from airflow.api_fastapi.core_api.security import get_user

    monkeypatch.setenv("LUCID_STATE_DIR", str(state_dir))
    monkeypatch.setenv("LUCID_LAKE_URI", str(state_dir / "lake"))
    monkeypatch.setenv("LUCID_TRACKING_URI", f"sqlite:///{state_dir}/mlflow.db")
    may_trigger("evaluate_policies")
    pages = _build()
    pages.dependency_overrides[get_user] = Somebody
    return TestClient(pages)


def of_run(path: str) -> str:
    return f"/api/what-if/kept/{RUN_ID.replace('+', '%2B')}{path}"


@pytest.mark.slow
def test_nobody_reads_without_a_login() -> None:
    stranger = TestClient(PagesApp())
    for path in ("form", "check?asked={}", "kept", "is-kept?run_id=a", "kept/a", "kept/a/jobs.csv"):
        assert stranger.get(f"/api/what-if/{path}").status_code == 401


@pytest.mark.slow
def test_the_form_says_what_may_be_asked_and_whether_this_person_may(client: TestClient) -> None:
    form = client.get("/api/what-if/form").json()
    assert form["may"] is True
    (cluster,) = form["clusters"]
    assert (cluster["name"], cluster["nodes"], cluster["live"]) == ("small", {"vc": 4}, None)
    assert form["policies"][0]["name"] == "fifo"


def test_a_rule_that_the_form_breaks_is_an_answer_in_words(client: TestClient) -> None:
    def check(asked: Any) -> Any:
        return client.get("/api/what-if/check", params={"asked": json.dumps(asked)})

    good = check({"cluster": "small", "policies": ["fifo"], "live_release": False}).json()
    assert (good["jobs"], good["replays"]) == (60, 1)
    refused = check({"cluster": "small", "policies": ["fifo"], "added_nodes": {"vc": -4}})
    assert refused.status_code == 200
    assert "Leave it at least one" in refused.json()["problem"]
    assert check([1]).status_code == 422


@pytest.mark.evidence(table="faults", rows=("33",))
def test_json_that_is_deep_or_says_a_key_twice_is_refused_in_words(
    client: TestClient, evidence: Callable[..., None]
) -> None:
    said = {}
    for what, text in (
        ("deep", "[" * 5_000 + "]" * 5_000),
        ("twice", '{"cluster": "small", "cluster": "other"}'),
        ("no number", '{"added_nodes": {"vc": NaN}}'),
    ):
        answer = client.get("/api/what-if/check", params={"asked": text})
        assert answer.status_code == 422
        said[what] = answer.json()["detail"]
    assert "nested deeper than 64 levels" in said["deep"]
    assert "the key 'cluster' stands twice" in said["twice"]
    assert "NaN is not a number" in said["no number"]
    evidence("faults", "33", f"HTTP 422: {said['deep']}")


def test_a_result_with_its_pictures_jobs_and_tables(client: TestClient) -> None:
    assert client.get("/api/what-if/is-kept", params={"run_id": RUN_ID}).json() == {"kept": True}
    assert client.get("/api/what-if/is-kept", params={"run_id": "../.."}).json() == {"kept": False}
    assert [each["run_id"] for each in client.get("/api/what-if/kept").json()["what_ifs"]] == [RUN_ID]
    result = client.get(of_run("")).json()
    assert result["asked"]["run_id"] == RUN_ID
    pictures = client.get(of_run("/pictures?points=50&virtual_cluster=vc1")).json()
    assert len(pictures["at_ms"]) == 50
    longest = client.get(of_run("/waits?variant=fifo")).json()["jobs"][0]
    told = client.get(of_run(f"/job?row={longest['row']}")).json()
    assert len(told["variants"]) == len(result["variants"])
    table = client.get(of_run("/jobs.csv"))
    assert table.headers["content-disposition"] == 'attachment; filename="what-if-jobs.csv"'
    assert f"'{HOSTILE}" in table.text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/pictures?points=1", 422, "points"),
        ("/pictures?virtual_cluster=nowhere", 422, "virtual cluster"),
        ("/waits?variant=lifo", 422, "variant"),
        ("/job?row=99999", 422, "job"),
        ("/secrets.csv", 422, "table"),
    ],
)
def test_what_is_not_there_is_said(client: TestClient, path: str, status: int, words: str) -> None:
    answer = client.get(of_run(path))
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert client.get("/api/what-if/kept/manual__1").status_code == 404


def test_the_library_of_pictures_is_served_and_kept_by_browsers(client: TestClient) -> None:
    script = client.get("/assets/plotly.min.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "max-age" in script.headers["cache-control"]
    assert len(script.content) > 1_000_000
