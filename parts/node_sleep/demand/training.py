"""Counts of nodes in, a registered version of the node demand model out."""

from dataclasses import asdict, replace
from datetime import datetime

import pandas as pd

from cluster_logs.node_series import NodeSeries, read_node_series
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.training_data import read_training_series
from lucid_models.training_log import (
    TrainedModel,
    TrainReport,
    log_card,
    log_tags,
    measures_by_model,
    register_model,
)
from parts.node_sleep.demand.evaluation import OURS, evaluate_node_demand, first_bins
from parts.node_sleep.demand.model import DemandSettings, NodeDemandModel

_EXAMPLE_BINS = 300


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
    demand_settings = replace(base, boosting=replace(base.boosting, seed=seed))
    data = read_training_series(lake_uri, cluster, train_until, "node_states")
    bins = whole_bins(read_node_series(data.table).bins(), data.until.timestamp())
    progress(0, 3, "validation fit")
    rows = evaluate_node_demand(bins, data.tail_start.timestamp(), demand_settings)
    metrics, baselines = measures_by_model(rows, OURS, ("model", "bins"))
    progress(1, 3, "final fit")
    model = NodeDemandModel(demand_settings).fit(bins)
    progress(2, 3, "logging")
    counted = {"bins": bins.running.size, "of_these_not_counted_and_held": int(bins.held.sum())}
    trained = TrainedModel(
        kind=model.kind,
        document=model.to_data(),
        dataset=data.dataset,
        params=_params(demand_settings),
        metrics=metrics,
        baselines=baselines,
        card=log_card(model.kind, data, metrics, baselines, counted),
        example=_example(bins),
        explained=model.explain_targets(),
        local=model.explain_local(model.features_of(bins).iloc[-1]),
        tags={**log_tags(data, cluster), "near_bins": str(demand_settings.near_bins)},
    )
    report = register_model(trained, tracking_uri, seed)
    progress(3, 3, "registered")
    return report


def whole_bins(bins: NodeSeries, until_s: float) -> NodeSeries:
    """The bins that had ended by `until_s`; raises BadInputError without any."""
    ended = int((bins.times_s + bins.step_s <= until_s).sum())
    if not ended:
        raise BadInputError("No bin of node counts has ended.", remedy="Train until a later time.")
    return first_bins(bins, ended)


def _params(settings: DemandSettings) -> dict[str, object]:
    return {
        **asdict(settings),
        "holidays": [day.isoformat() for day in settings.holidays],
        "quantiles": list(settings.quantiles),
    }


def _example(bins: NodeSeries) -> pd.DataFrame:
    recent = slice(-_EXAMPLE_BINS, None)
    return pd.DataFrame({"bin_start_s": bins.times_s[recent].astype("int64"), "busy": bins.running[recent]})
