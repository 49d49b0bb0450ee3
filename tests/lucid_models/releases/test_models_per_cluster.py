"""Each cluster's models are versions of registered models of its own; earlier ones are still found."""

from typing import Any

import pytest

from foundation.errors import NotFoundError
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.building import choose_versions, find_model_version, model_name, model_versions
from lucid_models.releases.lifecycle import build_release


def register_again(registry: Registry, version: RegisteredVersion, name: str, **tags: str) -> int:
    """The same file once more, under another name, as a later training would."""
    source = registry.client.get_model_version(version.name, str(version.version)).source
    registry.ensure_model(name, "test")
    return registry.create_version(
        name, source, version.run_id, {**version.tags, **tags}, description="test", model_id=source[8:]
    )


def test_what_versions_before_registered_is_found_until_the_cluster_has_its_own(local_shop: Any) -> None:
    registry = Registry(local_shop.uri)
    before = choose_versions(registry, "small", {})
    assert {kind: (found.name, found.version) for kind, found in before.items()} == {
        "packing": ("lucid-packing", 2),
        "throughput": ("lucid-throughput", 2),
        "duration": ("lucid-duration", 2),
    }
    name = model_name("duration", "small")
    assert name == "lucid-duration-small"
    assert register_again(registry, before["duration"], name) == 1
    built = build_release(tracking_uri=local_shop.uri, cluster="small")
    assert (built.models["duration"]["name"], built.models["duration"]["version"]) == (name, 1)
    assert built.models["throughput"]["name"] == "lucid-throughput"
    found = [(one.name, one.version) for one in model_versions(registry, "duration", "small")]
    assert found == [(name, 1), ("lucid-duration", 2), ("lucid-duration", 1)]
    assert find_model_version(registry, "duration", "small", 1).name == name
    assert find_model_version(registry, "duration", "small", 2).name == "lucid-duration"
    with pytest.raises(NotFoundError, match="no version 9 of lucid-duration-small"):
        find_model_version(registry, "duration", "small", 9)


def test_no_cluster_gets_a_model_of_anothers_gpus(local_shop: Any) -> None:
    registry = Registry(local_shop.uri)
    packing = registry.version("lucid-packing", 1)
    register_again(registry, packing, model_name("packing", "large"), cluster="large")
    chosen = choose_versions(registry, "small", {})["packing"]
    assert (chosen.name, chosen.version) == ("lucid-packing", 2)
    assert model_versions(registry, "packing", "large")[0].name == "lucid-packing-large"
