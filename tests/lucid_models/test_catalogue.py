"""Every catalogued model is held to the same promises; a model without a case here fails."""

import re
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


CASES = (
    Case(
        "packing",
        "packing_model",
        lambda model, data: model.predict_table(data[0]),
        lambda scorer, data: scorer.predict(
            *(data[0][n] for n in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib", "amp"))
        ),
        lambda model, data: model.explain_local([50.0, 30.0, 5_000.0, 0.0]),
        "profiles",
        {"global_importances.png", "tree.png", "local_explanation.png"},
        "numbers = scorer.predict([10.0, np.nan], [5.0, 50.0], [2e3, 2e4], [0, 1])",
    ),
    Case(
        "throughput",
        "throughput_model",
        lambda model, data: model.predict(data),
        lambda scorer, data: scorer.predict_series(
            data.submitted_gpu_jobs, int(data.bin_start.iloc[0].timestamp())
        ),
        lambda model, data: model.explain_local(rows_of(model, data)),
        "throughput",
        {"global_importances.png", "shape_hour.png", "local_explanation.png"},
        "numbers = scorer.predict_next(np.arange(300) % 7, 1_600_000_000, 7)",
    ),
    Case(
        "duration",
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
        """
job = {"job_id": "q", "gpus": 4, "user": "u1", "name": "net1_lr0", "virtual_cluster": "vc1"}
estimate = scorer.estimate([job], at_s=1_587_000_000.0)[0]
numbers = [estimate.p50_s, estimate.p90_s, estimate.mean_s]
""",
    ),
)


OF_CORE = {case.kind: case for case in CASES}


def test_every_catalogued_model_has_a_case() -> None:
    tests = "".join(file.read_text() for file in ROOT.glob("parts/*/tests/**/*.py"))
    held_by_parts = offered("models").keys() & re.findall(r"""\bCase\(\s*"(\w+)",""", tests)
    assert set(OF_CORE) | held_by_parts == set(catalogue())
    assert all(entry.kind == kind == entry.model.kind for kind, entry in catalogue().items())


@pytest.fixture(params=sorted(OF_CORE))
def case(request) -> tuple[Case, Any, Any]:
    case = OF_CORE[request.param]
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
