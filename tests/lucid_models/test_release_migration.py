"""A registry of an older version, one registered model for all clusters, becomes one of today."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from foundation.errors import BadInputError
from live_scheduler.client import ReleaseClient
from live_scheduler.followed_cluster import followed_cluster
from live_scheduler.release import FallbackRelease, LiveRelease
from lucid_cli.release import app
from lucid_models.registry import Registry
from lucid_models.releases.clusters import which_cluster
from lucid_models.releases.lifecycle import (
    build_release,
    list_releases,
    publish_release,
    rollback_release,
    show_release,
)
from lucid_models.releases.manifest import MANIFEST_FILE, OLD_RELEASE_NAME, release_name
from lucid_models.releases.migration import migrate_releases
from lucid_models.releases.store import read_release


class KilledError(Exception):
    """The process died here."""


def old_release(shop: Any, tmp_path: Path, cluster: str, gss: int, *, approved: bool | None = True) -> int:
    """A release as format version 2 had it, with the gate's word on it (None: no word)."""
    registry = Registry(shop.uri)
    today = registry.version(release_name(cluster), shop.approved(1, cluster=cluster, settings={"gss": gss}))
    manifest, files = read_release(registry, today)
    payload = json.dumps(
        manifest.to_data() | {"format_version": 2, "name": OLD_RELEASE_NAME}, indent=1
    ).encode()
    folder = tmp_path / f"{cluster}-{gss}"
    folder.mkdir()
    for file, content in {**files, MANIFEST_FILE: payload}.items():
        (folder / file).write_bytes(content)
    registry.ensure_model(OLD_RELEASE_NAME, "old")
    digest = hashlib.sha256(payload).hexdigest()
    with registry.run("lucid-release", "old") as run:
        run.log_folder(folder, "release")
        version = registry.create_version(
            OLD_RELEASE_NAME,
            run.artifact_uri("release"),
            run.run_id,
            {"cluster": cluster, "manifest_sha256": digest, "tuned_from_release": "1"},
            description="old",
        )
        if approved is not None:
            judged = {"name": OLD_RELEASE_NAME, "version": version, "manifest_sha256": digest}
            verdict = json.dumps({"approved": approved, "sentence": "As it was.", "release": judged}).encode()
            (tmp_path / "verdict").mkdir(exist_ok=True)
            (tmp_path / "verdict" / "verdict.json").write_bytes(verdict)
            run.log_folder(tmp_path / "verdict")
            for key, value in (
                ("verdict_run_id", run.run_id),
                ("verdict_sha256", hashlib.sha256(verdict).hexdigest()),
                ("verdict", "approved" if approved else "refused"),
            ):
                registry.set_version_tag(OLD_RELEASE_NAME, version, key, value)
    return version


def make_old(shop: Any, folder: Path) -> str:
    """Small was live; large's release took its place, as it could; both have newer releases."""
    folder.mkdir()
    versions = [old_release(shop, folder, cluster, gss) for cluster, gss in (("small", 1), ("large", 1))]
    versions.append(old_release(shop, folder, "small", 2, approved=False))
    versions.append(old_release(shop, folder, "large", 2, approved=None))
    registry = Registry(shop.uri)
    for cluster in ("small", "large"):
        registry.client.delete_registered_model(release_name(cluster))
    for alias, version in (("previous", 1), ("champion", 2), ("challenger", 4)):
        registry.set_alias(OLD_RELEASE_NAME, alias, version)
    return str(shop.uri)


@pytest.fixture
def old_registry(local_shop: Any, tmp_path: Path) -> str:
    return make_old(local_shop, tmp_path / "old")


EXPECTED = {"small": {"champion": 1, "challenger": 2}, "large": {"champion": 1, "challenger": 2}}


def aliases(uri: str) -> dict[str, dict[str, int]]:
    return {cluster: Registry(uri).aliases(release_name(cluster)) for cluster in EXPECTED}


@pytest.mark.thorough("over HTTP what others show in a file")
def test_each_clusters_releases_are_copied_with_their_verdicts(shop: Any, tmp_path: Path) -> None:
    uri = make_old(shop, tmp_path / "old")
    for asked in (
        lambda: which_cluster(uri, None),
        lambda: list_releases(tracking_uri=uri),
        lambda: show_release(tracking_uri=uri, cluster="small"),
        lambda: build_release(tracking_uri=uri, cluster="small"),
        lambda: publish_release(tracking_uri=uri, cluster="small"),
        lambda: rollback_release(tracking_uri=uri, cluster="small"),
        lambda: followed_cluster(uri, "champion", [tmp_path]),
    ):
        with pytest.raises(BadInputError, match="lucid release migrate"):
            asked()
    client = ReleaseClient(uri, "champion", tmp_path, cluster="small")
    assert isinstance(client.poll(), FallbackRelease)
    assert "lucid release migrate" in (client.status().problem or "")

    said = {(one.cluster, one.old_version): one for one in migrate_releases(tracking_uri=uri)}
    assert aliases(uri) == EXPECTED
    assert said["small", 1].aliases == ("champion",)
    assert "As it was." in said["small", 3].remark  # refused before, refused now
    assert "no verdict" in said["large", 4].remark
    release = client.poll()
    assert isinstance(release, LiveRelease)
    assert (release.manifest.cluster, release.manifest.name) == ("small", release_name("small"))
    assert release.manifest.settings == {"gss": 1}
    shown = show_release(tracking_uri=uri, cluster="small")
    assert shown.verdict is not None
    assert shown.verdict["migrated_from"]["version"] == 1
    tags = Registry(uri).version(shown.name, shown.version).tags
    assert (tags["migrated_from"], tags["tuned_from_release"]) == ("lucid-release/1", "lucid-release/1")
    # Schedulers of the version before go on, and another try changes nothing.
    assert Registry(uri).aliases(OLD_RELEASE_NAME)["champion"] == 2
    before = [release.run_id for release in list_releases(tracking_uri=uri)]
    migrate_releases(tracking_uri=uri)
    assert [release.run_id for release in list_releases(tracking_uri=uri)] == before
    assert aliases(uri) == EXPECTED


def test_migration_killed_anywhere_ends_right_when_run_again(
    old_registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, left = old_registry, 0

    def dying(method: Any) -> Any:
        def write(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise KilledError
            left -= 1
            return method(*arguments, **named)

        return write

    names = ("create_version", "set_alias", "set_model_tag", "set_version_tag")
    for writes in (0, 1, 3, 5, 6, 7, 8, 12):
        left = writes
        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(Registry, name, dying(getattr(Registry, name)))
            with pytest.raises(KilledError):
                migrate_releases(tracking_uri=uri)
        with pytest.raises(BadInputError, match="lucid release migrate"):
            which_cluster(uri, None)
    migrate_releases(tracking_uri=uri)
    assert aliases(uri) == EXPECTED
    for cluster in EXPECTED:
        publish_release(tracking_uri=uri, cluster=cluster, version=1)
        assert len(Registry(uri).versions(release_name(cluster))) == 2


def test_what_does_not_verify_is_left_behind_or_not_made_champion(old_registry: str) -> None:
    registry = Registry(old_registry)
    registry.set_version_tag(OLD_RELEASE_NAME, 1, "manifest_sha256", "0" * 64)
    registry.set_version_tag(OLD_RELEASE_NAME, 2, "verdict_sha256", "0" * 64)
    said = {one.old_version: one for one in migrate_releases(tracking_uri=old_registry)}
    assert said[1].version is None
    assert "not the one that its tag pins" in said[1].remark
    assert said[2].aliases == ()
    assert "not made champion: Its verdict was changed" in said[2].remark
    assert aliases(old_registry) == {"small": {"challenger": 1}, "large": {"challenger": 2}}


def test_a_registry_of_today_has_nothing_to_migrate(local_shop: Any) -> None:
    version = local_shop.approved(1)
    done = CliRunner().invoke(app, ["migrate", "--tracking-uri", local_shop.uri, "--json"])
    assert json.loads(done.stdout) == {"migrated": []}
    assert show_release(tracking_uri=local_shop.uri, cluster="small", alias="challenger").version == version
