"""What the page that brings a log reads, and its uploads: for people who may ingest, below the roots."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-09-04 00:00:00,60,8,480,<b>vc</b>\n"

MayTrigger = Callable[..., None]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "inbox"
    folder.mkdir(parents=True)
    (folder / "log.csv").write_text(PHILLY)
    (tmp_path / "secret.csv").write_text(PHILLY)
    (folder / "sly.csv").symlink_to(tmp_path / "secret.csv")
    return folder


def test_people_who_may_not_ingest_see_no_rows(pages: Any, inbox: Path, may_trigger: MayTrigger) -> None:
    may_trigger("monitor_live")
    for path in ("", "/preview?input=x", "/nodes?input=x", "/cluster?name=x"):
        answer = pages.get(f"/api/ingest{path}")
        assert answer.status_code == 403
        assert "ingest_logs" in answer.json()["detail"]
    assert pages.post("/api/ingest/uploads?name=x", content=b"x").status_code == 403
    assert not (inbox / "uploads").exists()


def test_a_log_is_shown_before_it_is_ingested(pages: Any, inbox: Path, may_trigger: MayTrigger) -> None:
    may_trigger("ingest_logs")
    assert [Path(each["path"]).name for each in pages.get("/api/ingest").json()["files"]] == [
        "log.csv",
        "sly.csv",
    ]
    seen = pages.get("/api/ingest/preview", params={"input": str(inbox / "log.csv")}).json()
    assert (seen["format"], seen["read"]["kept"], seen["read"]["sizes"][0]["virtual_cluster"]) == (
        "philly-csv",
        1,
        "<b>vc</b>",
    )
    chosen = {"input": str(inbox / "log.csv"), "format": "nonsense"}
    assert "Choose one of" in pages.get("/api/ingest/preview", params=chosen).json()["detail"]
    assert pages.get("/api/ingest/cluster?name=new").json()["problem"] is None


@pytest.mark.parametrize("name", ["sly.csv", "../../secret.csv", "../secrets/key", "/etc/passwd", "a\x00b"])
def test_nothing_outside_the_roots_is_shown(
    pages: Any, inbox: Path, may_trigger: MayTrigger, name: str
) -> None:
    may_trigger("ingest_logs")
    for route in ("preview", "nodes"):
        answer = pages.get(f"/api/ingest/{route}", params={"input": str(inbox / name)})
        assert answer.status_code == 422
        assert "vc" not in answer.text


def test_an_upload_lies_where_the_ingest_may_read_it(
    pages: Any, inbox: Path, may_trigger: MayTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipeline.overview import uploads

    may_trigger("ingest_logs")
    kept = pages.post("/api/ingest/uploads", params={"name": "../../log.csv"}, content=PHILLY.encode()).json()
    assert Path(kept["path"]).parent == inbox / "uploads"
    assert pages.get("/api/ingest/preview", params={"input": kept["path"]}).json()["format"] == "philly-csv"
    # Over plain HTTP browsers send the origin alone.
    for name, value in (
        ("sec-fetch-site", "cross-site"),
        ("origin", "http://testserver:8081"),
        ("origin", "null"),
    ):
        answer = pages.post("/api/ingest/uploads?name=x", content=b"x", headers={name: value})
        assert answer.status_code == 403
    monkeypatch.setattr(uploads, "MOST_BYTES", 10)
    for send in ({"content": b"x" * 20}, {"content": iter([b"x" * 8, b"x" * 8])}):
        answer = pages.post("/api/ingest/uploads?name=x", **send)
        assert answer.status_code == 422
        assert "can be uploaded" in answer.json()["detail"]
    assert len(list((inbox / "uploads").iterdir())) == 1
