"""The page of a release: its verdict, what differs from the one before, what stands in its way."""

from pathlib import Path
from typing import Any

import pytest

from foundation.errors import NotFoundError
from foundation.site import Site
from lucid_models.releases.decisions import reject_release
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict
from pipeline.overview.release_page import ReleasePage, read_release_page

QUEUING = "virtual_cluster,jobs,challenger,fifo\r\n'=vc1,20,1.5,30\r\nvc2,10,0,2\r\n"


def page(local_shop: Any, version: int) -> ReleasePage:
    return read_release_page(Site(registry=local_shop.uri, cluster="small"), version=version)


def test_what_a_person_weighs_before_a_release_goes_live(local_shop: Any, tmp_path: Path) -> None:
    first = local_shop.approved(1)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=first, by="ann")
    second = build_release(tracking_uri=local_shop.uri, cluster="small", settings={"gss": 1}).version
    unjudged = page(local_shop, second)
    assert unjudged.release.verdict is None
    assert unjudged.obstacles
    assert (unjudged.live, unjudged.before, unjudged.versions) == (False, first, [second, first])

    (tmp_path / "queuing_by_virtual_cluster.csv").write_text(QUEUING)
    verdict = {"approved": True, "sentence": "Faster.", "constraints": [], "policies": []}
    record_verdict(
        tracking_uri=local_shop.uri, cluster="small", version=second, verdict=verdict, artifacts_dir=tmp_path
    )
    judged = page(local_shop, second)
    assert judged.release.verdict is not None
    assert judged.release.verdict["sentence"] == "Faster."
    assert not judged.obstacles
    assert {"gss"} <= {each.what for each in judged.differences}
    assert judged.queuing == [
        {"virtual_cluster": "=vc1", "jobs": 20.0, "challenger": 1.5, "fifo": 30.0},
        {"virtual_cluster": "vc2", "jobs": 10.0, "challenger": 0.0, "fifo": 2.0},
    ]
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=second)
    live = page(local_shop, second)
    assert (live.live, live.before, live.obstacles) == (True, first, [])
    assert page(local_shop, first).queuing is None, "its verdict was kept without"


def test_a_release_that_a_person_turned_down_says_who_and_why(local_shop: Any) -> None:
    version = local_shop.approved(1)
    assert page(local_shop, version).turned_down is None
    reject_release(
        tracking_uri=local_shop.uri, cluster="small", version=version, by="ann", because="not on a Friday"
    )
    turned_down = page(local_shop, version).turned_down
    assert turned_down is not None
    assert (turned_down.kind, turned_down.by, turned_down.because) == ("rejection", "ann", "not on a Friday")
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=version, by="ben")
    assert page(local_shop, version).live, "a rejection is no verdict"


def test_a_release_that_is_not_there_is_said_with_those_that_are(local_shop: Any) -> None:
    version = local_shop.approved(1)
    with pytest.raises(NotFoundError, match=rf"no release 99.*\b{version}\b"):
        page(local_shop, 99)
