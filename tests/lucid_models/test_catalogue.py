"""Every catalogued model is held to the same promises; a model without a case here fails."""

from pathlib import Path
from typing import Any

import pytest

from foundation.errors import UnknownNameError
from foundation.parts import offered
from lucid_models.catalogue import catalogue, load_catalogue_entry
from lucid_models.explanation.plots import draw_explanations
from tests.lucid_models.model_conformance import Case, ModelConformance

ROOT = Path(__file__).parents[2]


def rows_of(model, throughput):
    return model.features_of(throughput).iloc[-1]


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
    tests = "".join(file.read_text() for file in ROOT.glob("parts/*/tests/*.py"))
    held_by_parts = {kind for kind in offered("models").keys() - CASES if f'"{kind}_model",' in tests}
    assert set(CASES) | held_by_parts == set(catalogue())
    assert all(entry.kind == kind == entry.model.kind for kind, entry in catalogue().items())


@pytest.fixture(params=sorted(CASES))
def case(request) -> tuple[Case, Any, Any]:
    case = CASES[request.param]
    return case, request.getfixturevalue(case.fixture), request.getfixturevalue(case.table)


class TestModels(ModelConformance):
    """All of the catalogue."""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["duration", "packing"], indirect=True)  # with all kinds of pictures
def test_drawing_twice_gives_the_same_bytes(case, tmp_path: Path) -> None:
    one, model, data = case
    first, second = (
        draw_explanations(model.explain_global(), tmp_path / name, local=one.local(model, data))
        for name in "ab"
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_an_unknown_kind_lists_the_known() -> None:
    with pytest.raises(UnknownNameError, match=", ".join(sorted(catalogue()))):
        load_catalogue_entry("weather")
