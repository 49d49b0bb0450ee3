"""Servers on loan in a release's manifest."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lucid_models.releases.manifest import CorruptManifestError, ModelPin, parse_manifest
from tests.lucid_models.test_manifest import MANIFEST
from tests.needs_part import needs_part

LENDING = replace(
    MANIFEST,
    models={
        **MANIFEST.models,
        "inference_load": ModelPin("lucid-inference-load", 2, "inference_load.json", "5" * 64, 9),
    },
    parts={"loaning": {"usage": "forecast", "headroom": 0.02, "lend": "demand", "hysteresis_servers": 1}},
)


def test_a_release_with_servers_on_loan_is_of_version_5() -> None:
    assert json.loads(LENDING.to_bytes())["format_version"] == 5
    assert parse_manifest(LENDING.to_bytes()) == LENDING
    assert LENDING.content_sha256() != MANIFEST.content_sha256()


@needs_part("node_sleep")
def test_a_release_may_have_sleeping_nodes_too() -> None:
    demand = {"node_demand": ModelPin("lucid-node-demand", 4, "node_demand.json", "4" * 64, 9)}
    sleeping = replace(
        MANIFEST,
        models={**MANIFEST.models, **demand},
        parts={"node_sleep": {"control": "forecast", "buffer_nodes": 16, "near_bins": 30, "boot_s": 300.0}},
    )
    both = replace(LENDING, models={**demand, **LENDING.models}, parts={**sleeping.parts, **LENDING.parts})
    assert parse_manifest(both.to_bytes()) == both
    assert len({one.content_sha256() for one in (MANIFEST, sleeping, LENDING, both)}) == 4
    document = LENDING.to_data() | {"node_sleep": {"control": "forecast"}}
    with pytest.raises(CorruptManifestError, match=r"node_sleep\.control"):
        parse_manifest(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"loaning": None}, "servers on loan"),  # a forecast that nothing asks
        ({"format_version": 4}, "loaning"),  # version 4 had no such part
        ({"loaning": {"usage": ["forecast"]}}, "flat object"),
        ({"models": {kind: vars(pin) for kind, pin in MANIFEST.models.items()}}, r"loaning\.usage"),
    ],
)
def test_a_part_of_servers_on_loan_that_does_not_hold_is_refused(change: dict[str, Any], named: str) -> None:
    document = LENDING.to_data() | change
    if change == {"format_version": 4}:
        del document["loaning"]
    with pytest.raises(CorruptManifestError, match=named):
        parse_manifest(json.dumps(document).encode())
