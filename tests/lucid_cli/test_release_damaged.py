"""A release whose manifest was changed: the verdict on it has the same shape as any other."""

from pathlib import Path

from lucid_models.registry import Registry
from tests.command_line import Lucid
from tests.fixtures import ReleaseShop


def test_a_damaged_release_is_refused_with_a_verdict_of_the_usual_shape(
    lucid: Lucid, shop: ReleaseShop, tmp_path: Path
) -> None:
    version = shop.approved(1)
    Registry(shop.uri).set_version_tag("lucid-release-small", version, "manifest_sha256", "0" * 64)
    said = lucid(
        *("release", "validate", "--cluster", "small", "--version", str(version), "--lake", tmp_path),
        *("--tracking-uri", shop.uri, "--json"),
    )
    assert said.code == 2, said.err
    document = said.json
    assert (document["name"], document["version"]) == ("lucid-release-small", version)
    assert (document["alias"], document["models"], document["settings"]) == (None, {}, {})
    assert document["verdict"]["approved"] is False
    assert "It was changed after it was built" in document["verdict"]["constraints"][0]["sentence"]
