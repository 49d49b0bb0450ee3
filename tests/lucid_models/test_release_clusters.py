"""One registry, several clusters: whose champion moves, who is followed, what happens where none is named."""

import logging
from pathlib import Path
from typing import Any

import pytest

from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError
from live_scheduler.client import ReleaseClient, followed_cluster
from live_scheduler.release import FallbackRelease, LiveRelease
from lucid_models.registry import Registry
from lucid_models.releases.clusters import note_removal, which_cluster
from lucid_models.releases.lifecycle import (
    list_releases,
    publish_release,
    rollback_release,
    show_release,
)
from lucid_models.releases.manifest import release_name


def test_a_removed_cluster_is_found_by_itself_again_once_a_release_of_it_is_built(local_shop: Any) -> None:
    kept, version = local_shop.approved(1), local_shop.approved(1, cluster="large")
    publish_release(tracking_uri=local_shop.uri, cluster="large", version=version)
    note_removal(local_shop.uri, "large")
    assert which_cluster(local_shop.uri, None) == "small"
    assert {release.version for release in list_releases(tracking_uri=local_shop.uri)} == {kept}
    assert show_release(tracking_uri=local_shop.uri, cluster="large").version == version, (
        "schedulers follow it"
    )
    local_shop.approved(2, cluster="large")
    with pytest.raises(BadInputError, match="large, small"):
        which_cluster(local_shop.uri, None)


def champions(uri: str) -> dict[str, int]:
    return {
        cluster: aliases["champion"]
        for cluster in ("small", "large")
        if "champion" in (aliases := Registry(uri).aliases(release_name(cluster)))
    }


def test_clusters_are_published_and_rolled_back_apart(
    local_shop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lucid.releases")
    small = [local_shop.approved(1), local_shop.approved(2)]
    for version in small:
        moved = publish_release(tracking_uri=local_shop.uri, cluster="small", version=version).moved
    assert moved == f"champion of small: {small[0]} -> {small[1]}"
    large = [local_shop.approved(1, cluster="large"), local_shop.approved(2, cluster="large")]
    assert champions(local_shop.uri) == {"small": small[1]}
    with pytest.raises(NotFoundError, match="Cluster large has no champion"):
        rollback_release(tracking_uri=local_shop.uri, cluster="large")
    publish_release(tracking_uri=local_shop.uri, cluster="large", version=large[0])
    assert champions(local_shop.uri) == {"small": small[1], "large": large[0]}
    with pytest.raises(NotFoundError, match="no previous release"):
        rollback_release(tracking_uri=local_shop.uri, cluster="large")
    rollback_release(tracking_uri=local_shop.uri, cluster="small")
    assert champions(local_shop.uri) == {"small": small[0], "large": large[0]}
    assert [record.getMessage() for record in caplog.records if record.name == "lucid.releases"] == [
        f"champion of small: none -> {small[0]}",
        f"champion of small: {small[0]} -> {small[1]}",
        f"champion of large: none -> {large[0]}",
        f"champion of small: {small[1]} -> {small[0]}",
    ]
    assert {release.cluster for release in list_releases(tracking_uri=local_shop.uri)} == {"small", "large"}
    assert {release.cluster for release in list_releases(tracking_uri=local_shop.uri, cluster="large")} == {
        "large"
    }


def test_who_looks_for_a_release_where_nothing_was_kept_makes_no_database(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    for ask in (
        lambda: which_cluster(uri, None),
        lambda: show_release(tracking_uri=uri, cluster="small"),
    ):
        with pytest.raises(NotFoundError, match="No cluster has a release"):
            ask()
    assert list_releases(tracking_uri=uri) == []
    assert not list(tmp_path.iterdir())


def test_a_version_that_holds_another_clusters_release_is_not_shown_as_this_ones(local_shop: Any) -> None:
    registry, version = Registry(local_shop.uri), local_shop.approved(1)
    local_shop.approved(1, cluster="large")
    found = registry.client.get_model_version(release_name("small"), str(version))
    tags = registry.version(found.name, version).tags
    foreign = registry.create_version(
        release_name("large"), found.source, found.run_id, tags, description="copied by hand"
    )
    with pytest.raises(ReleaseRefusedError, match=r"release 2 of large was given on .*lucid-release-small"):
        publish_release(tracking_uri=local_shop.uri, cluster="large", version=foreign)
    with pytest.raises(ReleaseRefusedError, match="is one of lucid-release-small"):
        show_release(tracking_uri=local_shop.uri, cluster="large", version=foreign)
    listed = list_releases(tracking_uri=local_shop.uri)
    assert sorted((release.cluster, release.version) for release in listed) == [("large", 1), ("small", 1)]


def test_the_only_cluster_is_found_and_several_are_listed(local_shop: Any) -> None:
    with pytest.raises(NotFoundError, match="No cluster has a release"):
        which_cluster(local_shop.uri, None)
    local_shop.approved(1)
    assert which_cluster(local_shop.uri, None) == "small"
    local_shop.approved(1, cluster="large")
    with pytest.raises(BadInputError, match=r"Several clusters have releases .*: large, small"):
        which_cluster(local_shop.uri, None)
    assert which_cluster(local_shop.uri, "large") == "large"
    with pytest.raises(BadInputError, match="cannot name a cluster"):
        which_cluster(local_shop.uri, "../large")
    with pytest.raises(NotFoundError, match="clusters with releases: large, small"):
        show_release(tracking_uri=local_shop.uri, cluster="lagre")


def test_a_follower_finds_the_only_cluster_also_when_the_server_is_away(shop: Any, tmp_path: Path) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    shop.approved(1, cluster="large")  # only a challenger: no scheduler follows it yet
    assert followed_cluster(shop.uri, "champion", [tmp_path]) == "small"
    client = ReleaseClient(shop.uri, "champion", tmp_path, cluster="small")
    assert isinstance(client.poll(), LiveRelease)
    shop.server.stop()
    try:
        assert followed_cluster(shop.uri, "champion", [tmp_path]) == "small"
        with pytest.raises(NotFoundError, match=r"on this machine .*did not answer"):
            followed_cluster(shop.uri, "champion", [tmp_path / "elsewhere"])
    finally:
        shop.server.start()
    publish_release(tracking_uri=shop.uri, cluster="large", version=1)
    with pytest.raises(BadInputError, match="large, small"):
        followed_cluster(shop.uri, "champion", [tmp_path])


def test_what_one_cluster_kept_on_disk_is_not_anothers(shop: Any, tmp_path: Path) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    publish_release(tracking_uri=shop.uri, cluster="large", version=shop.approved(2, cluster="large"))
    for cluster in ("small", "large"):
        release = ReleaseClient(shop.uri, "champion", tmp_path, cluster=cluster).poll()
        assert isinstance(release, LiveRelease)
        assert release.manifest.cluster == cluster
    assert isinstance(
        ReleaseClient(shop.uri, "champion", tmp_path, cluster="medium").current, FallbackRelease
    )
    # The folders are swapped by hand: the pointer and the manifest say whose they are.
    (tmp_path / "large").rename(tmp_path / "medium")
    client = ReleaseClient(shop.uri, "champion", tmp_path, cluster="medium")
    assert isinstance(client.current, FallbackRelease)
    assert "of cluster 'large'" in client.current.why
