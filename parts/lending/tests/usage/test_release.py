"""Servers on loan as a part of a release: published, kept by a retraining, and taken back by a rollback."""

from typing import Any

import pytest

from foundation.errors import ReleaseRefusedError
from foundation.site import Site
from live_scheduler.deciding.live_policies import live_policy, settings_in_force
from live_scheduler.live_settings import LiveSettings
from live_scheduler.release_store import verify_release
from lucid_models.registry import Registry
from lucid_models.releases.approval import identify
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict, rollback_release
from lucid_models.releases.manifest import MANIFEST_FILE
from lucid_models.releases.store import read_release
from parts.lending.steps.release_settings import pinned_loaning
from pipeline.release.current_release import kept_policy
from pipeline.release.release_settings import pinned_settings
from tests.fixtures import ReleaseShop

pytestmark = pytest.mark.slow

LOANING = pinned_loaning({"usage": "present", "headroom": 0.05, "lend": "demand"})


def go_live(common: dict[str, Any], version: int) -> None:
    verdict: dict[str, Any] = {"approved": True, "sentence": "No loss was found.", "objective": {}}
    record_verdict(**common, version=version, verdict=verdict)
    publish_release(**common, version=version)


def test_a_rollback_takes_policy_and_loans_back(local_shop: ReleaseShop) -> None:
    common: dict[str, Any] = {"tracking_uri": local_shop.uri, "cluster": "small"}
    without = build_release(**common, settings=pinned_settings())
    parts = {"loaning": LOANING}
    lends = build_release(
        **common, policy="lyra", settings=pinned_settings({"value_exponent": 1.5}, "lyra"), parts=parts
    )
    assert (without.parts.get("loaning"), lends.parts.get("loaning")) == (None, LOANING)
    assert "inference_load" not in lends.models  # it goes by what is finished
    for release in (without, lends):
        go_live(common, release.version)
    kept = kept_policy(Site(registry=local_shop.uri, cluster="small"))
    assert (kept.policy, kept.settings["value_exponent"], kept.parts.get("loaning")) == ("lyra", 1.5, LOANING)
    back = rollback_release(**common)
    assert (back.version, back.policy, back.parts.get("loaning")) == (without.version, "lucid", None)
    kept = kept_policy(Site(registry=local_shop.uri, cluster="small"))
    assert (kept.policy, kept.parts.get("loaning")) == ("lucid", None)


def test_a_live_scheduler_follows_a_release_that_runs_lyra(local_shop: ReleaseShop) -> None:
    built = build_release(
        tracking_uri=local_shop.uri,
        cluster="small",
        policy="lyra",
        settings=pinned_settings({}, "lyra"),
        parts={"loaning": LOANING},
    )
    registry = Registry(local_shop.uri)
    manifest, files = read_release(registry, registry.version(built.name, built.version))
    policy = live_policy(settings_in_force(LiveSettings("small"), manifest))
    assert not policy.oracle
    assert policy.needs_estimates
    identity = identify("small", built.version, built.manifest_sha256)
    files[MANIFEST_FILE] = manifest.to_bytes()
    assert verify_release("champion", identity, None, lambda file, most: files[file])[0].manifest == manifest
    files[MANIFEST_FILE] = files[MANIFEST_FILE].replace(b'"demand"', b'"supply"')
    with pytest.raises(ReleaseRefusedError):
        verify_release("champion", identity, None, lambda file, most: files[file])
