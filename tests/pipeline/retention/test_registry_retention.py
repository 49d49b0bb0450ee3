"""What of a registry is past its retention; that what is live, could be again, or is needed stays."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from foundation.retention_settings import RetentionSettings
from lucid_models.registry import Registry
from lucid_models.releases.aliases import TRANSITION_TAG, Transition
from lucid_models.releases.expiry import expire_registry
from lucid_models.releases.lifecycle import (
    build_release,
    list_releases,
    load_release_models,
    publish_release,
    rollback_release,
    show_release,
)
from lucid_models.releases.manifest import release_name
from lucid_models.releases.store import read_manifest
from pipeline.retention.prune import experiments
from tests.fixtures import LocalRegistry, ReleaseShop, forget_new_models, forget_releases

SMALL = release_name("small")
SETTINGS = RetentionSettings()

Expire = Callable[..., dict[str, tuple[int, int]]]


@pytest.fixture
def own_shop(stocked_file: LocalRegistry, small_model_files: dict[str, list[Path]], tmp_path: Path) -> Any:
    """A registry of the test's own, for what it removes; the files of the stock lie where they are."""
    shutil.copy(stocked_file.folder / "mlflow.db", tmp_path)
    shop = ReleaseShop(LocalRegistry(tmp_path), small_model_files)
    forget_releases(shop.uri)
    forget_new_models(shop.uri, stock=2)
    return shop


@pytest.fixture
def expire(own_shop: Any) -> Expire:
    """Expire what will be past its retention in so many days; returns what stays and goes of each kind."""

    def expire_in(days: float, **more: Any) -> dict[str, tuple[int, int]]:
        counted = expire_registry(
            own_shop.uri,
            more.pop("settings", SETTINGS),
            experiments=experiments(),
            now=datetime.now(UTC) + timedelta(days=days),
            **more,
        )
        return {each.kind: (each.kept, each.removed) for each in counted}

    return expire_in


def versions(uri: str) -> list[int]:
    return [release.version for release in list_releases(tracking_uri=uri, cluster="small")]


def publish(shop: Any, number: int, gss: int) -> int:
    """Publish a release; those that went live before it did so an hour earlier."""
    version = shop.approved(number, settings={"gss": gss})
    for earlier in Registry(shop.uri).versions(SMALL):
        went_live_earlier(shop, earlier.version, timedelta(hours=1))
    publish_release(tracking_uri=shop.uri, cluster="small", version=version)
    return int(version)


def went_live_earlier(shop: Any, version: int, by: timedelta) -> None:
    registry = Registry(shop.uri)
    told = json.loads(registry.version(SMALL, version).tags.get("went_live", "null"))
    if told is not None:
        told["at"] = (datetime.fromisoformat(told["at"]) - by).isoformat()
        registry.set_version_tag(SMALL, version, "went_live", json.dumps(told))


def test_challengers_go_and_what_was_live_stays(own_shop: Any, expire: Expire) -> None:
    first, second = publish(own_shop, 1, 1), publish(own_shop, 2, 2)
    passed_over = own_shop.approved(1, settings={"gss": 3})
    third = publish(own_shop, 2, 4)
    challenger = build_release(tracking_uri=own_shop.uri, cluster="small", settings={"gss": 5}).version
    assert expire(89)["releases"] == (5, 0)
    assert expire(91)["releases"] == (4, 1)
    assert versions(own_shop.uri) == [challenger, third, second, first]
    assert passed_over not in versions(own_shop.uri)
    # Two years later: what the aliases name.
    assert expire(731)["releases"] == (3, 1)
    assert Registry(own_shop.uri).aliases(SMALL) == {
        "champion": third, "previous": second, "challenger": challenger,
    }  # fmt: skip
    assert rollback_release(tracking_uri=own_shop.uri, cluster="small").version == second
    for version in (second, third):
        assert load_release_models(tracking_uri=own_shop.uri, cluster="small", version=version)
        shown = show_release(tracking_uri=own_shop.uri, cluster="small", version=version)
        assert shown.verdict is not None
        assert "problem" not in shown.verdict


def test_a_release_counts_from_when_it_was_last_live(own_shop: Any, expire: Expire) -> None:
    """The first was live for years; two others followed it within a day."""
    first = publish(own_shop, 1, 1)
    went_live_earlier(own_shop, first, timedelta(days=5 * 365))
    publish(own_shop, 2, 2)
    publish(own_shop, 1, 3)
    assert expire(700)["releases"] == (3, 0)
    assert first in versions(own_shop.uri)
    assert expire(731)["releases"] == (2, 1)
    assert first not in versions(own_shop.uri)


def test_while_aliases_move_nothing_of_the_cluster_goes(own_shop: Any, expire: Expire) -> None:
    publish(own_shop, 1, 1)
    target = own_shop.approved(1, settings={"gss": 3})
    build_release(tracking_uri=own_shop.uri, cluster="small", settings={"gss": 5})
    move = Transition("publish", target, 1, "token").to_text()
    Registry(own_shop.uri).set_model_tag(SMALL, TRANSITION_TAG, move)
    assert expire(400)["releases"] == (3, 0)
    Registry(own_shop.uri).delete_model_tag(SMALL, TRANSITION_TAG)
    assert expire(400, dry_run=True)["releases"] == (2, 1)
    assert len(versions(own_shop.uri)) == 3


def test_an_alias_that_moves_in_between_is_not_dropped(
    own_shop: Any, expire: Expire, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(own_shop, 1, 1)
    late = own_shop.approved(2, settings={"gss": 3})
    build_release(tracking_uri=own_shop.uri, cluster="small", settings={"gss": 5})

    def published_meanwhile(registry: Registry, release: Any) -> Any:
        monkeypatch.undo()
        publish_release(tracking_uri=own_shop.uri, cluster="small", version=late)
        return read_manifest(registry, release)

    # Manifests are read between the choice of what goes and its removal.
    monkeypatch.setattr("lucid_models.releases.expiry.read_manifest", published_meanwhile)
    assert expire(400)["releases"] == (2, 1)  # as it was chosen
    assert versions(own_shop.uri) == [3, late, 1]
    assert Registry(own_shop.uri).aliases(SMALL)["champion"] == late


def test_models_that_no_release_pins_go_and_the_newest_stays(own_shop: Any, expire: Expire) -> None:
    old = own_shop.approved(1, settings={"gss": 1})
    registry = Registry(own_shop.uri)
    publish_release(tracking_uri=own_shop.uri, cluster="small", version=old)
    own_shop.lend_models("another", 1)
    lent = registry.versions("lucid-duration")[0].version  # other tests lend models of this server, too
    # Pinned (1), the newest of the cluster (2), and another cluster's newest.
    assert expire(400)["models"][1] == 0
    publish(own_shop, 2, 2)
    publish(own_shop, 2, 3)
    # The release that pinned the first versions is two years gone.
    assert expire(800)["releases"] == (2, 1)
    for kind, left in (("packing", [2]), ("duration", [lent, 2]), ("throughput", [lent, 2])):
        assert [version.version for version in registry.versions(f"lucid-{kind}")] == left
    assert build_release(tracking_uri=own_shop.uri, cluster="small", settings={"gss": 9})


def test_a_release_that_cannot_be_read_keeps_all_models(own_shop: Any, expire: Expire) -> None:
    broken = publish(own_shop, 1, 1)
    Registry(own_shop.uri).set_version_tag(SMALL, broken, "manifest_sha256", "0" * 64)
    counted = expire_registry(
        own_shop.uri, SETTINGS, experiments=experiments(), now=datetime.now(UTC) + timedelta(days=4_000)
    )
    models = next(each for each in counted if each.kind == "models")
    assert models.removed == 0
    assert "All model versions stay" in models.remarks[0]


def test_runs_of_others_and_runs_that_are_needed_stay(own_shop: Any, expire: Expire) -> None:
    live = publish(own_shop, 1, 1)
    gone = own_shop.approved(1, settings={"gss": 2})
    build_release(tracking_uri=own_shop.uri, cluster="small", settings={"gss": 3})
    registry = Registry(own_shop.uri)
    with registry.run("somebody-elses", "a run of their own"):
        pass
    with registry.run("lucid-monitoring", "a pass", {"cluster": "small"}):
        pass
    doomed = registry.version(SMALL, gone)
    assert expire(179)["runs"][1] == 0
    expire(181)
    client = registry.client
    state = {
        run_id: client.get_run(run_id).info.lifecycle_stage
        for run_id in (doomed.run_id, doomed.tags["verdict_run_id"])
    }
    assert set(state.values()) == {"deleted"}
    assert not registry.find_runs("lucid-monitoring", {"cluster": "small"})
    assert len(registry.find_runs("somebody-elses", {})) == 1
    kept = registry.version(SMALL, live)
    for run_id in (kept.run_id, kept.tags["verdict_run_id"]):
        assert client.get_run(run_id).info.lifecycle_stage == "active"


def test_null_keeps_for_ever(own_shop: Any, expire: Expire) -> None:
    for gss in range(1, 4):
        own_shop.approved(1, settings={"gss": gss})
    forever = RetentionSettings(challenger_days=None, published_days=None, model_days=None, run_days=None)
    counted = expire(10_000, settings=forever)
    assert {kind: removed for kind, (_, removed) in counted.items()} == {
        "releases": 0,
        "models": 0,
        "runs": 0,
    }
