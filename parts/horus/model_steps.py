"""Why predictions from graphs are not explained from a lake."""

from collections.abc import Sequence

from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel
from pipeline.training.model_steps import ModelSteps


def _explain(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    raise BadInputError(
        f"The {model.kind} model reads graphs, which a lake does not hold.",
        remedy="`lucid predict-profile --onnx FILE` explains its predictions.",
    )


STEPS = ModelSteps(_explain)
