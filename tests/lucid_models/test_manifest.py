import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from lucid_models.releases.manifest import (
    CorruptManifestError,
    ManifestVersionError,
    ModelPin,
    Provenance,
    ReleaseManifest,
    Training,
    cluster_of,
    parse_manifest,
    release_name,
)
from tests.evidence import Evidence

MANIFEST = ReleaseManifest(
    name="lucid-release-venus",
    created="2020-09-01T00:00:00+00:00",
    cluster="venus",
    models={
        kind: ModelPin(f"lucid-{kind}", number, f"{kind}.json", f"{number}" * 64, 100)
        for number, kind in enumerate(("packing", "throughput", "duration"), start=1)
    },
    settings={"gss": 2, "profiling_s": 200.0},
    training=Training("2020-08-31T00:00:00+00:00", {"duration": "d" * 64}),
    provenance=Provenance(simulated_profiles=False, synthetic_logs=True),
)


def test_reads_what_it_wrote() -> None:
    again = parse_manifest(MANIFEST.to_bytes())
    assert again == MANIFEST
    assert again.to_bytes() == MANIFEST.to_bytes()


@given(
    cluster=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", fullmatch=True),
    settings=st.dictionaries(
        st.text(max_size=8), st.integers() | st.booleans() | st.text(max_size=8), max_size=4
    ),
    simulated=st.booleans(),
)
def test_any_content_survives_the_round_trip(cluster: str, settings: dict[str, Any], simulated: bool) -> None:
    manifest = replace(
        MANIFEST,
        name=release_name(cluster),
        cluster=cluster,
        settings=settings,
        provenance=Provenance(simulated, not simulated),
    )
    again = parse_manifest(manifest.to_bytes())
    assert again == manifest
    assert again.sha256() == manifest.sha256()
    assert cluster_of(manifest.name) == cluster


def test_a_saved_manifest_of_version_3_says_nothing_of_sleeping_nodes() -> None:
    saved = Path(__file__).parent / "saved" / "manifest_version_3.json"
    manifest = parse_manifest(saved.read_bytes())
    assert "node_sleep" not in manifest.parts
    assert set(manifest.models) == {"packing", "throughput", "duration"}
    assert manifest.to_bytes() == saved.read_bytes()  # an older scheduler still reads such releases


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a:b", "a b", "-a", "a\n", "ä", "a" * 101])
def test_no_registered_model_is_named_after_what_names_no_cluster(name: str) -> None:
    with pytest.raises(BadInputError, match="cannot name a cluster"):
        release_name(name)
    assert cluster_of(f"lucid-release-{name}") is None
    assert cluster_of("lucid-release") is None


def test_a_policy_and_how_it_was_chosen_survive_the_round_trip() -> None:
    choice = {"search": "0" * 32, "point": "12", "preference": [["jct", "avg"], ["pred_err", "p99"]]}
    manifest = replace(
        MANIFEST, policy="pcs", settings={"thresholds_s": [1176.0], "weights": [0.9, 0.1]}, choice=choice
    )
    assert parse_manifest(manifest.to_bytes()) == manifest
    assert manifest.content_sha256() != replace(manifest, choice=None).content_sha256()


def test_time_of_creation_is_no_content() -> None:
    later = replace(MANIFEST, created="2021-01-01T00:00:00+00:00")
    assert later.content_sha256() == MANIFEST.content_sha256()
    assert later.sha256() != MANIFEST.sha256()
    assert replace(MANIFEST, settings={"gss": 1}).content_sha256() != MANIFEST.content_sha256()


def test_60_and_60_0_are_one_release() -> None:
    whole, broken = (
        replace(MANIFEST, settings={"profiling_limit_s": limit, "weights": [limit, 0.5]})
        for limit in (60, 60.0)
    )
    assert whole.content_sha256() == broken.content_sha256()
    assert whole.content_sha256() != replace(MANIFEST, settings={"profiling_limit_s": 61}).content_sha256()


def changed(**changes: Any) -> bytes:
    document = MANIFEST.to_data()
    for path, value in changes.items():
        place = document
        *parents, last = path.split("__")
        for parent in parents:
            place = place[parent]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return json.dumps(document).encode()


@pytest.mark.evidence(table="faults", rows=("13", "21"))
@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (changed(cluster=...), "cluster"),
        (changed(surprise=1), "surprise"),
        (changed(models__packing__sha256="abc"), "sha256"),
        (changed(models__packing__file="../../etc/passwd"), "file"),
        (changed(models__packing__file=".hidden"), "file"),
        (changed(models__packing__file="duration.json"), "files"),
        (changed(models__packing__file="manifest.json"), "files"),
        (changed(models__packing__version=True), "version"),
        (changed(models__packing__version=0), "version"),
        (changed(models__packing__bytes=1.5), "bytes"),
        (changed(models__duration=...), "duration"),
        (changed(provenance__synthetic_logs="yes"), "synthetic_logs"),
        (changed(training__until="yesterday"), "until"),
        (changed(created="2020-09-01T00:00:00"), "created"),
        (changed(settings__gss=float("nan")), "NaN"),
        (changed(policy="../pcs"), "policy"),
        (changed(policy=None), "policy"),
        (changed(name="lucid-release"), "name"),
        (changed(name="lucid-release-earth"), "name"),
        (changed(cluster="earth"), "name"),
        (changed(choice="the third"), "choice"),
        (b"", "not JSON"),
        (b"[]", "object"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (MANIFEST.to_bytes().replace(b"{", b'{"cluster": "venus",', 1), "'cluster' stands twice"),
        (changed(settings__gss=json.loads("[" * 70 + "]" * 70)), "nested deeper"),
        (b" " * (1024 * 1024 + 1), "bytes"),
    ],
)
def test_refuses_what_it_does_not_know(payload: bytes, named: str, evidence: Evidence) -> None:
    with pytest.raises(CorruptManifestError, match=named) as refused:
        parse_manifest(payload)
    if payload.startswith(b"[["):
        evidence("faults", "13", f"Refused: {refused.value}")
    elif b'"settings"' in payload and named == "NaN":
        evidence("faults", "21", f"Refused: {refused.value}")


@pytest.mark.parametrize("version", [7, 0, 1, 2, "3", None, True, 3.0])
def test_refuses_other_format_versions(version: object) -> None:
    with pytest.raises(ManifestVersionError, match="format version"):
        parse_manifest(changed(format_version=version))
