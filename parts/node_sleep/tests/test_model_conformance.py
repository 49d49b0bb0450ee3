"""The Node Demand Model is held to what all models are (`tests.lucid_models.model_conformance`)."""

import pytest

from tests.lucid_models.model_conformance import Case, ModelConformance

CASE = Case(
    "node_demand",
    "node_demand_model",
    lambda model, data: model.predict(data),
    lambda scorer, data: scorer.predict_series(data.running, round(data.start_s))["near_mean"],
    lambda model, data: model.explain_local(model.features_of(data).iloc[-1]),
    "node_bins",
    {"global_importances.png", "shape_hour.png", "local_explanation.png"},
    """
said = scorer.forecast(np.arange(3_000.0) % 7, 1_600_200_000.0)
numbers = [said.near_mean, said.far_mean, *said.near_peak.values()]
""",
)


class TestNodeDemandModel(ModelConformance):
    """What every kind of model promises."""

    @pytest.fixture
    def case(self, request):
        return CASE, request.getfixturevalue(CASE.fixture), request.getfixturevalue(CASE.table)
