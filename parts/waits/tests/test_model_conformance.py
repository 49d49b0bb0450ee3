"""The Wait Model is held to what all models are (`tests.lucid_models.model_conformance`)."""

import pytest

from tests.lucid_models.model_conformance import Case, ModelConformance

CASE = Case(
    "waits",
    "wait_model",
    lambda model, data: model.predict(*data),
    lambda scorer, data: scorer.forecast(*data),
    lambda model, data: model.explain_local(model.scorer.features.matrix(data[0])[0].tolist(), data[1][0]),
    "waiting_queue",
    {"global_importances.png", "local_explanation.png"},
    """
rows = np.linspace(-3.0, 9.0, 3 * len(scorer.features.names)).reshape(3, -1)
numbers = scorer.forecast_rows(rows, ["cpu", "gpu", "new"])
""",
)


class TestWaitModel(ModelConformance):
    """What every kind of model promises."""

    @pytest.fixture
    def case(self, request):
        return CASE, request.getfixturevalue(CASE.fixture), request.getfixturevalue(CASE.table)
