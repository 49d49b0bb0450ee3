"""The Inference Load Model is held to what all models are (`tests.lucid_models.model_conformance`)."""

import pytest

from tests.lucid_models.model_conformance import Case, ModelConformance

CASE = Case(
    "inference_load",
    "inference_load_model",
    lambda model, data: model.predict(data),
    lambda scorer, data: scorer.predict_series(data.usage, round(data.start_s)),
    lambda model, data: model.explain_local(model.features_of(data).iloc[-1]),
    "load_series",
    {"global_importances.png", "shape_hour.png", "local_explanation.png"},
    """
ahead = scorer.forecast(np.arange(900.0) % 7 / 7, 1_600_200_000.0)
numbers = [ahead.mean, *ahead.quantiles.values()]
""",
)


class TestInferenceLoadModel(ModelConformance):
    """What every kind of model promises."""

    @pytest.fixture
    def case(self, request):
        return CASE, request.getfixturevalue(CASE.fixture), request.getfixturevalue(CASE.table)
