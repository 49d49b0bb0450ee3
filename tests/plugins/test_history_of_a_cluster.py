"""What was live of a cluster, as its page has it."""

from pathlib import Path
from typing import Any

import pytest


def test_the_page_says_what_was_live_who_asked_and_who_approved(
    pages: Any, shop: Any, may_trigger: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucid_models.releases.lifecycle import publish_release
    from lucid_models.signing.installation import Signing

    may_trigger("ingest_logs")
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    assert pages.get("/api/clusters/small").status_code == 404
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("LUCID_TRUST")
    Signing.of_environment().key_store.create()
    version = shop.approved(1)
    before = len(
        pages.get("/api/clusters/small").json()["history"]
    )  # other tests publish on this server, too
    publish_release(
        tracking_uri=shop.uri,
        cluster="small",
        version=version,
        by="noor",
        asked_by="mia",
        because="<b>it is</b>",
    )
    history = pages.get("/api/clusters/small").json()["history"]
    assert len(history) == before + 1
    (went_live,) = [each for each in history if each["because"] == "<b>it is</b>"]
    assert went_live.pop("at").endswith("+00:00")
    assert went_live == {
        "kind": "publish",
        "version": version,
        "replaces": None,
        "asked_by": "mia",
        "approved_by": "noor",
        "because": "<b>it is</b>",
        "problem": None,
    }
    monkeypatch.setenv("LUCID_TRUST", "unsigned")
    assert pages.get("/api/clusters/small").json()["history"] is None
