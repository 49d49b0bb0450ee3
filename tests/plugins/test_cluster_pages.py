"""What the page of a cluster reads, and what this person may do on it."""

from typing import Any

import pytest

from cluster_logs.lake import Lake


def test_a_cluster_is_read_by_name(
    pages: Any, shop: Any, small_tables: Any, may_trigger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucid_airflow import settings

    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    may_trigger("ingest_logs")
    Lake(settings.lake_uri()).write_jobs("small", small_tables.jobs)
    seen = pages.get("/api/clusters/small").json()
    assert seen["may"] == {"remove": False, "ingest": True}
    assert seen["cluster"]["data"]["days"] == 10
    assert "rows of jobs" in seen["held_in_words"]
    assert pages.get("/api/clusters/other").status_code == 404
    assert pages.get("/api/clusters/..%2F..").status_code in (404, 422)
    assert "cannot name a cluster" in pages.get("/api/clusters/<b>").json()["detail"]
