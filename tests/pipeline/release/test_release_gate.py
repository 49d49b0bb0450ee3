"""What a person is asked about can be published: one list of obstacles serves the question and the deed."""

from collections.abc import Callable
from typing import Any

import pytest

from foundation.errors import LucidError
from foundation.site import Site
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import (
    build_release,
    publish_release,
    record_verdict,
    rollback_release,
    show_release,
)
from pipeline.release.release_gate import read_verdict
from tests.fixtures import ReleaseShop


def never_judged(local_shop: ReleaseShop) -> int:
    return build_release(tracking_uri=local_shop.uri, cluster="small").version


def refused(local_shop: ReleaseShop) -> int:
    version = local_shop.approved(1)
    verdict = {"approved": False, "sentence": "JCT rose by 4 %."}
    record_verdict(tracking_uri=local_shop.uri, cluster="small", version=version, verdict=verdict)
    return version


def rolled_back(local_shop: ReleaseShop) -> int:
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(1))
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(2))
    rollback_release(tracking_uri=local_shop.uri, cluster="small")
    return show_release(tracking_uri=local_shop.uri, cluster="small", alias="challenger").version


def damaged(local_shop: ReleaseShop) -> int:
    version = local_shop.approved(1)
    run_id = show_release(tracking_uri=local_shop.uri, cluster="small", version=version).run_id
    next((local_shop.server.folder / "artifacts").rglob(f"{run_id}/artifacts/release/duration.json")).unlink()
    return version


def simulated_for_a_real_log(local_shop: ReleaseShop) -> int:
    registry = Registry(local_shop.uri)
    logs = [("lucid-throughput", 1), ("lucid-duration", 1)]
    for name, version in logs:
        registry.set_version_tag(name, version, "synthetic_logs", "false")
    try:
        return local_shop.approved(1)
    finally:
        for name, version in logs:
            registry.set_version_tag(name, version, "synthetic_logs", "true")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (never_judged, "has no verdict"),
        (refused, "JCT rose by 4 %"),
        (rolled_back, "was rolled back"),
        (damaged, "duration.json"),
        (simulated_for_a_real_log, "trained on simulated profiles"),
    ],
)
def test_what_publication_would_refuse_is_said_before_a_person_is_asked(
    local_shop: ReleaseShop, spoil: Callable[[ReleaseShop], int], said: str
) -> None:
    version = spoil(local_shop)
    for asked in (None, version):  # by hand with an empty form, and by the event of a verdict
        before = read_verdict(Site(registry=local_shop.uri, cluster="small"), version=asked)
        assert not before["approved"]
        assert before["reason"].startswith(f"Release {version} of cluster small is refused: ")
        assert said in before["reason"]
        assert said in before["summary"]
    with pytest.raises(LucidError) as caught:
        publish_release(tracking_uri=local_shop.uri, cluster="small")
    assert str(caught.value) in before["reason"]


def test_a_person_is_told_what_is_live_which_is_newer_and_the_change_against_it(
    local_shop: ReleaseShop,
) -> None:
    small: dict[str, Any] = {"tracking_uri": local_shop.uri, "cluster": "small"}
    at = Site(registry=local_shop.uri, cluster="small")
    old, new = local_shop.approved(1), local_shop.approved(2)

    def judge(version: int, champion: int | None) -> None:
        verdict = {
            "approved": True,
            "sentence": "No loss was found.",
            "reference": "champion" if champion else "site_order",
            "subject": {"champion_release": champion},
            "objective": {
                "name": "mean_jct_s",
                "change_pct": -3.04,
                "change_low_pct": -5,
                "change_high_pct": -1,
            },
        }
        record_verdict(**small, version=version, verdict=verdict)

    judge(new, None)
    first = read_verdict(at, version=new)
    assert (first["live"], first["beside"]) == (0, "Nothing is live: schedulers go by their heuristic.")
    publish_release(**small, version=new)
    judge(old, 7)
    stale = read_verdict(at, version=old)
    assert stale["live"] == new
    assert f"Live is release {new}, built" in stale["summary"]
    assert (
        "is OLDER: publishing it is a step back. The gate judged it against release 7, not" in stale["beside"]
    )
    judge(old, new)
    measured = read_verdict(at, version=old)["beside"]
    assert measured.endswith(f"Against release {new} the gate measured -3.0 % in mean JCT (-5.0 to -1.0 %).")


def test_a_form_that_names_another_live_release_is_refused_before_a_person_is_asked(
    local_shop: ReleaseShop,
) -> None:
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=local_shop.approved(1))
    at, asked = Site(registry=local_shop.uri, cluster="small"), local_shop.approved(2)
    assert read_verdict(at, version=asked, replaces=1)["approved"]
    expired = read_verdict(at, version=asked, replaces=0)
    assert not expired["approved"]
    assert "has expired" in expired["reason"]


def test_an_approved_release_is_asked_about_and_one_rolled_back_if_a_person_names_it(
    local_shop: ReleaseShop,
) -> None:
    version = rolled_back(local_shop)
    named = read_verdict(Site(registry=local_shop.uri, cluster="small"), version=version, named=True)
    assert named["approved"]
    assert named["summary"].startswith("**No loss was found.**")
    assert publish_release(tracking_uri=local_shop.uri, cluster="small", version=version).version == version
    assert read_verdict(Site(registry=local_shop.uri, cluster="small"))["approved"]
