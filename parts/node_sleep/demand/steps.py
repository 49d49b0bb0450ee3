"""How the node demand model is trained, and a forecast of its explained."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from cluster_logs.lake import Lake
from cluster_logs.node_series import read_node_series
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel, refuse_jobs
from pipeline.training.model_steps import LearnedFrom, ModelSteps, TrainingTask


def _train(
    task: TrainingTask,
    *,
    near_bins: int | None = None,
    utc_offset_hours: float = 0.0,
    holidays: Sequence[str] = (),
) -> object:
    """Train it for a look ahead (None: the default); `holidays` are days such as 2017-12-25."""
    from parts.node_sleep.demand.features import read_holidays
    from parts.node_sleep.demand.model import DemandSettings
    from parts.node_sleep.demand.training import train_node_demand

    settings = DemandSettings(
        utc_offset_s=round(utc_offset_hours * 3_600), holidays=read_holidays(list(holidays))
    )
    if near_bins is not None:
        settings = replace(settings, near_bins=near_bins)
    return train_node_demand(**task.of_lake, settings=settings)


def _explain(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    """The forecast at the end of the lake's newest bin."""
    refuse_jobs(model, job_ids, forecasts="busy nodes", explained="hours are")
    bins = read_node_series(lake.read_node_states(cluster)).bins()
    known_at = datetime.fromtimestamp(bins.times_s[-1] + bins.step_s, UTC)
    fitted = model.parts[""]
    local = fitted.explain_local(fitted.features_of(bins).iloc[-1])
    return [ExplainedPrediction("busy nodes of the next hours", "", known_at, local)]


# Four days to learn from, and a fifth of the whole to be measured on.
STEPS = ModelSteps(_explain, _train, LearnedFrom("node_states", "counts of nodes", 7))
