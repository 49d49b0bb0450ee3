"""Every catalogued model is held to the same promises; a model without a case here fails."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foundation.errors import UnknownNameError
from lucid_models.catalogue import catalogue, load_catalogue_entry
from lucid_models.explanation.model_card import CardFacts, build_model_card, summarise_card
from lucid_models.explanation.plots import draw_explanations
from lucid_models.scoring import scorer_from_document
from lucid_models.utilisation.profiled_graphs import join_graphs
from lucid_models.utilisation.scorer import FIGURES


@dataclass(frozen=True)
class Case:
    fixture: str
    predict: Callable[[Any, Any], np.ndarray]
    score: Callable[[Any, Any], np.ndarray]
    local: Callable[[Any, Any], dict]
    table: str
    pictures: set[str]


def rows_of(model, throughput):
    return model.features_of(throughput).iloc[-1]


def graphs_of(solo):
    rows = join_graphs(solo)
    return rows.graphs, [bool(amp) for amp in rows.amp]


def figures(predictions):
    return np.array([[getattr(one, name) for name in FIGURES] for one in predictions])


CASES = {
    "packing": Case(
        "packing_model",
        lambda model, data: model.predict_table(data[0]),
        lambda scorer, data: scorer.predict(
            *(data[0][n] for n in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp"))
        ),
        lambda model, data: model.explain_local([50.0, 30.0, 5_000.0, 0.0]),
        "profiles",
        {"global_importances.png", "tree.png", "local_explanation.png"},
    ),
    "throughput": Case(
        "throughput_model",
        lambda model, data: model.predict(data),
        lambda scorer, data: scorer.predict_series(
            data.submitted_gpu_jobs, int(data.bin_start.iloc[0].timestamp())
        ),
        lambda model, data: model.explain_local(rows_of(model, data)),
        "throughput",
        {"global_importances.png", "shape_hour.png", "local_explanation.png"},
    ),
    "duration": Case(
        "duration_model",
        lambda model, data: model.predict(data),
        lambda scorer, data: scorer.predict(
            [{**row, "submit_time_s": row["submit_time"].timestamp()} for row in data.to_dict("records")]
        ),
        lambda model, data: model.explain_local(data.iloc[-1]),
        "jobs",
        {
            "global_importances.png",
            "shape_hour.png",
            "shape_log_gpus.png",
            "local_explanation.png",
            "local_account.png",
        },
    ),
    "utilisation": Case(
        "utilisation_model",
        lambda model, data: figures(model.predict(*graphs_of(data))),
        lambda scorer, data: figures(scorer.predict(*graphs_of(data))),
        lambda model, data: model.explain_local(*(column[0] for column in graphs_of(data))),
        "zoo_profiles",
        {"global_importances.png", "local_explanation.png"},
    ),
    "node_demand": Case(
        "node_demand_model",
        lambda model, data: model.predict(data),
        lambda scorer, data: scorer.predict_series(data.running, round(data.start_s))["near_mean"],
        lambda model, data: model.explain_local(rows_of(model, data)),
        "node_bins",
        {"global_importances.png", "shape_hour.png", "local_explanation.png"},
    ),
    "inference_load": Case(
        "inference_load_model",
        lambda model, data: model.predict(data),
        lambda scorer, data: scorer.predict_series(data.usage, round(data.start_s)),
        lambda model, data: model.explain_local(rows_of(model, data)),
        "load_series",
        {"global_importances.png", "shape_hour.png", "local_explanation.png"},
    ),
    "waits": Case(
        "wait_model",
        lambda model, data: model.predict(*data),
        lambda scorer, data: scorer.forecast(*data),
        lambda model, data: model.explain_local(
            model.scorer.features.matrix(data[0])[0].tolist(), data[1][0]
        ),
        "waiting_queue",
        {"global_importances.png", "local_explanation.png"},
    ),
}


def test_every_catalogued_model_has_a_case() -> None:
    assert set(CASES) == set(catalogue())
    assert all(entry.kind == kind == entry.model.kind for kind, entry in catalogue().items())


@pytest.fixture(params=sorted(CASES))
def case(request) -> tuple[Case, Any, Any]:
    case = CASES[request.param]
    return case, request.getfixturevalue(case.fixture), request.getfixturevalue(case.table)


@pytest.mark.slow
def test_saved_form_is_plain_json_and_gives_the_same_model(case) -> None:
    one, model, data = case
    document = json.loads(json.dumps(model.to_data(), allow_nan=False))
    twin = type(model).from_data(document)
    np.testing.assert_array_equal(one.predict(twin, data), one.predict(model, data))
    assert twin.to_data() == model.to_data()


def test_the_live_scorer_equals_the_model(case) -> None:
    one, model, data = case
    scorer = scorer_from_document(json.loads(json.dumps(model.to_data())))
    np.testing.assert_allclose(one.score(scorer, data), one.predict(model, data), rtol=0, atol=1e-9)


def test_predictions_are_finite_and_not_negative(case) -> None:
    one, model, data = case
    predicted = one.predict(model, data)
    assert np.isfinite(predicted).all()
    assert (predicted >= 0).all()


@pytest.mark.slow
def test_explanations_are_data_and_can_be_drawn(case, tmp_path: Path) -> None:
    one, model, data = case
    explained, local = model.explain_global(), one.local(model, data)
    json.dumps([explained, local], allow_nan=False)
    assert max(explained["importances"].values()) > 0
    assert {"model", "unit", "importances"} <= set(explained)
    assert {"model", "unit", "prediction"} <= set(local)
    assert explained["model"] == local["model"] == model.kind
    for shape in explained.get("shapes", {}).values():
        assert len(shape["scores"]) == len(shape["spread"]) == len(shape["rows"]) == len(shape["cuts"]) + 1
    drawn = draw_explanations(explained, tmp_path, local=local)
    assert {path.name for path in drawn} >= one.pictures
    # Besides those, the shapes of the most important features.
    assert all(path.name.startswith("shape_") for path in drawn if path.name not in one.pictures)
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5_000


@pytest.mark.slow
@pytest.mark.parametrize("case", ["duration", "packing"], indirect=True)  # with all kinds of pictures
def test_drawing_twice_gives_the_same_bytes(case, tmp_path: Path) -> None:
    one, model, data = case
    first, second = (
        draw_explanations(model.explain_global(), tmp_path / name, local=one.local(model, data))
        for name in "ab"
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_card_says_data_split_metrics_and_rivals(case) -> None:
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


def test_an_unknown_kind_lists_the_known() -> None:
    with pytest.raises(
        UnknownNameError,
        match="duration, inference_load, node_demand, packing, throughput, utilisation, waits",
    ):
        load_catalogue_entry("weather")
