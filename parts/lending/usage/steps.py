"""How the inference load model is trained, and a forecast of its explained."""

from collections.abc import Sequence
from datetime import UTC, datetime

from cluster_logs.lake import Lake
from parts.lending.load.series import read_inference_series
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel, refuse_jobs
from pipeline.training.model_steps import LearnedFrom, ModelSteps, TrainingTask


def _train(task: TrainingTask, *, utc_offset_hours: float = 0.0) -> object:
    from parts.lending.usage.fitting import LoadSettings
    from parts.lending.usage.training import train_inference_load

    settings = LoadSettings(utc_offset_s=round(utc_offset_hours * 3_600))
    return train_inference_load(**task.of_lake, settings=settings)


def _explain(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    """The forecast at the end of the lake's newest bin."""
    refuse_jobs(model, job_ids, forecasts="the usage of servers", explained="bin is")
    fitted = model.parts[""]
    series = read_inference_series(
        lake.read_series("inference_load", cluster), bin_s=fitted.scorer.features.bin_s
    )
    known_at = datetime.fromtimestamp(series.last_bin_start_s + series.bin_s, UTC)
    local = fitted.explain_local(fitted.features_of(series).iloc[-1])
    return [ExplainedPrediction("usage of the inference servers", "", known_at, local)]


# Below two days the model is a moving average.
STEPS = ModelSteps(_explain, _train, LearnedFrom("inference_load", "inference load", 1))
