"""What every kind of model promises, and what its saved form is damaged with; parts use it, too."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from lucid_models.explanation.model_card import CardFacts, build_model_card, summarise_card
from lucid_models.explanation.plots import draw_explanations
from lucid_models.scoring import scorer_from_document


@dataclass(frozen=True)
class Case:
    fixture: str
    predict: Callable[[Any, Any], np.ndarray]
    score: Callable[[Any, Any], np.ndarray]
    local: Callable[[Any, Any], dict]
    table: str
    pictures: set[str]


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

    @pytest.mark.slow
    def test_explanations_are_data_and_can_be_drawn(self, case, tmp_path: Path) -> None:
        one, model, data = case
        explained, local = model.explain_global(), one.local(model, data)
        json.dumps([explained, local], allow_nan=False)
        assert max(explained["importances"].values()) > 0
        assert {"model", "unit", "importances"} <= set(explained)
        assert {"model", "unit", "prediction"} <= set(local)
        assert explained["model"] == local["model"] == model.kind
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
