import json
from pathlib import Path
from typing import Any

import pytest

from lucid_models.model_format import (
    FORMAT_VERSION,
    CorruptModelError,
    FormatVersionError,
    load_model,
    make_document,
    parse_model,
    save_model,
)
from lucid_models.scoring import load_scorer


@pytest.fixture(scope="session")
def documents(packing_model, throughput_model) -> dict[str, dict[str, Any]]:
    return {model.kind: model.to_data() for model in (packing_model, throughput_model)}


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, "1", 1.0, True, None])
def test_another_version_is_refused_by_name(documents, version: object) -> None:
    changed = {**documents["packing"], "format_version": version}
    with pytest.raises(FormatVersionError, match=r"version"):
        parse_model(json.dumps(changed).encode())


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"", "not the JSON"),
        (b"\x80\x04\x95\x10\x00\x00\x00", "not the JSON"),  # how a pickle begins
        (b"[" * 200_000, "not the JSON"),
        (b'{"format": "lucid-model", "format_version": 1, "kind": "packing", "model": {"a": NaN}}', "NaN"),
        (b'{"format": "lucid-model", "format": "lucid-model"}', "twice"),
        (b'{"format": "something-else"}', "format"),
        (b'{"format": "lucid-model", "format_version": 1, "kind": "weather", "model": {}}', "weather"),
        (b'{"format": "lucid-model", "format_version": 1, "kind": "packing", "model": []}', "no model data"),
        (b"1" * 5_000, "not the JSON"),
        ("\ud800".encode("utf-8", "surrogatepass"), "not the JSON"),
    ],
)
def test_what_is_not_a_model_is_called_corrupt(payload: bytes, says: str) -> None:
    with pytest.raises(CorruptModelError, match=says):
        parse_model(payload)


def test_a_missing_file_and_the_wrong_kind_are_named(documents, tmp_path: Path) -> None:
    with pytest.raises(CorruptModelError, match=r"absent\.json cannot be read"):
        load_model(tmp_path / "absent.json")
    save_model(documents["packing"], tmp_path / "packing.json")
    with pytest.raises(CorruptModelError, match="packing model where a duration model"):
        load_model(tmp_path / "packing.json", kind="duration")


def test_an_oversized_file_is_refused_unread(
    documents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(documents["throughput"], tmp_path / "m.json")
    monkeypatch.setattr("lucid_models.model_format.MAX_FILE_BYTES", 1_000)
    with pytest.raises(CorruptModelError, match="at most 1000"):
        load_scorer(tmp_path / "m.json")
    with pytest.raises(CorruptModelError, match="1000"):
        save_model(documents["throughput"], tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_only_plain_finite_values_can_be_saved(tmp_path: Path, value: object) -> None:
    with pytest.raises(CorruptModelError):
        save_model(make_document("packing", {"x": value}), tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    few = b'{"format": "lucid-model", "items": [' + b"[]," * 50 + b"[]]}"
    monkeypatch.setattr("lucid_models.model_format.MAX_VALUES", 100)
    monkeypatch.setattr("lucid_models.model_format.json.loads", lambda *_, **__: pytest.fail("parsed"))
    with pytest.raises(CorruptModelError, match="holds 104 values; a model holds at most 100"):
        parse_model(few)
