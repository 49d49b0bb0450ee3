"""What every kind of model promises, and what its saved form is damaged with; parts use it, too."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.errors import LucidError
from lucid_models.explanation.axes import feature_words
from lucid_models.explanation.model_card import CardFacts, build_model_card, summarise_card
from lucid_models.explanation.plots import draw_explanations
from lucid_models.model_format import (
    FORMAT_VERSION,
    CorruptModelError,
    FormatVersionError,
    load_model,
    parse_model,
    save_model,
)
from lucid_models.scoring import load_scorer, scorer_from_document

# What a live client does not have installed, or does not wait for.
HEAVY = ("pandas", "sklearn", "interpret", "mlflow", "pyarrow", "scipy", "lightgbm", "matplotlib", "airflow")
LIVE_CLIENT = """
import json, sys
import numpy as np
import lucid_models.duration.features, lucid_models.model_format
from lucid_models.scoring import load_scorer
scorer = load_scorer(sys.argv[1])
exec(sys.argv[2])
loaded = [name for name in sys.argv[3].split(",") if name in sys.modules]
print(json.dumps([np.asarray(numbers).tolist(), loaded]))
"""
# A test of the class runs in each kind's own class, and `case` is the same for all examples.
EACH_EXAMPLE = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
}


@dataclass(frozen=True)
class Case:
    """A kind, the fixtures of a trained model and of its table, and how they are asked.

    `live`: what a live client asks, statements that use `scorer` and numpy (`np`) and leave `numbers`.
    """

    kind: str
    fixture: str
    predict: Callable[[Any, Any], np.ndarray]
    score: Callable[[Any, Any], np.ndarray]
    local: Callable[[Any, Any], dict]
    table: str
    pictures: set[str]
    live: str

    def asked(self, scorer: Any) -> np.ndarray:
        names = {"scorer": scorer, "np": np}
        exec(self.live, names)
        return np.asarray(names["numbers"], dtype=float)


class ModelConformance:
    """Promises of a kind of model. The fixture `case` gives its case, a trained model and its table."""

    @pytest.mark.slow
    def test_saved_form_is_plain_json_and_gives_the_same_model(self, case) -> None:
        one, model, data = case
        document = json.loads(json.dumps(model.to_data(), allow_nan=False))
        twin = type(model).from_data(document)
        np.testing.assert_array_equal(one.predict(twin, data), one.predict(model, data))
        assert twin.to_data() == model.to_data()

    def test_the_live_scorer_equals_the_model(self, case) -> None:
        one, model, data = case
        scorer = scorer_from_document(json.loads(json.dumps(model.to_data())))
        np.testing.assert_allclose(one.score(scorer, data), one.predict(model, data), rtol=0, atol=1e-9)

    def test_predictions_are_finite_and_not_negative(self, case) -> None:
        one, model, data = case
        predicted = one.predict(model, data)
        assert np.isfinite(predicted).all()
        assert (predicted >= 0).all()

    def test_a_saved_model_says_its_version_and_comes_back_whole(self, case, tmp_path: Path) -> None:
        _, model, _ = case
        document, path = model.to_data(), tmp_path / "model.json"
        digest = save_model(document, path)
        assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
        loaded = load_model(path, kind=model.kind)
        assert loaded["format_version"] == FORMAT_VERSION
        assert loaded == json.loads(json.dumps(document))
        assert save_model(load_scorer(path).to_data(), tmp_path / "again.json") == digest
        assert sorted(path.name for path in tmp_path.iterdir()) == ["again.json", "model.json"]

    @pytest.mark.slow
    @settings(max_examples=30, **EACH_EXAMPLE)
    @given(data=st.data())
    def test_a_changed_value_is_refused_or_still_gives_finite_predictions(self, case, data) -> None:
        one, model, _ = case
        document = model.to_data()
        places = [path for path in leaves(document) if path and "training" not in path]
        changed = changed_at(document, data.draw(st.sampled_from(places)), data.draw(RUBBISH))
        try:
            scorer = scorer_from_document(parse_model(json.dumps(changed).encode()))
        except (FormatVersionError, CorruptModelError):
            return
        predictions = one.asked(scorer)
        assert np.isfinite(predictions).all()
        assert (predictions >= 0).all()

    @settings(max_examples=20, **EACH_EXAMPLE)
    @given(cut=st.floats(0, 1), noise=st.binary(min_size=1, max_size=8), keep_tail=st.booleans())
    def test_damaged_bytes_are_refused_or_still_give_finite_predictions(
        self, case, cut: float, noise: bytes, keep_tail: bool
    ) -> None:
        one, model, _ = case
        payload = json.dumps(model.to_data()).encode()
        position = int(cut * len(payload))
        damaged = payload[:position] + noise + (payload[position + len(noise) :] if keep_tail else b"")
        try:
            scorer = scorer_from_document(parse_model(damaged))
        except LucidError as error:
            assert isinstance(error, FormatVersionError | CorruptModelError)  # noqa: PT017
            return
        assert np.isfinite(one.asked(scorer)).all()

    def test_a_live_client_needs_numpy_only(self, case, tmp_path: Path) -> None:
        one, model, _ = case
        save_model(model.to_data(), tmp_path / "model.json")
        done = subprocess.run(
            [sys.executable, "-c", LIVE_CLIENT, str(tmp_path / "model.json"), one.live, ",".join(HEAVY)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        numbers, loaded = json.loads(done.stdout)
        assert loaded == []
        np.testing.assert_array_equal(
            np.array(numbers, dtype=float), one.asked(scorer_from_document(model.to_data()))
        )

    @pytest.mark.slow
    def test_explanations_are_data_and_can_be_drawn(self, case, tmp_path: Path) -> None:
        one, model, data = case
        explained, local = model.explain_global(), one.local(model, data)
        json.dumps([explained, local], allow_nan=False)
        assert max(explained["importances"].values()) > 0
        assert {"model", "unit", "importances"} <= set(explained)
        assert {"model", "unit", "prediction"} <= set(local)
        assert explained["model"] == local["model"] == model.kind == one.kind
        for shape in explained.get("shapes", {}).values():
            assert (
                len(shape["scores"]) == len(shape["spread"]) == len(shape["rows"]) == len(shape["cuts"]) + 1
            )
        drawn = draw_explanations(explained, tmp_path, local=local)
        assert {path.name for path in drawn} >= one.pictures
        # Besides those, the shapes of the most important features.
        assert all(path.name.startswith("shape_") for path in drawn if path.name not in one.pictures)
        for path in drawn:
            assert path.read_bytes().startswith(b"\x89PNG")
            assert path.stat().st_size > 5_000

    def test_a_card_says_data_split_metrics_and_rivals(self, case) -> None:
        _, model, _ = case
        facts = CardFacts(
            kind=model.kind,
            data="a log",
            training_window="April",
            test_window="May",
            split="by time",
            metrics={"rows": 7.0, "mae": 3.8500000001},
            baselines={"last_value": {"mae": 4.83}},
            rows={"rows_trained": 1_700},
            synthetic=True,
            notes=("No nodes of <b>.",),
        )
        card = build_model_card(facts)
        for text in (
            "April",
            "May",
            "by time",
            "| **this model** | 7 | 3.85 |",
            "| last_value | – | 4.83 |",
            "synthetic",
            "## Limits",
        ):
            assert text in card
        summary = summarise_card(facts, "experiments/2/runs/abc", cluster="a_b")
        for text in (
            "- cluster: a\\_b",
            "April (1,700 rows trained)",
            "**3.85**; naive baselines: last value 4.83",
            "synthetic",
            "&lt;b&gt;",
            "](#/experiments/2/runs/abc)",
        ):
            assert text in summary
        assert "<" not in summary

    def test_no_name_of_a_feature_reaches_a_picture(self, case) -> None:
        _, model, _ = case
        for term in model.explain_global()["importances"]:
            assert not {"_", ":"} & set(feature_words(term)), term
            assert "log" not in feature_words(term).split()


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to values of a JSON document; of a long list only its ends."""
    if isinstance(node, dict):
        return [path, *(leaf for key, item in node.items() for leaf in leaves(item, (*path, key)))]
    if isinstance(node, list):
        ends = sorted({*range(min(2, len(node))), *range(max(len(node) - 1, 0), len(node))})
        return [path, *(leaf for i in ends for leaf in leaves(node[i], (*path, i)))]
    return [path]


def changed_at(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    if value is DELETE and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = changed_at(copy[path[0]], path[1:], value)
    return copy


DELETE = object()
RUBBISH = st.sampled_from(
    [
        DELETE,
        None,
        True,
        -1,
        0,
        2,
        10**400,
        1e300,
        -1e300,
        0.5,
        "",
        "x",
        "__import__('os')",
        [],
        [[]],
        {},
        [1, "a"],
    ]
)
