import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.errors import LucidError
from lucid_models.model_format import (
    FORMAT_VERSION,
    CorruptModelError,
    FormatVersionError,
    load_model,
    make_document,
    parse_model,
    save_model,
)
from lucid_models.scoring import (
    PackingScorer,
    Scorer,
    ThroughputScorer,
    load_scorer,
    scorer_from_document,
)
from parts.lending.usage.scorer import InferenceLoadScorer
from parts.node_sleep.demand.scorer import NodeDemandScorer
from parts.waits.model.scorer import WaitScorer
from tests.lucid_models.model_conformance import RUBBISH, changed_at, leaves


@pytest.fixture(scope="session")
def documents(
    packing_model,
    throughput_model,
    duration_model,
    node_demand_model,
    inference_load_model,
    wait_model,
) -> dict[str, dict[str, Any]]:
    models = (
        packing_model,
        throughput_model,
        duration_model,
        node_demand_model,
        inference_load_model,
        wait_model,
    )
    return {model.kind: model.to_data() for model in models}


def use(
    scorer: Scorer,
) -> np.ndarray:
    """Predictions of whatever was loaded."""
    if isinstance(scorer, PackingScorer):
        return scorer.predict([10.0, np.nan], [5.0, 50.0], [2e3, 2e4], [0, 1]).astype(float)
    if isinstance(scorer, ThroughputScorer):
        return scorer.predict_next(np.arange(300) % 7, 1_600_000_000, 7)
    if isinstance(scorer, NodeDemandScorer):
        said = scorer.forecast(np.arange(3_000.0) % 7, 1_600_200_000.0)
        return np.array([said.near_mean, said.far_mean, *said.near_peak.values()])
    if isinstance(scorer, InferenceLoadScorer):
        ahead = scorer.forecast(np.arange(900.0) % 7 / 7, 1_600_200_000.0)
        return np.array([ahead.mean, *ahead.quantiles.values()])
    if isinstance(scorer, WaitScorer):
        rows = np.linspace(-3.0, 9.0, 3 * len(scorer.features.names)).reshape(3, -1)
        return scorer.forecast_rows(rows, ["cpu", "gpu", "new"])
    job = {"job_id": "q", "gpus": 4, "user": "u1", "name": "net1_lr0", "virtual_cluster": "vc1"}
    estimate = scorer.estimate([job], at_s=1_587_000_000.0)[0]
    return np.array([estimate.p50_s, estimate.p90_s, estimate.mean_s])


def test_a_saved_model_says_its_version_and_comes_back_whole(documents, tmp_path: Path) -> None:
    for kind, document in documents.items():
        path = tmp_path / f"{kind}.json"
        digest = save_model(document, path)
        assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
        loaded = load_model(path, kind=kind)
        assert loaded["format_version"] == FORMAT_VERSION
        assert loaded == json.loads(json.dumps(document))
        assert save_model(load_scorer(path).to_data(), tmp_path / "again.json") == digest
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.json",
        *sorted(f"{kind}.json" for kind in documents),
    ]


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


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_value_is_refused_or_still_gives_finite_predictions(documents, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(documents)))
    document = documents[kind]
    places = [path for path in leaves(document) if path and "training" not in path]
    changed = changed_at(document, data.draw(st.sampled_from(places)), data.draw(RUBBISH))
    try:
        payload = json.dumps(changed).encode()
        scorer = scorer_from_document(parse_model(payload))
    except (FormatVersionError, CorruptModelError):
        return
    predictions = use(scorer)
    assert np.isfinite(predictions).all()
    assert (predictions >= 0).all()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    cut=st.floats(0, 1),
    noise=st.binary(min_size=1, max_size=8),
    keep_tail=st.booleans(),
)
def test_damaged_bytes_are_refused_or_still_give_finite_predictions(
    documents, data: st.DataObject, cut: float, noise: bytes, keep_tail: bool
) -> None:
    kind = data.draw(st.sampled_from(sorted(documents)))
    payload = json.dumps(documents[kind]).encode()
    position = int(cut * len(payload))
    damaged = payload[:position] + noise + (payload[position + len(noise) :] if keep_tail else b"")
    try:
        scorer = scorer_from_document(parse_model(damaged))
    except LucidError as error:
        assert isinstance(error, FormatVersionError | CorruptModelError)  # noqa: PT017
        return
    assert np.isfinite(use(scorer)).all()


def test_a_model_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    few = b'{"format": "lucid-model", "items": [' + b"[]," * 50 + b"[]]}"
    monkeypatch.setattr("lucid_models.model_format.MAX_VALUES", 100)
    monkeypatch.setattr("lucid_models.model_format.json.loads", lambda *_, **__: pytest.fail("parsed"))
    with pytest.raises(CorruptModelError, match="holds 104 values; a model holds at most 100"):
        parse_model(few)
