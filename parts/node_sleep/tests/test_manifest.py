"""Sleeping nodes in a release's manifest."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lucid_models.releases.manifest import CorruptManifestError, ModelPin, parse_manifest
from tests.lucid_models.test_manifest import MANIFEST

SLEEPING = replace(
    MANIFEST,
    models={
        **MANIFEST.models,
        "node_demand": ModelPin("lucid-node-demand", 4, "node_demand.json", "4" * 64, 9),
    },
    parts={"node_sleep": {"control": "forecast", "buffer_nodes": 16, "near_bins": 30, "boot_s": 300.0}},
)


def test_a_release_with_sleeping_nodes_is_of_version_4() -> None:
    assert json.loads(SLEEPING.to_bytes())["format_version"] == 4
    assert parse_manifest(SLEEPING.to_bytes()) == SLEEPING
    plain = replace(MANIFEST, parts={"node_sleep": {"control": "buffer", "buffer_nodes": 30}})
    assert json.loads(plain.to_bytes())["format_version"] == 4
    assert parse_manifest(plain.to_bytes()) == plain
    assert plain.content_sha256() != MANIFEST.content_sha256()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"node_sleep": None}, "node_sleep"),  # a forecast that nothing asks
        ({"format_version": 3}, "node_sleep"),  # version 3 had no such part
        ({"node_sleep": {"control": {"name": "forecast"}}}, "flat object"),
        ({"node_sleep": "forecast"}, "flat object"),
        ({"models": {kind: vars(pin) for kind, pin in MANIFEST.models.items()}}, "node_sleep.control"),
    ],
)
def test_a_part_of_sleeping_nodes_that_does_not_hold_is_refused(change: dict[str, Any], named: str) -> None:
    document = SLEEPING.to_data() | change
    if change == {"format_version": 3}:
        del document["node_sleep"]
    with pytest.raises(CorruptManifestError, match=named):
        parse_manifest(json.dumps(document).encode())


def test_a_saved_manifest_of_version_4_says_nothing_of_servers_on_loan() -> None:
    saved = Path(__file__).parent / "saved" / "manifest_version_4.json"
    manifest = parse_manifest(saved.read_bytes())
    assert "node_sleep" in manifest.parts
    assert "loaning" not in manifest.parts
    assert manifest.to_bytes() == saved.read_bytes()  # an older scheduler still reads such releases
