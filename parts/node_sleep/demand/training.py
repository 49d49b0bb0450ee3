"""Counts of nodes in, a registered version of the node demand model out, and a forecast of it explained."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from cluster_logs.lake import Lake
from cluster_logs.node_series import read_node_series
from foundation.progress import Progress, silent
from lucid_models.series.training import FittedSeries, ended_bins, example_bins, train_series
from lucid_models.training_data import read_training_series
from lucid_models.training_log import Metrics, TrainReport, measures_by_model
from parts.node_sleep.demand.evaluation import OURS, evaluate_node_demand
from parts.node_sleep.demand.features import read_holidays
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel, refuse_jobs
from pipeline.training.model_steps import LearnedFrom, ModelSteps, TrainingTask


def train_node_demand(
    *,
    lake_uri: str,
    cluster: str,
    tracking_uri: str,
    train_until: datetime | None = None,
    seed: int = 0,
    settings: DemandSettings | None = None,
    progress: Progress = silent,
) -> TrainReport:
    """Train and register the Node Demand Model of a cluster's table `node_states`.

    Raises BadInputError when the history is too short, NotFoundError when the lake has no counts of nodes,
    ServiceUnavailableError when MLflow does not answer.
    """
    base = settings or DemandSettings()
    chosen = replace(base, boosting=replace(base.boosting, seed=seed))
    data = read_training_series(lake_uri, cluster, train_until, "node_states")
    bins = read_node_series(data.table).bins()
    bins = bins.first(ended_bins(bins.times_s, bins.step_s, data, 1, "node counts"))

    def measure() -> tuple[Metrics, Mapping[str, Metrics]]:
        rows = evaluate_node_demand(bins, data.tail_start.timestamp(), chosen)
        return measures_by_model(rows, OURS, ("model", "bins"))

    def fit() -> FittedSeries:
        model = NodeDemandModel(chosen).fit(bins)
        return FittedSeries(
            model.to_data(),
            {**asdict(chosen), "holidays": [day.isoformat() for day in chosen.holidays]},
            example_bins(bins.times_s, "busy", bins.running),
            model.explain_targets(),
            model.explain_local(model.features_of(bins).iloc[-1]),
            {"bins": bins.running.size, "of_these_not_counted_and_held": int(bins.held.sum())},
            {"near_bins": str(chosen.near_bins)},
        )

    return train_series(
        NodeDemandModel.kind,
        data,
        measure,
        fit,
        cluster=cluster,
        tracking_uri=tracking_uri,
        seed=seed,
        progress=progress,
    )


def _train(
    task: TrainingTask,
    *,
    near_bins: int | None = None,
    utc_offset_hours: float = 0.0,
    holidays: Sequence[str] = (),
) -> object:
    """Train it for a look ahead (None: the default); `holidays` are days such as 2017-12-25."""
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
