"""What a person is asked about can be published: one list of obstacles serves the question and the deed."""

from collections.abc import Callable

import pytest

from foundation.errors import LucidError
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import (
    build_release,
    publish_release,
    record_verdict,
    rollback_release,
    show_release,
)
from pipeline.release.release_gate import read_verdict
from tests.conftest import ReleaseShop


def never_judged(shop: ReleaseShop) -> int:
    return build_release(tracking_uri=shop.uri, cluster="small").version


def refused(shop: ReleaseShop) -> int:
    version = shop.approved(1)
    verdict = {"approved": False, "sentence": "JCT rose by 4 %."}
    record_verdict(tracking_uri=shop.uri, cluster="small", version=version, verdict=verdict)
    return version


def rolled_back(shop: ReleaseShop) -> int:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(2))
    rollback_release(tracking_uri=shop.uri, cluster="small")
    return show_release(tracking_uri=shop.uri, cluster="small", alias="challenger").version


def damaged(shop: ReleaseShop) -> int:
    version = shop.approved(1)
    run_id = show_release(tracking_uri=shop.uri, cluster="small", version=version).run_id
    next((shop.server.folder / "artifacts").rglob(f"{run_id}/artifacts/release/duration.json")).unlink()
    return version


def simulated_for_a_real_log(shop: ReleaseShop) -> int:
    registry = Registry(shop.uri)
    logs = [("lucid-throughput", 1), ("lucid-duration", 1)]
    for name, version in logs:
        registry.set_version_tag(name, version, "synthetic_logs", "false")
    try:
        return shop.approved(1)
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
    shop: ReleaseShop, spoil: Callable[[ReleaseShop], int], said: str
) -> None:
    version = spoil(shop)
    for asked in (None, version):  # by hand with an empty form, and by the event of a verdict
        before = read_verdict(tracking_uri=shop.uri, cluster="small", version=asked)
        assert not before["approved"]
        assert before["reason"].startswith(f"Release {version} of cluster small is refused: ")
        assert said in before["reason"]
        assert said in before["summary"]
    with pytest.raises(LucidError) as caught:
        publish_release(tracking_uri=shop.uri, cluster="small")
    assert str(caught.value) in before["reason"]


def test_an_approved_release_is_asked_about_and_one_rolled_back_if_a_person_names_it(
    shop: ReleaseShop,
) -> None:
    version = rolled_back(shop)
    named = read_verdict(tracking_uri=shop.uri, cluster="small", version=version, named=True)
    assert named["approved"]
    assert named["summary"].startswith("**No loss was found.**")
    assert publish_release(tracking_uri=shop.uri, cluster="small", version=version).version == version
    assert read_verdict(tracking_uri=shop.uri, cluster="small")["approved"]
