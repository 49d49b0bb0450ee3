"""Installed parts bring kinds of models and fields of releases; what is lacking is named by its part."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from foundation.errors import NotFoundError, ReleaseRefusedError, UnknownNameError
from foundation.parts import Part
from lucid_models.catalogue import CatalogueEntry, catalogue, load_catalogue_entry
from lucid_models.model_format import CorruptModelError, make_document
from lucid_models.releases.manifest import (
    CorruptManifestError,
    ModelPin,
    Provenance,
    ReleaseManifest,
    Training,
    parse_manifest,
)
from lucid_models.releases.optional_parts import OptionalPart, asked_kinds, optional_kinds
from lucid_models.scoring import scorer_from_document

MODELS = {
    kind: ModelPin(f"lucid-{kind}", number, f"{kind}.json", str(number) * 64, 10)
    for number, kind in enumerate(("packing", "throughput", "duration"), 1)
}
MANIFEST = ReleaseManifest(
    name="lucid-release-small",
    created="2020-09-01T00:00:00+00:00",
    cluster="small",
    models=MODELS,
    settings={"gss": 2},
    training=Training(None, {}),
    provenance=Provenance(simulated_profiles=False, synthetic_logs=False),
)
RAIN = CatalogueEntry(
    kind="rain",
    title="Rain Model",
    predicts="rain",
    command="rain",
    learner="tests.lucid_models.test_models_of_parts:Rain",
    scorer="tests.lucid_models.test_models_of_parts:Rain.from_data",
    frame="",
    lower_is_better="mae",
)
SHELTER = OptionalPart(
    field="shelter",
    what="shelter",
    kind="rain",
    setting="by",
    settings="builtins:dict",
    check="builtins:id",
)
WEATHER = Part(
    "weather",
    "Weather",
    models={"rain": "tests.lucid_models.test_models_of_parts:RAIN"},
    manifest={"shelter": "tests.lucid_models.test_models_of_parts:SHELTER"},
)


class Rain:
    kind = "rain"

    @classmethod
    def from_data(cls, document: Any) -> "Rain":
        return cls()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What is installed: nothing, until a test says so."""
    world = SimpleNamespace(parts=())
    monkeypatch.setattr("foundation.parts.installed_parts", lambda: world.parts)
    return world


def test_a_part_adds_a_kind_of_model_that_is_scored_and_pinned(installed: SimpleNamespace) -> None:
    assert set(catalogue()) == set(MODELS)
    with pytest.raises(UnknownNameError, match="duration, packing, throughput"):
        load_catalogue_entry("rain")
    installed.parts = (WEATHER,)
    assert load_catalogue_entry("rain").title == "Rain Model"
    assert isinstance(scorer_from_document(make_document("rain", {})), Rain)
    assert optional_kinds() == ("rain",)
    assert asked_kinds({"shelter": {"by": "forecast"}}) == ("rain",)
    assert asked_kinds({"shelter": {"by": "habit"}}) == ()
    pinned = MODELS | {"rain": ModelPin("lucid-rain", 1, "rain.json", "9" * 64, 10)}
    sheltered = replace(MANIFEST, models=pinned, parts={"shelter": {"by": "forecast"}})
    assert parse_manifest(sheltered.to_bytes()) == sheltered
    assert json.loads(MANIFEST.to_bytes())["format_version"] == 3
    installed.parts = ()
    with pytest.raises(CorruptManifestError, match="shelter"):
        parse_manifest(sheltered.to_bytes())


@pytest.mark.parametrize(
    ("field", "kind", "part", "version"),
    [
        ("node_sleep", "node_demand", "node_sleep", 4),
        ("loaning", "inference_load", "lending", 5),
        ("waits", "waits", "waits", 6),
    ],
)
def test_a_release_that_needs_a_part_is_refused_by_its_name(
    installed: SimpleNamespace, field: str, kind: str, part: str, version: int
) -> None:
    pinned = MODELS | {kind: ModelPin(f"lucid-{kind}", 1, f"{kind}.json", "9" * 64, 10)}
    asking = replace(MANIFEST, models=pinned, parts={field: {"usage": "forecast"}})
    document = json.loads(asking.to_bytes())
    assert document["format_version"] == version
    for needs in (document, {**document, field: None}):
        with pytest.raises(
            ReleaseRefusedError, match=f"part '{part}'.*pip install ./parts/{part}"
        ) as refused:
            parse_manifest(json.dumps(needs).encode())
        assert not isinstance(refused.value, CorruptManifestError)
    with pytest.raises(NotFoundError, match=part):
        load_catalogue_entry(kind)
    with pytest.raises(CorruptModelError, match=f"part '{part}'"):
        make_document(kind, {})


def test_a_release_that_says_nothing_of_parts_is_read_without_them(installed: SimpleNamespace) -> None:
    said = {"node_sleep": None, "loaning": None, "waits": None}
    for version, fields in ((3, 0), (4, 1), (5, 2), (6, 3)):
        document = MANIFEST.to_data() | dict(list(said.items())[:fields]) | {"format_version": version}
        assert parse_manifest(json.dumps(document).encode()) == MANIFEST
    lacks = MANIFEST.to_data() | {"format_version": 6}
    with pytest.raises(CorruptManifestError, match="lacks the fields"):
        parse_manifest(json.dumps(lacks).encode())
