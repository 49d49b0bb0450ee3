"""Profiles and graphs in, a registered version of the utilisation model out."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from lucid_models.evaluation.measures import Row
from lucid_models.explanation.model_card import CardFacts
from lucid_models.training_data import profile_dataset
from lucid_models.training_log import TrainedModel, TrainReport, measures_by_model, register_model
from parts.horus.evaluation import OURS, evaluate_utilisation
from parts.horus.model import UtilisationModel, UtilisationSettings, join_graphs
from pipeline.training.explanations import ExplainedPrediction, RegisteredModel
from pipeline.training.model_steps import ModelSteps

_RIVALS = ("mean", "batch_size")
_METRICS = (
    "mae",
    "mape",
    "rmse",
    "spearman",
    "careful_mae",
    "under_share",
    "under_models",
    "under_mean",
    "within_models",
)
_EXAMPLE_ROWS = 5


def train_utilisation(
    *,
    solo: pd.DataFrame,
    tracking_uri: str,
    progress: Progress = silent,
) -> TrainReport:
    """Train and register the model that predicts from graphs, of the device that was profiled.

    Measured by leaving out all configurations of one model at a time; metrics are named TARGET_METRIC.
    Raises BadInputError for profiles that teach nothing, ServiceUnavailableError when MLflow does not answer.
    """
    utilisation_settings = UtilisationSettings()
    rows = join_graphs(solo, None)
    evaluated = evaluate_utilisation(
        solo, settings=utilisation_settings, models=(OURS, *_RIVALS), progress=progress
    )
    metrics, baselines = measures_by_model(map(_measures, evaluated), OURS, ("model",))
    model = UtilisationModel(utilisation_settings).fit_joined(rows)
    table = pd.DataFrame(
        {name: values for name, values in rows.columns.items() if name != "operators"} | {"amp": rows.amp}
    )
    measured = pd.DataFrame(
        {
            "job_type": rows.job_types,
            "device": rows.device,
            "gpu_util_pct": rows.gpu_util_pct,
            "gpu_mem_util_pct": rows.gpu_mem_util_pct,
            "gpu_mem_mib": rows.gpu_mem_mib,
        }
    )
    dataset = profile_dataset(measured, table)
    trained = TrainedModel(
        kind=model.kind,
        document=model.to_data(),
        dataset=dataset,
        params=asdict(utilisation_settings),
        metrics=metrics,
        baselines=baselines,
        card=CardFacts(
            kind=model.kind,
            data=f"{dataset.source}, with the graphs of what was profiled",
            training_window="all profiled configurations with a graph",
            test_window="the models left out in turn",
            split="leave one model out, with all its configurations",
            metrics=metrics,
            baselines=baselines,
            rows={"configurations": len(rows), "profiles_without_graph": rows.without_graph},
            simulated=rows.simulated,
        ),
        example=table.head(_EXAMPLE_ROWS),
        explained={"": model.explain_global()},
        local=model.explain_local(rows.graphs[0], bool(rows.amp[0])),
        tags={"simulated_profiles": str(rows.simulated).lower(), "device": rows.device},
    )
    return register_model(trained, tracking_uri, 0)


def _measures(row: Row) -> Row:
    """Of a row of the evaluation those measures that are logged, named TARGET_METRIC."""
    finite = {name: row[name] for name in _METRICS if row[name] is not None and np.isfinite(row[name])}
    return {"model": row["model"], **{f"{row['target']}_{name}": value for name, value in finite.items()}}


def _explain(
    model: RegisteredModel, lake: Lake, cluster: str, job_ids: Sequence[str]
) -> list[ExplainedPrediction]:
    raise BadInputError(
        f"The {model.kind} model reads graphs, which a lake does not hold.",
        remedy="`lucid predict-profile --onnx FILE` explains its predictions.",
    )


STEPS = ModelSteps(_explain)
